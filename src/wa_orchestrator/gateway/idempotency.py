"""Idempotency keys: the first response to a request is stored, and a repeat of the request gets it again.

That a key was used, and for which message, is written with the message itself. The response is stored afterwards,
and no request waits for that: if the server dies before, a repeat gets the same message with a new eta.
"""

import asyncio
import contextlib
import hashlib
from typing import Final

from wa_orchestrator.errors import OrchestratorError, Refused
from wa_orchestrator.gateway import replies
from wa_orchestrator.gateway.redis_access import RedisAccess, translated_errors
from wa_orchestrator.gateway.senders.sender_pool import SenderPool
from wa_orchestrator.store import records
from wa_orchestrator.store.messages.admission import Idempotency, Replayed

#: How long a repeat waits for the response to the first request, which may be written at this moment.
_RESPONSE_S: Final = 1.0
_FIRST_POLL_S: Final = 0.004


def record_of(api_key: str, key: str | None, canonical: bytes) -> Idempotency | None:
    """Return the record of a request with an idempotency key; `canonical` is the body that repeats must share."""
    if key is None:
        return None
    return Idempotency(api_key, hashlib.sha256(key.encode()).hexdigest(), hashlib.sha256(canonical).hexdigest())


class StoredResponses:
    """Reads and writes the responses of idempotent requests."""

    def __init__(self, redis: RedisAccess, pool: SenderPool) -> None:
        self._redis = redis
        self._pool = pool
        self._writes: set[asyncio.Task[None]] = set()

    async def find(self, record: Idempotency) -> str | None:
        """Return the response to an earlier request with this key, or None. Raises for another body."""
        found = await self._redis.call("HMGET", record.name, "fingerprint", "message", "answer")
        fingerprint, message_id, response = found
        if fingerprint is None:
            return None
        if fingerprint != record.fingerprint:
            raise replies.conflict()
        answer = await self.replay(record, Replayed(message_id, response or ""))
        with translated_errors():  # what was found may be what made the first response an error
            await self._redis.scripts.confirmed()
        return answer

    def store_soon(self, record: Idempotency, response: str) -> None:
        """Begin to store the response to a request; the first one stays."""
        write = asyncio.get_running_loop().create_task(self._try_store(record, response))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)

    async def _try_store(self, record: Idempotency, response: str) -> None:
        with contextlib.suppress(OrchestratorError):  # the message is accepted; a repeat makes its response again
            await self._store(record, response)

    async def _store(self, record: Idempotency, response: str) -> None:
        await self._redis.call("HSETNX", record.name, "answer", response)

    async def replay(self, record: Idempotency, replayed: Replayed) -> str:
        """Return the first response. Where its server died before it was stored, it is made again, once."""
        return replayed.answer or await self._wait(record) or await self._make_again(record, replayed.message_id)

    async def _wait(self, record: Idempotency) -> str:
        pause_s, waited_s = _FIRST_POLL_S, 0.0
        while waited_s < _RESPONSE_S:
            await asyncio.sleep(pause_s)
            if response := await self._redis.call("HGET", record.name, "answer"):
                return str(response)
            waited_s += pause_s
            pause_s *= 2
        return ""

    async def _make_again(self, record: Idempotency, message_id: str) -> str:
        snapshot = await self._pool.current()
        message = await records.message(self._redis.scripts, message_id)
        if message is None:
            raise Refused("NO_SUCH_MESSAGE", "This Idempotency-Key belongs to a message that was erased.", 409)
        sender = snapshot.senders.get(message.session)
        if sender is None:
            raise Refused("NO_SUCH_SESSION", f"There is no session {message.session} any more.", 404)
        forecast = await self._pool.forecast(snapshot, sender)
        await self._store(record, replies.accepted(message.id, message.session, 1, forecast.eta(0)))
        return str(await self._redis.call("HGET", record.name, "answer"))
