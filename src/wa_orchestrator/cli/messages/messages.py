"""`wa-orchestrator messages …`: search, show, cancel, retry, confirm, send again, save media."""

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables, times
from wa_orchestrator.cli.terminal.command import Invocation, command, group
from wa_orchestrator.cli.terminal.command import confirm as ask_first
from wa_orchestrator.cli.terminal.download import save
from wa_orchestrator.domain.messages.message import MessageStatus

app = group("Messages of a running server: search, show, cancel, retry.")
MessageId = Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id, m_…")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
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
    session: Annotated[str | None, typer.Option(help="Only this session's.")] = None,
    status: Annotated[
        str | None,
        typer.Option(help=f"Only {', '.join(MessageStatus)} ones."),
    ] = None,
    reference: Annotated[str | None, typer.Option(help="Only with this reference.")] = None,
    batch: Annotated[str | None, typer.Option(help="Only of this batch or campaign, b_…")] = None,
    text: Annotated[str | None, typer.Option(help="Only with these words in text, caption or file name.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help='Accepted since: "-2h", "2030-01-31".')] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Accepted until.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of messages, newest first.")] = 50,
) -> None:
    """Search messages, the newest first."""
    filters = {"to": to, "session_id": session, "status": status, "reference": reference, "batch_id": batch}
    filters["text"] = text
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
        tables.table({"when": "at", "status": "status", "note": "note", "answer": "answer"}, message["timeline"])

    run.output(message, show_all)


@command(app)
def cancel(run: Invocation, message_id: MessageId) -> None:
    """Cancel a message that has not been claimed."""
    result = run.client.cancel(message_id)
    run.say(result, f"{message_id} is {result['status']}.")


@command(app)
def retry(run: Invocation, message_id: MessageId) -> None:
    """Retry a failed message with the same WhatsApp id."""
    result = run.client.retry(message_id)
    run.say(result, f"{message_id} is {result['status']} again.")


@command(app)
def confirm(run: Invocation, message_id: MessageId) -> None:
    """Settle a message of unknown outcome as sent: the recipient has it."""
    result = run.client.confirm(message_id)
    run.say(result, f"{message_id} is {result['status']}.")


@command(app)
def send_again(run: Invocation, message_id: MessageId, *, yes: Yes = False) -> None:
    """Send a message of unknown outcome again as a new one. The recipient may get it twice."""
    ask_first("The recipient may have it, and would get it twice. Send it again?", yes=yes)
    result = run.client.send_again(message_id)
    run.say(result, f"{result['messageId']} is queued; {message_id} stays as it is.")


@command(app)
def media(
    run: Invocation,
    message_id: MessageId,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="A new file.")],
) -> None:
    """Save the file that came with a message."""
    from wa_orchestrator.client.api_call import in_path

    size = save(run, f"/api/v1/messages/{in_path(message_id)}/media", output)
    run.say({"file": str(output), "bytes": size}, f"{output}: {size} bytes.")


def _text(content: dict[str, Any] | None) -> str:
    content = content or {}
    return str(content.get("text") or content.get("caption") or content.get("name") or "")
