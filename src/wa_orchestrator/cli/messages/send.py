"""`wa-orchestrator send`: send one message and optionally wait for it."""

import mimetypes
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from wa_orchestrator.cli.terminal import tables, times
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, Invocation
from wa_orchestrator.errors import Refused
from wa_orchestrator.texts import catalogue

SENT: Final = frozenset({"sent", "delivered", "read"})
ENDED: Final = frozenset({"failed", "unknown", "expired", "cancelled"})
_POLL_S: Final = 0.5


def send(
    run: Invocation,
    to: Annotated[
        str, typer.Argument(metavar="TO", help="The recipient's number with its country code, or @username.")
    ],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text, or the caption of a file; `-` reads stdin.")
    ] = None,
    *,
    media: Annotated[
        str | None, typer.Option(metavar="FILE", help="Upload and send this file; or an https:// URL.")
    ] = None,
    location: Annotated[str | None, typer.Option(metavar="LAT,LON", help="Send a location; TEXT is its name.")] = None,
    reply_to: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help="The message that it answers, m_… or i_….")
    ] = None,
    mention: Annotated[
        list[str] | None, typer.Option(metavar="PHONE", help="Somebody whom TEXT names as @PHONE; may be repeated.")
    ] = None,
    link_preview: Annotated[
        bool, typer.Option("--link-preview", help="Show the page that TEXT links to; the server reads it.")
    ] = False,
    session: Annotated[str | None, typer.Option(help="The session that sends it. Default: the server chooses.")] = None,
    phone: Annotated[str | None, typer.Option(help="The phone that sends it.")] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help='Not before: "+10m", "2030-01-31 09:00".')] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Not after.")] = None,
    reference: Annotated[str | None, typer.Option(help="Your own reference.")] = None,
    priority: Annotated[int | None, typer.Option(min=1, max=3, help="1 is sent first.")] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key sends the same message only once.")
    ] = None,
    defer: Annotated[bool, typer.Option("--defer", help="Past the daily limit, queue it for the next day.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until WhatsApp has accepted it. Exit code 1 if it fails.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Timeout of --wait.")] = None,
) -> None:
    """Send a text, a file or a location; `send-batch` sends what else WhatsApp has, such as polls."""
    text = sys.stdin.read().removesuffix("\n") if text == "-" else text
    _require_one(text, media, location)
    options: dict[str, Any] = {
        "reply_to": reply_to,
        "mentions": mention or None,
        "link_preview": link_preview or None,
        "session_id": session,
        "phone": phone,
        "send_at": times.parse(at, "--at") if at else None,
        "expires_at": times.parse(expires, "--expires") if expires else None,
        "on_limit": "defer" if defer else None,
        "reference": reference,
        "priority": priority,
        "idempotency_key": key,
    }
    accepted = run.client.send(to, **_content(run, text, media, location), **options)
    if not wait:
        run.output(accepted, lambda: _print_accepted(accepted))
        return
    message = _follow(run, str(accepted["messageId"]), timeout)
    run.output(message, lambda: None)
    if message["status"] not in SENT:
        raise typer.Exit(EXIT_FAILED)


def _require_one(text: str | None, media: str | None, location: str | None) -> None:
    if media is not None and location is not None:
        raise Refused("AMBIGUOUS", "--location: a message has a file or a location, not both.")
    if not text and media is None and location is None:
        raise Refused("NOTHING_TO_SEND", "There is nothing to send: pass TEXT, --media or --location.")


def _content(run: Invocation, text: str | None, media: str | None, location: str | None) -> dict[str, Any]:
    if location is not None:
        return {"location": _location(location) | ({"name": text} if text else {})}
    if media is None:
        return {"message": text}
    caption = {"caption": text} if text else {}
    if media.startswith("https://"):
        return {"media": {"url": media, **caption}}
    file = Path(media)
    mimetype = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    stored = run.client.upload(_read(file), mimetype=mimetype)
    return {"media": {"upload": stored["uploadId"], "filename": file.name, **caption}}


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Refused("BAD_FILE", f"--media: {file} cannot be read: {error.strerror}.") from None


def _location(text: str) -> dict[str, float]:
    try:
        latitude, longitude = map(float, text.split(","))
    except ValueError:
        raise Refused("BAD_PLACE", "--location: must be LAT,LON. Example: --location 32.0853,34.7818") from None
    return {"latitude": latitude, "longitude": longitude}


def _print_accepted(accepted: dict[str, Any]) -> None:
    when = f", expected at {tables.when(accepted['eta'])}" if accepted["eta"] else ""
    tables.line(
        f"{accepted['messageId']} is queued for {accepted['sessionId']} at position {accepted['position']}{when}."
    )
    for each in accepted.get("warnings", ()):
        tables.line(f"Warning: {_warning(each)}")


def _warning(warning: dict[str, Any]) -> str:
    known = catalogue.text("en", f"warning.{warning['code']}")
    return known.format(count=warning.get("count")) if known else str(warning["code"])


def _follow(run: Invocation, message_id: str, timeout_s: float | None) -> dict[str, Any]:
    """Poll until the message is sent or has failed, printing each change. Returns the message."""
    ends_at = None if timeout_s is None else time.monotonic() + timeout_s
    before = ("", "")
    while True:
        message = run.client.message(message_id)
        waiting = message["waiting"] or {}
        now = (message["status"], waiting.get("because", ""))
        if now != before and not run.options.as_json:
            reason = message["reasonText"] or message["reason"] or waiting.get("text", "")
            tables.line(f"{message_id} is {message['status']}" + (f": {reason}" if reason else "."))
        before = now
        if message["status"] in SENT | ENDED:
            return message
        if ends_at is not None and time.monotonic() >= ends_at:
            typer.echo(f"{message_id} is still {message['status']} after {timeout_s:g} s; it stays queued.", err=True)
            return message
        time.sleep(_POLL_S)
