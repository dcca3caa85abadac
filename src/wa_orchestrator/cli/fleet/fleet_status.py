"""`wa-orchestrator status`, `watch`, `logs`, `stats`, `radar`, `test-alert`: how the fleet is doing."""

import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from wa_orchestrator.cli.fleet import events
from wa_orchestrator.cli.terminal import tables, times
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, Invocation

SessionId = Annotated[str | None, typer.Argument(metavar="SESSION", help="Only this session's.")]
#: What it means that a part of `/ready` does not work.
_PARTS: Final = {
    "leader": "No orchestrator works: sessions are neither started nor watched.",
    "dispatcher": "No dispatcher works: messages are accepted, and wait.",
}
_CLEAR: Final = "\x1b[H\x1b[2J"
_COLUMNS = {
    "session": "sessionId", "label": "label", "status": "status", "phone": "phone", "sent today": "sent",
    "queued": "queued", "last ping": "lastPingAt",
}  # fmt: skip


def status(run: Invocation) -> None:
    """Show the fleet in one screen, and what needs a person. Exit code 1 when something does."""
    found = _read(run)
    run.output(found, lambda: _print(found))
    if needs_a_person(found):
        raise typer.Exit(EXIT_FAILED)


def needs_a_person(found: dict[str, Any]) -> list[dict[str, str]]:
    """Return what needs a person, and what to do: parts of the server that do not work come first."""
    missing = [told for part, told in _PARTS.items() if not found["ready"][part]]
    rows = [{"what": what, "do": "Wait a minute. Then start one, or look into its log."} for what in missing]
    return rows + [{"what": each["what"], "do": each["do"]} for each in found["stats"]["alerts"]]


def watch(
    run: Invocation,
    *,
    interval: Annotated[float, typer.Option("--interval", min=0.5, help="Seconds between updates.")] = 2.0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after this many updates.")] = None,
) -> None:
    """Show `status` and every session, refreshed until Ctrl-C."""
    try:
        for _ in _looks(count, interval):
            found = _read(run) | {"sessions": run.client.fleet()["sessions"]}
            if sys.stdout.isatty() and not run.options.as_json:
                sys.stdout.write(_CLEAR)
            run.output(found, lambda found=found: _print(found))  # type: ignore[misc]
    except KeyboardInterrupt:
        return


def _looks(count: int | None, interval_s: float) -> Iterator[None]:
    yield None
    done = 1
    while count is None or done < count:
        time.sleep(interval_s)
        yield None
        done += 1


def _read(run: Invocation) -> dict[str, Any]:
    return {"ready": run.client.readiness(), "stats": run.client.fleet_stats()}


def _print(found: dict[str, Any]) -> None:
    ready, stats = found["ready"], found["stats"]
    today, queue, proxies = stats["messagesToday"], stats["queue"], stats["proxies"]
    states = {name: count for name, count in stats["sessions"].items() if count and name != "total"}
    values = {
        "server": f"{ready['status']}, {ready['workers']} workers",
        "sessions": ", ".join(f"{count} {name}" for name, count in states.items()) or "none",
        "today": ", ".join(f"{today[name]} {name}" for name in ("sent", "delivered", "read", "failed")),
        "queue": f"{queue['waiting']} waiting: {queue['now']} now, {queue['today']} today, {queue['later']} later",
        "proxies": f"{proxies['healthy']} of {proxies['total']} healthy, {proxies['freeSlots']} free slots",
    }
    tables.fields({name: name for name in values}, values)
    tables.line("")
    tables.table({"needs you": "what", "what to do": "do"}, needs_a_person(found), empty="Nothing needs you.")
    if sessions := found.get("sessions"):
        tables.line("")
        tables.table(_COLUMNS, [_row(each) for each in sessions])


def _row(session: dict[str, Any]) -> dict[str, Any]:
    reason = f" ({session['reason']})" if session["reason"] else ""
    held = ", on hold" if session["held"] else ""
    return session | {
        "status": f"{session['status']}{reason}{held}",
        "sent": f"{session['sentToday']} of {session['limitToday']}",
    }


def logs(
    run: Invocation,
    session_id: SessionId = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new events, until Ctrl-C.")] = False,
    since: Annotated[str, typer.Option(metavar="TIME", help='Start time: "-2h", "2030-01-31".')] = "-15m",
) -> None:
    """Print the latest events of one session or of all; `-f` keeps printing new ones."""
    begin = datetime.fromisoformat(times.parse(since, "--since"))
    events.print_events(run, f"{int(begin.timestamp() * 1000)}-0", None, session_id=session_id, follow=follow)


def stats(
    run: Invocation,
    session_id: SessionId = None,
    *,
    days: Annotated[int, typer.Option("--days", min=1, max=90, help="Number of days.")] = 7,
) -> None:
    """Count messages by day, of one session or of all."""
    found = run.client.stats(session_id, days=days)
    names = ("date", "sent", "delivered", "read", "failed", "unknown")
    run.output(found, lambda: tables.table({name: name for name in names}, found["days"], empty="Nothing was sent."))


def radar(run: Invocation) -> None:
    """List parts of WhatsApp's protocol that no worker knows; WhatsApp may have changed."""
    found = run.client.radar()
    columns = {"since": "since", "what": "text", "times": "count", "sessions": "sessions"}
    run.output(found, lambda: tables.table(columns, found["shapes"], empty="No unknown parts of the protocol."))


def test_alert(run: Invocation) -> None:
    """Send a test alert."""
    run.say(run.client.test_alert(), "An alert is on its way.")
