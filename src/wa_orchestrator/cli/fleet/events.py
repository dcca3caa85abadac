"""`wa-orchestrator events`: follow the event stream."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import Invocation, print_json

_RECONNECT_S: Final = 2.0
#: The server sends a comment every 15 s; without one for this long the connection is dead.
_READ_TIMEOUT_S: Final = 40.0
#: What an event is about, then what happened to it.
_SHOWN: Final = (
    "sessionId", "messageId", "proxyId", "conversationId", "webhookId", "campaign", "backup", "node", "directory",
    "state", "change", "phase", "outcome", "reason", "why", "note", "details", "text",
)  # fmt: skip


def events(
    run: Invocation,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Start after the event with this id; 0: all.")
    ] = None,
    types: Annotated[str | None, typer.Option(help="Only these types: message.*,session.connected")] = None,
    *,
    follow: Annotated[bool, typer.Option(help="Wait for new events until Ctrl-C.")] = True,
) -> None:
    """Follow the events of the server. With `--no-follow`: only past events."""
    print_events(run, after, types, follow=follow)


def print_events(
    run: Invocation, after: str | None, types: str | None, *, session_id: str | None = None, follow: bool
) -> None:
    """Print events, one per line, until there are no more or until Ctrl-C."""
    try:
        for event in _followed(run, after, types) if follow else _past(run, after, types):
            if session_id in (None, event["data"].get("sessionId")):
                _print(run, event)
    except KeyboardInterrupt:
        return


def _print(run: Invocation, event: dict[str, Any]) -> None:
    if run.options.as_json:
        print_json(event)
        return
    tables.line("  ".join([tables.when(event["timestamp"]), f"{event['type']:24}", *words_of(event["data"])]))


def words_of(data: Mapping[str, Any]) -> list[str]:
    """Return what a line says about an event, besides when it happened and its type."""
    contact = data.get("contact") or {}
    words = [str(data[name]) for name in _SHOWN if data.get(name)]
    progress = [f"{data['done']} of {data['total']}"] if data.get("total") else []
    who = contact.get("phone") or contact.get("lid")
    return [*words, *progress, *([str(who)] if who else [])]


def _past(run: Invocation, after: str | None, types: str | None) -> Iterator[dict[str, Any]]:
    more = True
    while more:
        page = run.client.events(after=after, types=types, limit=500)
        yield from page["events"]
        after, more = page["next"], page["more"]


def _followed(run: Invocation, after: str | None, types: str | None) -> Iterator[dict[str, Any]]:
    """Yield all events from a cursor on. A broken stream is resumed after the last event."""
    from wa_orchestrator.client.errors import NoAnswerError, UnavailableError

    was_connected = False
    while True:
        try:
            for event in _stream(run, after, types):
                was_connected = True
                if event is not None:
                    after = event["id"]
                    yield event
        except (NoAnswerError, UnavailableError):
            if not was_connected:
                raise
        time.sleep(_RECONNECT_S)


def _stream(run: Invocation, after: str | None, types: str | None) -> Iterator[dict[str, Any] | None]:
    """Yield None when connected, then the events of one connection."""
    import httpx

    from wa_orchestrator.client.errors import NoAnswerError, error_in

    headers = {"X-API-Key": run.target.api_key} | ({"Last-Event-ID": after} if after else {})
    query = {"types": types} if types else None
    timeout = httpx.Timeout(10, read=_READ_TIMEOUT_S)
    try:
        with (
            httpx.Client(base_url=run.target.url, headers=headers, timeout=timeout, trust_env=False) as http,
            http.stream("GET", "/api/v1/events/stream", params=query) as response,
        ):
            if not response.is_success:
                response.read()
                raise error_in(response) or AssertionError("an error was expected")
            yield None
            yield from events_in(response.iter_lines())
    except httpx.HTTPError as error:
        raise NoAnswerError(error) from error


def events_in(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of a server-sent event stream; ours have one `data:` line each."""
    for text in lines:
        if text.startswith("data:"):
            yield json.loads(text.removeprefix("data:"))
