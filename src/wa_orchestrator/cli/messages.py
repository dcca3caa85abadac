"""`wa-orchestrator messages …`: what became of messages."""

from typing import Annotated, Any

import typer

from wa_orchestrator.cli import tables, times
from wa_orchestrator.cli.command import Desk, command, group

app = typer.Typer(help="Messages of a running server: search, show, cancel, retry.", invoke_without_command=True)
MessageId = Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id, m_…")]
_USUAL = 50


def _print(desk: Desk, limit: int, **question: str | None) -> None:
    found: list[dict[str, Any]] = []
    for message in desk.client.all_messages(**question, limit=min(limit, 500)):
        found.append(message)
        if len(found) == limit:
            break
    columns = ("message", "accepted", "status", "session", "to", "kind", "reference", "reason")
    rows = [
        (
            each["messageId"], tables.when(each["acceptedAt"]), each["status"], each["sessionId"], each["to"],
            each["kind"], each["reference"], each["reason"],
        )
        for each in found
    ]  # fmt: skip
    empty = "There are none such." if any(question.values()) else "There are no messages yet."
    desk.answer({"messages": found}, lambda: tables.table(columns, rows, empty=empty))


@app.callback()
@group
def index(desk: Desk) -> None:
    """Messages of a running server. Without a subcommand: the newest ones."""
    _print(desk, _USUAL)


@app.command("list")
@command
def listed(
    desk: Desk,
    *,
    to: Annotated[str | None, typer.Option(help="Only to this recipient.")] = None,
    session: Annotated[str | None, typer.Option(help="Only of this session.")] = None,
    status: Annotated[
        str | None,
        typer.Option(help="Only queued, scheduled, sending, sent, delivered, read, failed, expired or cancelled ones."),
    ] = None,
    reference: Annotated[str | None, typer.Option(help="Only with this reference.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help='Accepted since: "-2h", "2030-01-31".')] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Accepted until.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = _USUAL,
) -> None:
    """Search messages, the newest first."""
    _print(
        desk,
        limit,
        to=to,
        session_id=session,
        status=status,
        reference=reference,
        since=times.parse(since, "--since") if since else None,
        until=times.parse(until, "--until") if until else None,
    )


app.command("search", hidden=True)(listed)


@app.command()
@command
def show(desk: Desk, message_id: MessageId) -> None:
    """Show one message with its timeline and what it waits for."""
    _print_one(desk, desk.client.message(message_id))


@app.command()
@command
def cancel(desk: Desk, message_id: MessageId) -> None:
    """Cancel a message that has not been claimed."""
    told = desk.client.cancel(message_id)
    desk.answer(told, lambda: tables.line(f"{message_id} is {told['status']}."))


@app.command()
@command
def retry(desk: Desk, message_id: MessageId) -> None:
    """Give a failed message a new start, with the same WhatsApp id."""
    told = desk.client.retry(message_id)
    desk.answer(told, lambda: tables.line(f"{message_id} is {told['status']} again."))


def _print_one(desk: Desk, message: dict[str, Any]) -> None:
    waiting = message["waiting"] or {}
    facts = {
        "message": message["messageId"],
        "status": message["status"],
        "reason": message["reasonText"] or message["reason"],
        "waits": waiting.get("text"),
        "leaves": tables.when(waiting.get("eta")),
        "from": f"{message['sessionId']} ({message['phone']})",
        "to": message["to"],
        "kind": message["kind"],
        "text": _text(message["content"]),
        "reference": message["reference"],
        "attempts": message["attempts"],
        "WhatsApp id": message["whatsappId"],
    }

    def show_all() -> None:
        tables.facts(facts)
        tables.line("")
        rows = [(tables.when(each["at"]), each["status"], each["note"]) for each in message["timeline"]]
        tables.table(("when", "status", "note"), rows, empty="")

    desk.answer(message, show_all)


def _text(content: dict[str, Any] | None) -> str:
    """The words of a message, if it has any."""
    told = content or {}
    return str(told.get("text") or told.get("caption") or told.get("name") or "")
