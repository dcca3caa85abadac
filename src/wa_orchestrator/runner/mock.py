"""A driver that keeps the contract until it is told to break it: for tests of what the control plane does then."""

from collections.abc import Sequence
from enum import StrEnum

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.contract import CannotStart, Ended, Found, Order, Runner, Running


class Fault(StrEnum):
    """A way to misbehave. It holds as long as it is in `faults`."""

    START_FAILS = "start_fails"
    START_LIES = "start_lies"
    """The worker runs, and the answer says that it does not."""
    POLL_IS_AWAY = "poll_is_away"
    STOP_DOES_NOTHING = "stop_does_nothing"
    SURVEY_IS_AWAY = "survey_is_away"
    SURVEY_FORGETS = "survey_forgets"


class Misbehaving:
    """Passes every verb on to `inner`, except as `faults` says."""

    def __init__(self, inner: Runner) -> None:
        self.inner = inner
        self.faults: set[Fault] = set()

    async def start(self, order: Order) -> str:
        """Start, or fail with or without a worker left behind."""
        if Fault.START_FAILS in self.faults:
            raise CannotStart("told to fail")
        handle = await self.inner.start(order)
        if Fault.START_LIES in self.faults:
            raise CannotStart("told to lie")
        return handle

    async def poll(self, handle: str) -> Running | Ended:
        """Poll, or be away."""
        if Fault.POLL_IS_AWAY in self.faults:
            raise Unavailable("ENGINE_AWAY", "told to be away")
        return await self.inner.poll(handle)

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Stop, or only say so."""
        if Fault.STOP_DOES_NOTHING not in self.faults:
            await self.inner.stop(handle, grace_s)

    async def survey(self) -> Sequence[Found]:
        """Survey, or be away, or find nothing."""
        if Fault.SURVEY_IS_AWAY in self.faults:
            raise Unavailable("ENGINE_AWAY", "told to be away")
        return [] if Fault.SURVEY_FORGETS in self.faults else await self.inner.survey()
