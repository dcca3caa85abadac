"""`wa-orchestrator groups …`: the groups of an account, their members, links and requests to join."""

from typing import Annotated

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.arguments import SessionId
from wa_orchestrator.cli.terminal.command import Invocation, command, group

app = group("Groups of an account: list, make, rename, leave, remove members, links, requests to join.")
GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id, …@g.us.")]
Person = Annotated[str, typer.Argument(metavar="PERSON", help="A phone, or lid:…")]
_NAMES = {"phone": "phone", "lid": "lid"}


@command(app, "list")
def list_(run: Invocation, session_id: SessionId) -> None:
    """List the groups that the account is in."""
    found = run.client.groups(session_id)
    columns = {"id": "id", "subject": "subject", "members": "size", "admin": "admin"}
    run.output(found, lambda: tables.table(columns, found["groups"], empty="The account is in no group."))


@command(app)
def show(run: Invocation, session_id: SessionId, group_id: GroupId) -> None:
    """Show a group with its members, as WhatsApp has them now."""
    found = run.client.group(session_id, group_id)

    def print_it() -> None:
        titles = {"subject": "subject", "members": "size", "made": "createdAt", "admins let in": "joinApproval"}
        tables.fields(titles, found)
        tables.table({**_NAMES, "admin": "admin"}, found["members"])

    run.output(found, print_it)


@command(app)
def create(run: Invocation, session_id: SessionId, subject: Annotated[str, typer.Argument()]) -> None:
    """Create a group without other members; people join by its link."""
    made = run.client.create_group(session_id, subject)
    run.say(made, f"{made['id']} was created. Its link: wa-orchestrator groups link.")


@command(app)
def change(
    run: Invocation,
    session_id: SessionId,
    group_id: GroupId,
    *,
    subject: Annotated[str | None, typer.Option(help="Another name.")] = None,
    approval: Annotated[
        bool | None, typer.Option("--approval/--no-approval", help="Whether admins decide who joins by the link.")
    ] = None,
) -> None:
    """Rename a group, or have its admins decide who joins."""
    wanted = {"subject": subject, "join_approval": approval}
    changes = {name: value for name, value in wanted.items() if value is not None}
    run.say(run.client.change_group(session_id, group_id, **changes), "Done.")


@command(app)
def leave(run: Invocation, session_id: SessionId, group_id: GroupId) -> None:
    """Leave a group."""
    run.say(run.client.leave_group(session_id, group_id), "The account has left the group.")


@command(app)
def remove(run: Invocation, session_id: SessionId, group_id: GroupId, person: Person) -> None:
    """Remove somebody from a group."""
    run.say(run.client.remove_group_member(session_id, group_id, person), "Removed.")


@command(app)
def link(
    run: Invocation,
    session_id: SessionId,
    group_id: GroupId,
    *,
    renew: Annotated[bool, typer.Option("--renew", help="Make a new link; the old one stops working.")] = False,
) -> None:
    """Print the link by which people join."""
    found = run.client.group_link(session_id, group_id, renew=renew)
    run.say(found, found["link"])


@command(app)
def requests(run: Invocation, session_id: SessionId, group_id: GroupId) -> None:
    """List requests to join."""
    found = run.client.join_requests(session_id, group_id)
    columns = {**_NAMES, "asked": "at"}
    run.output(found, lambda: tables.table(columns, found["requests"], empty="There are no requests to join."))


@command(app)
def answer(
    run: Invocation,
    session_id: SessionId,
    group_id: GroupId,
    person: Person,
    *,
    reject: Annotated[bool, typer.Option("--reject", help="Reject the request.")] = False,
) -> None:
    """Approve a request to join."""
    result = run.client.answer_join_request(session_id, group_id, person, "reject" if reject else "approve")
    run.say(result, "Rejected." if reject else "They are in the group.")
