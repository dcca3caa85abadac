"""Client of a runner in another process: the driver for `RUNNER=remote`."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.contract import Exited, Lost, Running, WorkerSpec
from wa_orchestrator.runner.remote import protocol
from wa_orchestrator.runner.shared_survey import SharedSurvey

#: A start makes a container, and sometimes a network and a relay before it, on an engine that may be busy.
_ANSWER_S = 120.0


class RemoteRunner:
    """Passes every call on. See `contract.Runner`; handles are those of the driver on the other side."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._polls = SharedSurvey(self.survey)

    async def start(self, spec: WorkerSpec) -> str:
        asked = asyncio.ensure_future(self._ask(protocol.start_question(spec)))
        try:
            answer = await asyncio.shield(asked)
        except asyncio.CancelledError:
            # Not before the worker runs or does not: a caller that was cancelled looks for what it left running.
            await asyncio.wait([asked])
            raise
        self._polls.forget()
        return str(answer["handle"])

    async def poll(self, handle: str) -> Running | Exited | Lost:
        """Look the worker up in a survey, which all polls of a second share."""
        return await self._polls.poll(handle)

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        await self._ask({"verb": "stop", "handle": handle, "grace_s": grace_s}, _ANSWER_S + grace_s)
        self._polls.forget()

    async def survey(self) -> Sequence[FoundWorker]:
        answer = await self._ask({"verb": "survey"})
        return [FoundWorker(*each) for each in answer["workers"]]

    async def end(self) -> int:
        """Stop all workers for good: the runner starts no further ones until it is started again. Returns how many."""
        return int((await self._ask({"verb": "end"}, 10 * _ANSWER_S))["ended"])

    async def _ask(self, question: Mapping[str, Any], within_s: float = _ANSWER_S) -> dict[str, Any]:
        try:
            async with asyncio.timeout(within_s):
                answer = await self._exchange(protocol.line(question))
        except (OSError, TimeoutError, ValueError) as error:
            text = f"The runner at {self._socket} does not answer ({error or type(error).__name__})."
            raise Unavailable(protocol.UNREACHABLE, text) from error
        protocol.raise_error(answer)
        return answer

    async def _exchange(self, question: bytes) -> dict[str, Any]:
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=protocol.MAX_ANSWER_BYTES)
        try:
            writer.write(question)
            await writer.drain()
            answer: dict[str, Any] = json.loads(await reader.readline())  # nothing, if the runner died: no JSON
            return answer
        finally:
            writer.close()
