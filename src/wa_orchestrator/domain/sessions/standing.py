"""The standing of a session: its state after repeated and reordered reports, the same for every order of arrival.

Reports of a worker are ordered by (time, sequence). A standing keeps the latest report of each kind of its epoch and
replays them in that order from the state that the server last set; so it depends on the *set* of reports and not on
how they arrived. At most one report per kind is kept, so a standing is small.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from wa_orchestrator.domain.sessions.session import (
    Event,
    Ignored,
    IllegalTransition,
    Reason,
    State,
    StateChange,
    advance,
)

_RANK = {event: rank for rank, event in enumerate(Event)}


@dataclass(frozen=True, slots=True)
class Report:
    """One event as a worker reported it: its epoch, its time, and its number within that millisecond or run."""

    event: Event
    epoch: int
    at_ms: int
    sequence: int = 0


def _key(report: Report) -> tuple[int, int, int]:
    # Time before sequence: a container that its engine restarts counts from one again within the same epoch.
    return (report.at_ms, report.sequence, _RANK[report.event])


@dataclass(frozen=True, slots=True)
class Standing:
    """A session's state and reason, and what makes repeated and late reports harmless."""

    state: State
    reason: Reason | None
    epoch: int
    at_ms: int
    """When the state or the reason last changed."""
    base: StateChange
    """The state that the server itself last set; reports are replayed from here."""
    base_at_ms: int
    floor: tuple[int, int, int] = (-1, -1, -1)
    """Reports up to here are superseded by a decision of the server."""
    reports: tuple[Report, ...] = ()
    """The latest report of each kind."""
    unlinked_at_ms: int = 0
    """When the phone removed the device; 0 once it is connected again."""
    base_unlinked_at_ms: int = 0


def initial(epoch: int, at_ms: int) -> Standing:
    """Return the standing of a session that was just created."""
    return settled(StateChange(State.PENDING, Reason.WAITING_FOR_TURN), epoch, at_ms)


def settled(base: StateChange, epoch: int, at_ms: int, unlinked_at_ms: int = 0) -> Standing:
    """Return the standing of a session whose state the server sets to `base`."""
    return Standing(
        base.state,
        base.reason,
        epoch,
        at_ms,
        base=base,
        base_at_ms=at_ms,
        unlinked_at_ms=unlinked_at_ms,
        base_unlinked_at_ms=unlinked_at_ms,
    )


def apply(standing: Standing, report: Report) -> Standing:
    """Return the standing after a report; one that is old, repeated or of an older epoch changes nothing."""
    if report.epoch < standing.epoch or (report.epoch == standing.epoch and _key(report) <= standing.floor):
        return standing
    if report.epoch > standing.epoch:
        # A new worker starts from the state that the server set: an operator's stop outlasts it, and nothing depends
        # on which reports of the older epoch had arrived.
        standing = settled(standing.base, report.epoch, standing.base_at_ms, standing.base_unlinked_at_ms)
    latest = {known.event: known for known in standing.reports}
    if report.event in latest and _key(latest[report.event]) >= _key(report):
        return standing
    latest[report.event] = report
    return _replay(standing, sorted(latest.values(), key=_key))


def fold(standing: Standing, reports: Iterable[Report]) -> Standing:
    """Return the standing after many reports; any order and repetition of the same ones gives the same standing."""
    for report in reports:
        standing = apply(standing, report)
    return standing


def decide(standing: Standing, event: Event, at_ms: int, *, epoch: int | None = None) -> Standing:
    """Return the standing after an event that the server found or was asked for; `epoch` is a newer fencing number.

    Raises `IllegalTransition` when the event cannot happen in this state.
    """
    move = advance(standing.state, event)
    place = StateChange(standing.state, standing.reason) if isinstance(move, Ignored) else move
    changed_at_ms = standing.at_ms if place == StateChange(standing.state, standing.reason) else at_ms
    if epoch is not None and epoch > standing.epoch:
        return replace(settled(place, epoch, at_ms, standing.unlinked_at_ms), at_ms=changed_at_ms)
    if isinstance(move, Ignored):
        return standing
    floor = max([standing.floor, *map(_key, standing.reports)])
    placed = settled(place, standing.epoch, at_ms, standing.unlinked_at_ms)
    return replace(placed, at_ms=changed_at_ms, floor=floor)


def _replay(standing: Standing, reports: list[Report]) -> Standing:
    here, at_ms, unlinked_at_ms = standing.base, standing.base_at_ms, standing.base_unlinked_at_ms
    for report in reports:
        try:
            move = advance(here.state, report.event)
        except IllegalTransition:
            continue  # a worker cannot make the server contradict itself
        if isinstance(move, StateChange) and move != here:
            here, at_ms = move, report.at_ms
            unlinked_at_ms = _unlinked_at_ms(report, here, unlinked_at_ms)
    return replace(
        standing,
        state=here.state,
        reason=here.reason,
        at_ms=at_ms,
        reports=tuple(reports),
        unlinked_at_ms=unlinked_at_ms,
    )


def _unlinked_at_ms(report: Report, after: StateChange, before_ms: int) -> int:
    if after.state is State.CONNECTED:
        return 0
    return report.at_ms if report.event is Event.LOGGED_OUT else before_ms


def encode(standing: Standing) -> str:
    """Return a standing as one line of JSON."""
    return json.dumps(
        {
            "state": standing.state,
            "reason": standing.reason,
            "epoch": standing.epoch,
            "at": standing.at_ms,
            "base": [standing.base.state, standing.base.reason, standing.base_at_ms],
            "floor": standing.floor,
            "unlinked": [standing.unlinked_at_ms, standing.base_unlinked_at_ms],
            "heard": [[r.event, r.epoch, r.at_ms, r.sequence] for r in standing.reports],
        },
        separators=(",", ":"),
    )


def decode(text: str) -> Standing:
    """Read what `encode` wrote."""
    raw = json.loads(text)
    base_state, base_reason, base_at_ms = raw["base"]
    floor_at_ms, floor_sequence, floor_rank = raw["floor"]
    unlinked_at_ms, base_unlinked_at_ms = raw.get("unlinked", (0, 0))  # an older version has none
    return Standing(
        state=State(raw["state"]),
        reason=Reason(raw["reason"]) if raw["reason"] else None,
        epoch=raw["epoch"],
        at_ms=raw["at"],
        base=StateChange(State(base_state), Reason(base_reason) if base_reason else None),
        base_at_ms=base_at_ms,
        floor=(floor_at_ms, floor_sequence, floor_rank),
        reports=tuple(Report(Event(event), epoch, at_ms, seq) for event, epoch, at_ms, seq in raw["heard"]),
        unlinked_at_ms=unlinked_at_ms,
        base_unlinked_at_ms=base_unlinked_at_ms,
    )
