"""Accepts a plain message with one question to Redis and without a task of its own."""

import asyncio
import time
from collections.abc import Callable, Mapping

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access.permissions import Everything, Reach, Scope
from wa_orchestrator.domain.messages.sender_policy import Why
from wa_orchestrator.errors import OrchestratorError, Refused
from wa_orchestrator.gateway import message_body
from wa_orchestrator.gateway.acceptance import Acceptor, Attempt, SendRequest
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.gateway.hot_path.admission_batch import BatchingRedis
from wa_orchestrator.gateway.redis_access import Outcome
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.gateway.senders import sender_choice
from wa_orchestrator.gateway.senders.sender_pool import SenderPool
from wa_orchestrator.web import auth


class FastSend:
    """Accepts messages for which everything but the admission itself is cached: caller, sender and forecast."""

    def __init__(
        self, context: Context, redis: BatchingRedis, pool: SenderPool, acceptor: Acceptor, contents: ContentLoader
    ) -> None:
        self._context = context
        self._redis = redis
        self._pool = pool
        self._acceptor = acceptor
        self._contents = contents
        self._accept_time = context.instruments.accept
        self._retries: set[asyncio.Task[None]] = set()

    def is_known(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether the key in these headers may send and was looked up a moment ago."""
        return auth.cached_caller(self._context, headers, Scope.SEND) is not None

    def try_send(self, headers: Mapping[bytes, bytes], raw: bytes, respond: Callable[[str | Exception], None]) -> bool:
        """Accept a message and call `respond`, soon, with the JSON of the 202 or with the error.

        False, with nothing done, where the ordinary handler must do it: for whatever is not cached, for files and
        idempotency keys, and for every refusal.
        """
        caller = auth.cached_caller(self._context, headers, Scope.SEND)
        snapshot = self._pool.cached()
        if caller is None or snapshot is None or not self._redis.has_room:
            return False
        try:
            body = message_body.parse(raw, snapshot.now_ms())
            content = self._contents.inline(body)
            if content is None or body.idempotency_key is not None or _needs_reading(body, caller.reach):
                return False
            affinity = self._acceptor.conversations.remembered(body).sender
            choice = sender_choice.choose(snapshot, body, affinity, caller.reach)
        except Refused:
            return False
        forecast = self._pool.cached_forecast(choice.sender)
        if forecast is None or choice.why is Why.NONE_READY:
            return False
        choice.reserve()
        request = SendRequest(body, content, caller.key_id, reach=caller.reach)
        attempt = self._acceptor.attempt(request, choice, snapshot, forecast, affinity)

        begins = time.perf_counter()

        def finish(response: str | Exception) -> None:
            self._accept_time.observe(time.perf_counter() - begins)
            respond(response)

        def on_outcome(outcome: Outcome | OrchestratorError) -> None:
            if self._acceptor.is_retried(attempt, outcome):
                self._retry(attempt, outcome, finish)
                return
            try:
                response: str | Exception = attempt.response(outcome)
            except Exception as error:  # whatever it is, the client is waiting
                response = error
            finish(response)

        self._redis.submit(self._acceptor.rate_of(caller.key_id), attempt.wanted, on_outcome)
        return True

    def _retry(
        self, attempt: Attempt, outcome: Outcome | OrchestratorError, finish: Callable[[str | Exception], None]
    ) -> None:
        async def retry() -> None:
            try:
                response: str | Exception = (await self._acceptor.retry(attempt, outcome)).json
            except Exception as error:  # whatever it is, the client is waiting
                response = error
            finish(response)

        task = asyncio.get_running_loop().create_task(retry())
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)


def _needs_reading(body: SendBody, reach: Reach) -> bool:
    """Whether Redis must be asked who has the conversation: a limited client has records of its own."""
    return not isinstance(reach, Everything) and sender_choice.is_free(body)
