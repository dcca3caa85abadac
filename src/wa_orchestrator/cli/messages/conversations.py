"""`wa-orchestrator conversations …` and `quick-replies …`: the inbox, and its saved answers."""

from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import Invocation, command, group, nothing_to_change

app = group("Conversations: list, show, change, read.")
quick_replies = group("Quick replies: list, put, delete.")
ConversationId = Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id, from `conversations list`.")]
_COLUMNS = {
    "conversation": "conversationId", "session": "sessionId", "who": "who", "state": "state", "unread": "unread",
    "last": "lastAt", "text": "text", "assigned to": "assignedTo",
}  # fmt: skip
_MESSAGE_COLUMNS = {"when": "at", "who": "who", "kind": "kind", "text": "text", "status": "status"}


def _who(contact: dict[str, Any] | None, group_id: str | None = None) -> str:
    contact = contact or {}
    return str(group_id or contact.get("name") or contact.get("phone") or contact.get("lid") or "")


@command(app, "list")
def listed(
    run: Invocation,
    *,
    state: Annotated[str | None, typer.Option(help="Only waiting, open or closed ones.")] = None,
    session: Annotated[str | None, typer.Option(help="Only this session's.")] = None,
    assigned_to: Annotated[str | None, typer.Option(help="Only those assigned to this account id.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None,
    search: Annotated[str | None, typer.Option(help="Search in number, name and text.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Maximum number of conversations.")] = 50,
) -> None:
    """List conversations, those that wait for an answer first."""
    filters = {"state": state, "session_id": session, "assigned_to": assigned_to, "tag": tag, "search": search}
    found = run.client.conversations(**filters, limit=limit)
    rows = [
        each | {"who": _who(each["contact"], each["group"]), "text": (each["lastMessage"] or {}).get("text")}
        for each in found["conversations"]
    ]
    empty = "No matches." if any(filters.values()) else "Nobody has written yet."
    run.output(found, lambda: tables.table(_COLUMNS, rows, empty=empty))


@command(app)
def show(
    run: Invocation,
    conversation_id: ConversationId,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Number of messages, the newest ones.")] = 20,
) -> None:
    """Show a conversation with its newest messages, the newest last."""
    found = run.client.conversation(conversation_id)
    page = run.client.conversation_messages(conversation_id, limit=limit)
    rows = [
        each | {"who": _who(each["from"]) if each["direction"] == "in" else "we"} for each in reversed(page["messages"])
    ]

    def show_all() -> None:
        who = _who(found["contact"], found["group"])
        tables.line(f"{who} with {found['sessionId']}, {found['state']}, {found['unread']} unread")
        tables.table(_MESSAGE_COLUMNS, rows, empty="It has no messages.")

    run.output(found | {"messages": page["messages"]}, show_all)


@command(app)
def change(
    run: Invocation,
    conversation_id: ConversationId,
    *,
    state: Annotated[str | None, typer.Option(help="open or closed.")] = None,
    assigned_to: Annotated[str | None, typer.Option(help="Account id of a person; '' unassigns.")] = None,
    notes: Annotated[str | None, typer.Option(help="Notes for people; '' removes them.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Replaces all tags; '' removes them.")] = None,
) -> None:
    """Change a conversation: state, assignee, notes, tags."""
    given = {"state": state, "assigned_to": assigned_to, "notes": notes}
    changes: dict[str, Any] = {name: value or None for name, value in given.items() if value is not None}
    if tag is not None:
        changes["tags"] = [each for each in tag if each]
    if not changes:
        raise nothing_to_change("--state", "--assigned-to", "--notes", "--tag")
    changed = run.client.change_conversation(conversation_id, **changes)
    run.say(changed, f"{conversation_id} is {changed['state']}.")


@command(app)
def read(
    run: Invocation,
    conversation_id: ConversationId,
    *,
    unread: Annotated[bool, typer.Option("--unread", help="Mark it as unread instead.")] = False,
) -> None:
    """Mark a conversation as read in the inbox; WhatsApp is not told."""
    changed = run.client.mark_conversation_read(conversation_id, unread=unread)
    run.say(changed, f"{conversation_id} has {changed['unread']} unread.")


ReplyName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the quick reply.")]


@command(quick_replies, "list")
def list_quick_replies(run: Invocation) -> None:
    """List quick replies."""
    _output(run, run.client.quick_replies())


@command(quick_replies)
def put(run: Invocation, name: ReplyName, text: Annotated[str, typer.Argument(help="The text.")]) -> None:
    """Save a quick reply under a name."""
    made = run.client.put_quick_reply(name, text)
    run.say(made, f"{made['name']}: {made['text']}")


@command(quick_replies)
def delete(run: Invocation, name: ReplyName) -> None:
    """Delete a quick reply."""
    _output(run, run.client.delete_quick_reply(name))


def _output(run: Invocation, found: dict[str, Any]) -> None:
    empty = "There are no quick replies."
    run.output(found, lambda: tables.table({"name": "name", "text": "text"}, found["quickReplies"], empty=empty))
