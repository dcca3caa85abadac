"""A driver that breaks the contract on demand, for tests of how the control plane reacts."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.contract import Exited, Lost, LostAtStart, Runner, Running, StartFailed, WorkerSpec


class RunnerFault(StrEnum):
    """A way to break the contract, active while it is in `faults`."""

    START_FAILS = "start_fails"
    START_LIES = "start_lies"
    """The worker runs, but `start` raises `StartFailed`."""
    START_LOST = "start_lost"
    """No breach: the worker's node is lost while it starts, and it may run there."""
    POLL_UNAVAILABLE = "poll_unavailable"
    STOP_DOES_NOTHING = "stop_does_nothing"
    SURVEY_UNAVAILABLE = "survey_unavailable"
    SURVEY_EMPTY = "survey_empty"
    NODE_LOST = "node_lost"
    """No breach, but what only engines with several nodes do: every worker's node is away."""


class FaultyRunner:
    """Delegates to `inner`, except for the active `faults`."""

    def __init__(self, inner: Runner) -> None:
        self.inner = inner
        self.faults: set[RunnerFault] = set()

    async def start(self, spec: WorkerSpec) -> str:
        """Start, or fail with or without leaving a worker behind."""
        if RunnerFault.START_FAILS in self.faults:
            raise StartFailed("start failed on demand")
        handle = await self.inner.start(spec)
        if RunnerFault.START_LIES in self.faults:
            raise StartFailed("start failed on demand, but the worker runs")
        if RunnerFault.START_LOST in self.faults:
            await self.inner.stop(handle, 0)  # the engine has forgotten it
            raise LostAtStart("its node does not answer")
        return handle

    async def poll(self, handle: str) -> Running | Exited | Lost:
        """Poll, or raise `Unavailable`, or know nothing of what runs."""
        if RunnerFault.POLL_UNAVAILABLE in self.faults:
            raise Unavailable("ENGINE_AWAY", "the engine does not respond")
        state = await self.inner.poll(handle)
        return Lost() if RunnerFault.NODE_LOST in self.faults and state == Running() else state

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Stop, or return without stopping."""
        if RunnerFault.STOP_DOES_NOTHING not in self.faults:
            await self.inner.stop(handle, grace_s)

    async def survey(self) -> Sequence[FoundWorker]:
        """Survey, or raise `Unavailable`, or return nothing, or know nothing of what runs."""
        if RunnerFault.SURVEY_UNAVAILABLE in self.faults:
            raise Unavailable("ENGINE_AWAY", "the engine does not respond")
        found = [] if RunnerFault.SURVEY_EMPTY in self.faults else await self.inner.survey()
        return [replace(each, is_lost=True) for each in found] if RunnerFault.NODE_LOST in self.faults else found
