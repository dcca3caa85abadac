"""`wa-orchestrator send`: one message, and what becomes of it."""

import mimetypes
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from wa_orchestrator.cli import tables, times
from wa_orchestrator.cli.command import EXIT_FAILED, Desk, command
from wa_orchestrator.errors import Refused

SENT: Final = frozenset({"sent", "delivered", "read"})
ENDED: Final = frozenset({"failed", "expired", "cancelled"})
_LOOK_S: Final = 0.5


@command
def send(
    desk: Desk,
    to: Annotated[str, typer.Argument(metavar="TO", help="The recipient's number, with its country code.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text, or the caption of a file; `-` reads stdin.")
    ] = None,
    *,
    media: Annotated[Path | None, typer.Option(metavar="FILE", help="Upload and send this file.")] = None,
    location: Annotated[str | None, typer.Option(metavar="LAT,LON", help="Send a place; TEXT is its name.")] = None,
    session: Annotated[str | None, typer.Option(help="The session that sends it. Default: the server chooses.")] = None,
    phone: Annotated[str | None, typer.Option(help="The phone that sends it.")] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help='Not before: "+10m", "2030-01-31 09:00".')] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Not after.")] = None,
    reference: Annotated[str | None, typer.Option(help="Your own name for it.")] = None,
    priority: Annotated[int | None, typer.Option(min=1, max=3, help="1 goes first.")] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key sends the same message only once.")
    ] = None,
    defer: Annotated[bool, typer.Option("--defer", help="When the day is full, take it for the next day.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow it until WhatsApp has it. Exit code 1 if it fails.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="How long --wait waits.")] = None,
) -> None:
    """Send a message: a text, a file or a place."""
    text = sys.stdin.read().removesuffix("\n") if text == "-" else text
    _require_one(text, media, location)
    options: dict[str, Any] = {
        "session_id": session,
        "phone": phone,
        "send_at": times.parse(at, "--at") if at else None,
        "expires_at": times.parse(expires, "--expires") if expires else None,
        "on_limit": "defer" if defer else None,
        "reference": reference,
        "priority": priority,
        "idempotency_key": key,
    }
    taken = desk.client.send(to, **_carried(desk, text, media, location), **options)
    if wait:
        _wait(desk, str(taken["messageId"]), timeout)
    else:
        desk.answer(taken, lambda: _print_taken(taken))


def _require_one(text: str | None, media: Path | None, location: str | None) -> None:
    if media is not None and location is not None:
        raise Refused("AMBIGUOUS", "--location: a message carries a file or a place, not both.")
    if not text and media is None and location is None:
        raise Refused("NOTHING_TO_SEND", "There is nothing to send: give a text, --media or --location.")


def _wait(desk: Desk, message_id: str, timeout_s: float | None) -> None:
    ended = _follow(desk, message_id, timeout_s)
    desk.answer(ended, lambda: None)
    if ended["status"] not in SENT:
        raise typer.Exit(EXIT_FAILED)


def _carried(desk: Desk, text: str | None, media: Path | None, location: str | None) -> dict[str, Any]:
    if location is not None:
        return {"location": _place(location) | ({"name": text} if text else {})}
    if media is None:
        return {"message": text}
    mimetype = mimetypes.guess_type(media.name)[0] or "application/octet-stream"
    stored = desk.client.upload(_content(media), mimetype=mimetype)
    caption = {"caption": text} if text else {}
    return {"media": {"upload": stored["uploadId"], "filename": media.name, **caption}}


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Refused("BAD_FILE", f"--media: {file} cannot be read ({error.strerror}).") from None


def _place(text: str) -> dict[str, float]:
    try:
        latitude, longitude = map(float, text.split(","))
    except ValueError:
        raise Refused("BAD_PLACE", "--location: is no place. Example: --location 32.0853,34.7818") from None
    return {"latitude": latitude, "longitude": longitude}


def _print_taken(taken: dict[str, Any]) -> None:
    when = f", leaves about {tables.when(taken['eta'])}" if taken["eta"] else ""
    tables.line(f"{taken['messageId']} is queued at {taken['sessionId']}, place {taken['position']}{when}.")


def _follow(desk: Desk, message_id: str, timeout_s: float | None) -> dict[str, Any]:
    """Look until the message has been sent or has ended, telling people each change; the message as it is then."""
    ends_at = None if timeout_s is None else time.monotonic() + timeout_s
    before = ("", "")
    while True:
        message = desk.client.message(message_id)
        waiting = message["waiting"] or {}
        now = (message["status"], waiting.get("because", ""))
        if now != before and not desk.given.as_json:
            said = message["reasonText"] or message["reason"] or waiting.get("text", "")
            tables.line(f"{message_id} is {message['status']}" + (f": {said}" if said else "."))
        before = now
        if message["status"] in SENT | ENDED:
            return message
        if ends_at is not None and time.monotonic() >= ends_at:
            typer.echo(f"{message_id} is still {message['status']} after {timeout_s:g} s; it stays queued.", err=True)
            return message
        time.sleep(_LOOK_S)
