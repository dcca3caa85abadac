"""`wa-orchestrator events`: what happens, as it happens."""

import json
import time
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

import typer

from wa_orchestrator.cli import tables
from wa_orchestrator.cli.command import Desk, command, print_json

_AGAIN_S: Final = 2.0
#: The server shows a sign of life every 15 s; without one for so long the connection is dead.
_SILENCE_S: Final = 40.0
_AT_THE_FRONT: Final = ("sessionId", "messageId", "proxyId", "reason", "note", "text")


@command
def events(
    desk: Desk,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Begin after the event with this id; 0: all.")
    ] = None,
    types: Annotated[str | None, typer.Option(help="Only these, with commas: message.*,session.connected")] = None,
    *,
    follow: Annotated[bool, typer.Option(help="Go on with what happens next, until Ctrl-C.")] = True,
) -> None:
    """Follow what happens on the server. With `--no-follow`: what has happened, and no more."""
    found = _followed(desk, after, types) if follow else _past(desk, after, types)
    try:
        for event in found:
            _print(desk, event)
    except KeyboardInterrupt:
        return


def _print(desk: Desk, event: dict[str, Any]) -> None:
    if desk.given.as_json:
        print_json(event)
        return
    told = event["data"]
    contact = told.get("contact") or {}
    words = [str(told[name]) for name in _AT_THE_FRONT if told.get(name)]
    who = contact.get("phone") or contact.get("lid")
    tables.line("  ".join([tables.when(event["timestamp"]), f"{event['type']:24}", *words, *([who] if who else [])]))


def _past(desk: Desk, after: str | None, types: str | None) -> Iterator[dict[str, Any]]:
    more = True
    while more:
        page = desk.client.events(after=after, types=types, limit=500)
        yield from page["events"]
        after, more = page["next"], page["more"]


def _followed(desk: Desk, after: str | None, types: str | None) -> Iterator[dict[str, Any]]:
    """All events from a cursor on. A stream that breaks is taken up after the last event that came."""
    from wa_orchestrator.client import NoAnswer, Unavailable

    has_answered = False
    while True:
        try:
            for event in _stream(desk, after, types):
                has_answered = True
                if event is not None:
                    after = event["id"]
                    yield event
        except (NoAnswer, Unavailable):
            if not has_answered:
                raise
        time.sleep(_AGAIN_S)


def _stream(desk: Desk, after: str | None, types: str | None) -> Iterator[dict[str, Any] | None]:
    """One connection: None when it stands, then its events."""
    import httpx

    from wa_orchestrator.client import NoAnswer
    from wa_orchestrator.client.errors import error_in

    headers = {"X-API-Key": desk.target.api_key} | ({"Last-Event-ID": after} if after else {})
    query = {"types": types} if types else None
    timeout = httpx.Timeout(10, read=_SILENCE_S)
    try:
        with (
            httpx.Client(base_url=desk.target.url, headers=headers, timeout=timeout, trust_env=False) as http,
            http.stream("GET", "/api/v1/events/stream", params=query) as response,
        ):
            if not response.is_success:
                response.read()
                raise error_in(response) or AssertionError("an error was expected")
            yield None
            yield from events_in(response.iter_lines())
    except httpx.HTTPError as error:
        raise NoAnswer(error) from error


def events_in(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The events in the lines of a stream of ours, each of which holds its event in one `data:` line."""
    for text in lines:
        if text.startswith("data:"):
            yield json.loads(text.removeprefix("data:"))
