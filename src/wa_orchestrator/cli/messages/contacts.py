"""`wa-orchestrator opt-outs …` and `contacts …`: people who are written to; `trash …`: deleted sessions."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wa_orchestrator.cli.messages.campaigns import read_file
from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.arguments import Yes
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, Invocation, all_pages, command, confirm, group
from wa_orchestrator.cli.terminal.download import print_stream, save

opt_outs = group("Recipients who want no messages: list, add, import, delete.")
contacts = group("People who wrote or were written to: list, export, erase.")
trash = group("Credentials of deleted sessions: list, restore.")
Phone = Annotated[str, typer.Argument(metavar="PHONE", help="With its country code, or `lid:` and the lid.")]


@command(opt_outs, "list")
def list_opt_outs(run: Invocation) -> None:
    """List recipients who opted out."""
    found = all_pages(partial(run.client.opt_outs, limit=500), "optOuts")
    columns = {"phone": "phone", "or id": "lid", "since": "at", "word": "word", "told": "via"}
    run.output(found, lambda: tables.table(columns, found["optOuts"], empty="Nobody opted out."))


@command(opt_outs)
def add(run: Invocation, phone: Phone) -> None:
    """Add a recipient to the opt-out list, and cancel their messages that wait."""
    made = run.client.add_opt_out(phone)
    run.say(made, f"{made['phone'] or phone} opted out; {made['cancelled']} messages were cancelled.")


@command(opt_outs, "import")
def import_opt_outs(
    run: Invocation, file: Annotated[Path, typer.Argument(help="One number per line, or CSV with `phone`; `-`: stdin.")]
) -> None:
    """Add the people of a file. Exit code 1 when a line was refused."""
    result = run.client.import_opt_outs(read_file(file))

    def show() -> None:
        tables.line(f"{result['added']} added, {result['known']} known, {result['cancelled']} messages cancelled.")
        for error in result["errors"]:
            typer.echo(f"line {error['line']}: {error['message']}", err=True)

    run.output(result, show)
    if result["errors"]:
        raise typer.Exit(EXIT_FAILED)


@command(opt_outs)
def delete(
    run: Invocation,
    recipient: Annotated[str, typer.Argument(metavar="RECIPIENT", help="A phone, or an id of `opt-outs list`.")],
    *,
    yes: Yes = False,
) -> None:
    """Let a recipient be written to again."""
    confirm(f"Has {recipient} asked to be written to again?", yes=yes)
    result = run.client.delete_opt_out(recipient)
    text = f"{recipient} may be written to again." if result["deleted"] else f"{recipient} had not opted out."
    run.say(result, text)


@command(contacts, "list")
def list_contacts(
    run: Invocation,
    *,
    text: Annotated[str | None, typer.Option(help="Search in number, name and messages.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of contacts.")] = 100,
) -> None:
    """List the people who wrote or were written to."""
    found = run.client.contacts(search=text, limit=limit)
    rows = [each | each["contact"] for each in found["contacts"]]
    columns = {
        "name": "name", "phone": "phone", "or id": "lid", "session": "sessionId", "last message": "lastAt",
        "tags": "tags", "opted out": "optedOut",
    }  # fmt: skip
    run.output(found, lambda: tables.table(columns, rows, empty="Nobody has written yet."))


@command(contacts)
def export(
    run: Invocation,
    phone: Phone,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to write; default: stdout.")] = None,
) -> None:
    """Write everything that is stored about a person, as JSON lines."""
    from wa_orchestrator.client.api_call import in_path

    path = f"/api/v1/contacts/{in_path(phone)}/export"
    if output is None:
        print_stream(run, path)
        return
    size = save(run, path, output)
    run.say({"file": str(output), "bytes": size}, f"{output}: {size} bytes.")


@command(contacts)
def erase(run: Invocation, phone: Phone, *, yes: Yes = False) -> None:
    """Erase what is stored about a person; an opt-out stays, so that nobody writes to them by mistake."""
    confirm(f"Erase everything that is stored about {phone}?", yes=yes)
    result = run.client.erase_contact(phone)
    stays = " They stay opted out." if result["optedOut"] else ""
    run.say(result, f"{result['phone']} was erased.{stays}")


@command(trash, "list")
def list_trash(run: Invocation) -> None:
    """List credentials of deleted sessions; they are kept for TRASH_DAYS."""
    found = run.client.trash()
    columns = {
        "trash": "id",
        "session": "sessionId",
        "phone": "phone",
        "label": "label",
        "why": "why",
        "deleted": "discardedAt",
    }
    run.output(found, lambda: tables.table(columns, found["trash"], empty="The trash is empty."))


@command(trash)
def restore(
    run: Invocation, trash_id: Annotated[str, typer.Argument(metavar="TRASH", help="From `trash list`.")]
) -> None:
    """Bring a deleted session back; it needs no scan if its phone still has the device."""
    result = run.client.restore_from_trash(trash_id)
    run.say(result, f"{result['sessionId']} is back.")
