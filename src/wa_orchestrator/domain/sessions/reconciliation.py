"""Plans which workers to start, stop, adopt or replace: at most one per session, of the right epoch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

#: An unwanted worker is left alone for this long: the record of its session may be about to be written.
STRAY_GRACE_MS = 30_000


@dataclass(frozen=True, slots=True)
class FoundWorker:
    """A worker that runs, by the runner's survey; `handle` is how to find it again."""

    handle: str
    session_id: str
    epoch: int
    started_at_ms: int
    is_lost: bool = False
    """Its node does not answer: it may still run, and nobody can stop it."""

    @property
    def node(self) -> str:
        return node_of(self.handle)


def node_of(handle: str) -> str:
    """Return the node that a worker was started on; '' where the engine has only one."""
    return handle.rpartition("@")[2] if "@" in handle else ""


@dataclass(frozen=True, slots=True)
class Start:
    """No worker runs for this session: start one."""

    session_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Stop:
    """This worker is not wanted: stop it."""

    handle: str
    session_id: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """This worker is the right one: take it over as it runs."""

    session_id: str
    handle: str


@dataclass(frozen=True, slots=True)
class Replace:
    """This worker is of another epoch than the session, or lost: stop it, and only then start one of `epoch`."""

    session_id: str
    handle: str
    epoch: int


Instruction = Start | Stop | Adopt | Replace


def plan(
    wanted: Mapping[str, int],
    found: Iterable[FoundWorker],
    now_ms: int,
    *,
    adopted: frozenset[str] = frozenset(),
    grace_ms: int = STRAY_GRACE_MS,
) -> list[Instruction]:
    """Return the instructions that lead from the workers found to those wanted: the epoch of each session's worker.

    Handles in `adopted` are supervised already.

    Stops come first, then replacements, so that a session never has two workers while the plan is carried out.
    """
    by_session = _by_session(found)
    instructions: list[Instruction] = []
    for session_id, workers in by_session.items():
        if session_id not in wanted:
            instructions += [
                Stop(worker.handle, session_id) for worker in workers if now_ms - worker.started_at_ms >= grace_ms
            ]
    for session_id, epoch in sorted(wanted.items()):
        instructions += _for_session(session_id, epoch, by_session.get(session_id, ()), adopted)
    return sorted(instructions, key=lambda instruction: _ORDER[type(instruction)])


_ORDER: dict[type[Instruction], int] = {Stop: 0, Replace: 1, Adopt: 2, Start: 3}


def _for_session(
    session_id: str, epoch: int, workers: Sequence[FoundWorker], adopted: frozenset[str]
) -> list[Instruction]:
    if not workers:
        return [Start(session_id, epoch)]
    keep, *others = sorted(
        workers,
        key=lambda worker: (
            worker.is_lost,
            worker.epoch != epoch,
            worker.handle not in adopted,
            -worker.epoch,
            worker.handle,
        ),
    )
    # A second worker of a session gets no grace: the two would disconnect each other from WhatsApp.
    instructions: list[Instruction] = [Stop(worker.handle, session_id) for worker in others]
    if keep.is_lost:
        # The watchdog replaces an adopted one.
        return instructions if keep.handle in adopted else [*instructions, Replace(session_id, keep.handle, epoch)]
    if keep.epoch != epoch:
        instructions.append(Replace(session_id, keep.handle, epoch))
    elif keep.handle not in adopted:
        instructions.append(Adopt(session_id, keep.handle))
    return instructions


def _by_session(found: Iterable[FoundWorker]) -> dict[str, Sequence[FoundWorker]]:
    ordered = sorted(found, key=lambda worker: (worker.session_id, worker.epoch, worker.handle))
    return {session_id: tuple(workers) for session_id, workers in groupby(ordered, key=lambda w: w.session_id)}
