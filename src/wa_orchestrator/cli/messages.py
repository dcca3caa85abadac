"""`wa-orchestrator messages …`: search, show, cancel, retry."""

from itertools import islice
from typing import Annotated, Any

import typer

from wa_orchestrator.cli import tables, times
from wa_orchestrator.cli.command import Invocation, command, group

app = group("Messages of a running server: search, show, cancel, retry.")
MessageId = Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id, m_…")]
_COLUMNS = {
    "message": "messageId", "accepted": "acceptedAt", "status": "status", "session": "sessionId", "to": "to",
    "kind": "kind", "reference": "reference", "reason": "reason",
}  # fmt: skip
_FIELDS = {
    "message": "messageId", "status": "status", "reason": "reason", "waiting": "waiting", "expected at": "etaAt",
    "from": "from", "to": "to", "kind": "kind", "text": "text", "reference": "reference", "attempts": "attempts",
    "WhatsApp id": "whatsappId",
}  # fmt: skip


@command(app, "list", alias="search")
def listed(
    run: Invocation,
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
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = 50,
) -> None:
    """Search messages, the newest first."""
    filters = {"to": to, "session_id": session, "status": status, "reference": reference}
    filters["since"] = times.parse(since, "--since") if since else None
    filters["until"] = times.parse(until, "--until") if until else None
    found = list(islice(run.client.all_messages(**filters, limit=min(limit, 500)), limit))
    empty = "No matches." if any(filters.values()) else "There are no messages yet."
    run.output({"messages": found}, lambda: tables.table(_COLUMNS, found, empty=empty))


@command(app)
def show(run: Invocation, message_id: MessageId) -> None:
    """Show one message with its timeline and why it waits."""
    message = run.client.message(message_id)
    waiting = message["waiting"] or {}
    values = message | {
        "reason": message["reasonText"] or message["reason"],
        "waiting": waiting.get("text"),
        "etaAt": waiting.get("eta"),
        "from": f"{message['sessionId']} ({message['phone']})",
        "text": _text(message["content"]),
    }

    def show_all() -> None:
        tables.fields(_FIELDS, values)
        tables.line("")
        tables.table({"when": "at", "status": "status", "note": "note"}, message["timeline"])

    run.output(message, show_all)


@command(app)
def cancel(run: Invocation, message_id: MessageId) -> None:
    """Cancel a message that has not been claimed."""
    result = run.client.cancel(message_id)
    run.output(result, lambda: tables.line(f"{message_id} is {result['status']}."))


@command(app)
def retry(run: Invocation, message_id: MessageId) -> None:
    """Retry a failed message with the same WhatsApp id."""
    result = run.client.retry(message_id)
    run.output(result, lambda: tables.line(f"{message_id} is {result['status']} again."))


def _text(content: dict[str, Any] | None) -> str:
    content = content or {}
    return str(content.get("text") or content.get("caption") or content.get("name") or "")
