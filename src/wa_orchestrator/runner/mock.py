"""A driver that keeps the contract until it is told to break it: for tests of what the control plane does then."""

from collections.abc import Sequence
from enum import StrEnum

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.contract import Exited, FoundWorker, Runner, Running, StartFailed, WorkerSpec


class RunnerFault(StrEnum):
    """A way to misbehave. It holds as long as it is in `faults`."""

    START_FAILS = "start_fails"
    START_LIES = "start_lies"
    """The worker runs, and the answer says that it does not."""
    POLL_IS_AWAY = "poll_is_away"
    STOP_DOES_NOTHING = "stop_does_nothing"
    SURVEY_IS_AWAY = "survey_is_away"
    SURVEY_FORGETS = "survey_forgets"


class FaultyRunner:
    """Passes every verb on to `inner`, except as `faults` says."""

    def __init__(self, inner: Runner) -> None:
        self.inner = inner
        self.faults: set[RunnerFault] = set()

    async def start(self, order: WorkerSpec) -> str:
        """Start, or fail with or without a worker left behind."""
        if RunnerFault.START_FAILS in self.faults:
            raise StartFailed("told to fail")
        handle = await self.inner.start(order)
        if RunnerFault.START_LIES in self.faults:
            raise StartFailed("told to lie")
        return handle

    async def poll(self, handle: str) -> Running | Exited:
        """Poll, or be away."""
        if RunnerFault.POLL_IS_AWAY in self.faults:
            raise Unavailable("ENGINE_AWAY", "told to be away")
        return await self.inner.poll(handle)

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Stop, or only say so."""
        if RunnerFault.STOP_DOES_NOTHING not in self.faults:
            await self.inner.stop(handle, grace_s)

    async def survey(self) -> Sequence[FoundWorker]:
        """Survey, or be away, or find nothing."""
        if RunnerFault.SURVEY_IS_AWAY in self.faults:
            raise Unavailable("ENGINE_AWAY", "told to be away")
        return [] if RunnerFault.SURVEY_FORGETS in self.faults else await self.inner.survey()
