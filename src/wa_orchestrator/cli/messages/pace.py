"""`wa-orchestrator holds …`, `limits …` and `queue …`: pauses, limits and waiting messages."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables, times
from wa_orchestrator.cli.terminal.arguments import SessionId, Yes
from wa_orchestrator.cli.terminal.command import Invocation, command, confirm, group, nothing_to_change
from wa_orchestrator.errors import Refused

holds = group("Pauses of sending: list, place, lift.")
limits = group("Sending limits: list, show, set, reset; by tag: tags, set-tag, reset-tag.")
queue = group("Messages that wait to be sent: list, cancel.")
Tag = Annotated[str, typer.Argument(metavar="TAG", help="The tag of sessions.")]
#: Which origin of a session's limits (`origins`) is that of a line.
_ORIGIN = {"pauseMinMs": "pause", "pauseMaxMs": "pause", "opens": "hours", "closes": "hours"}
_LIMITS = {
    "a day": "perDay", "a minute": "perMinute", "pause from (ms)": "pauseMinMs", "pause to (ms)": "pauseMaxMs",
    "opens": "opens", "closes": "closes",
}  # fmt: skip


@dataclass(frozen=True)
class LimitOptions:
    """The limits that `limits set` and `limits set-tag` set."""

    per_day: Annotated[int | None, typer.Option(help="Messages a day.")] = None
    per_minute: Annotated[int | None, typer.Option(help="Messages a minute.")] = None
    pause_min_ms: Annotated[int | None, typer.Option(help="The shortest pause after a message.")] = None
    pause_max_ms: Annotated[int | None, typer.Option(help="The longest pause after a message.")] = None
    opens: Annotated[str | None, typer.Option(metavar="HH:MM", help="When the day of sending begins.")] = None
    closes: Annotated[str | None, typer.Option(metavar="HH:MM", help="When it ends.")] = None
    acknowledge_risk: Annotated[
        bool, typer.Option("--acknowledge-risk", help="Needed for limits that are looser than the preset's.")
    ] = False

    def given(self) -> dict[str, Any]:
        """Return the fields of a request; raise `Refused` if no limit was given."""
        given = asdict(self)
        if all(value is None for name, value in given.items() if name != "acknowledge_risk"):
            raise nothing_to_change("--per-day", "--per-minute", "--pause-min-ms", "--opens")
        return given


@command(holds, "list")
def list_holds(run: Invocation) -> None:
    """List holds."""
    found = run.client.holds()
    columns = {"hold": "id", "scope": "scope", "name": "name", "until": "until", "why": "why", "by": "by"}
    run.output(found, lambda: tables.table(columns, found["holds"], empty="Nothing is on hold."))


@command(holds)
def place(
    run: Invocation,
    *,
    session: Annotated[str | None, typer.Option("--session", help="Hold this session.")] = None,
    group_name: Annotated[str | None, typer.Option("--group", help="Hold the sessions with this label or tag.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Hold everyone.")] = False,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help='"+2h", "2030-01-31"; else until it is lifted.')
    ] = None,
    why: Annotated[str, typer.Option("--why", help="Shown to people.")] = "",
) -> None:
    """Stop sending for a session, for a group or for all; messages wait."""
    if sum(map(bool, (session, group_name, everyone))) != 1:
        raise Refused("ONE_SCOPE", "Pass exactly one of --session, --group and --all.")
    ends = int(datetime.fromisoformat(times.parse(until, "--until")).timestamp() * 1000) if until else None
    made = run.client.place_hold(session_id=session, group=group_name, everyone=everyone, until=ends, why=why)
    run.say(made, f"{made['id']} is on hold. Lift it: wa-orchestrator holds lift {made['id']}")


@command(holds)
def lift(run: Invocation, hold_id: Annotated[str, typer.Argument(metavar="HOLD", help="From `holds list`.")]) -> None:
    """Lift a hold: sending resumes."""
    run.say(run.client.lift_hold(hold_id), f"{hold_id} is no longer on hold.")


@command(limits, "list")
def list_limits(run: Invocation) -> None:
    """List the limits in force, by trust."""
    found = run.client.presets()
    rows = [{"trust": trust, **each} for trust, each in found["inForce"].items()]
    run.output(found, lambda: tables.table({"trust": "trust"} | _LIMITS, rows))


@command(limits)
def show(run: Invocation, session_id: SessionId) -> None:
    """Show a session's limits."""
    _output_limits(run, run.client.limits(session_id))


@command(limits, "set")
def set_limits(run: Invocation, session_id: SessionId, options: LimitOptions) -> None:
    """Set a session's own limits. Those not given come from its tags and the preset."""
    _output_limits(run, run.client.set_limits(session_id, **options.given()))


@command(limits)
def reset(run: Invocation, session_id: SessionId) -> None:
    """Remove a session's own limits."""
    _output_limits(run, run.client.reset_limits(session_id))


@command(limits, "tags")
def list_tag_limits(run: Invocation) -> None:
    """List the limits of tags, as sessions of each trust get them."""
    found = run.client.tag_limits()
    rows = [
        {"tag": each["tag"], "sessions": each["sessions"], "trust": trust, **pace}
        for each in found["tags"]
        for trust, pace in each["inForce"].items()
    ]
    columns = {"tag": "tag", "sessions": "sessions", "trust": "trust"} | _LIMITS
    run.output(found, lambda: tables.table(columns, rows, empty="No tag has limits."))


@command(limits, "set-tag")
def set_tag(run: Invocation, tag: Tag, options: LimitOptions) -> None:
    """Set limits for all sessions with a tag. Without --acknowledge-risk they only lower what the preset allows."""
    made = run.client.set_tag_limits(tag, **options.given())
    rows = [{"trust": trust, **each} for trust, each in made["inForce"].items()]

    def show_all() -> None:
        tables.line(f"Sessions with the tag {tag}: {made['sessions']}. A session's own limits beat these.")
        tables.table({"trust": "trust"} | _LIMITS, rows)

    run.output(made, show_all)


@command(limits, "reset-tag")
def reset_tag(run: Invocation, tag: Tag) -> None:
    """Remove the limits of a tag."""
    result = run.client.delete_tag_limits(tag)
    run.say(result, f"The tag {tag} has no limits. Changed sessions: {result['sessions']}.")


def _output_limits(run: Invocation, found: dict[str, Any]) -> None:
    came_from = {"own": "its own", "preset": found["preset"]}
    origins = {name: found["origins"][_ORIGIN.get(name, name)] for name in _LIMITS.values()}
    rows = [
        {"limit": title, "value": found["limits"][name], "by": came_from.get(origins[name], origins[name])}
        for title, name in _LIMITS.items()
    ]

    def show_all() -> None:
        tables.line(f"{found['sessionId']} is {found['trust']}; times are in {found['timezone']}.")
        tables.table({"limit": "limit", "value": "value", "by": "by"}, rows)

    run.output(found, show_all)


@command(queue, "list")
def list_queue(
    run: Invocation,
    *,
    session: Annotated[str | None, typer.Option("--session", help="Only this session's, with expected times.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="Only to this recipient.")] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="Only with this reference.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", help="Only of this batch or campaign, b_…")] = None,
) -> None:
    """List messages that wait to be sent."""
    columns = {"message": "messageId", "session": "sessionId", "to": "to", "kind": "kind", "reference": "reference"}
    if session and not (to or reference or batch):
        found, columns = run.client.queue(session), {"#": "position", "expected": "eta"} | columns
    else:
        found = run.client.waiting(session_id=session, to=to, reference=reference, batch_id=batch)

    def show_all() -> None:
        tables.table(columns, found["messages"], empty="Nothing waits.")
        if found["total"] > len(found["messages"]):
            tables.line(f"{found['total']} wait in all.")

    run.output(found, show_all)


@command(queue)
def cancel(
    run: Invocation,
    *,
    session: Annotated[str | None, typer.Option("--session", help="Of this session.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="To this recipient.")] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="With this reference.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", help="Of this batch.")] = None,
    yes: Yes = False,
) -> None:
    """Cancel waiting messages that match. Those that a worker has claimed are sent."""
    filters = {"session_id": session, "to": to, "reference": reference, "batch_id": batch}
    if not any(filters.values()):
        raise Refused("NOTHING_CHOSEN", "Nothing to cancel. Pass --session, --to, --reference or --batch.")
    total = run.client.waiting(**filters)["total"]
    confirm(f"Cancel {total} messages?", yes=yes)
    result = run.client.cancel_waiting(**filters)
    late = f" {result['tooLate']} were too late." if result["tooLate"] else ""
    run.say(result, f"{result['cancelled']} were cancelled.{late}")
