"""The hot path of sending one message: it makes sends fast and decides nothing.

`GATEWAY_HOT_PATH=false` switches it off: uvicorn's own protocol, FastAPI's routes and a call of Redis for each message
then give the same responses more slowly. `HotPath` is its interface; nothing else outside this folder is imported from
it.
"""

import gc
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.gateway.acceptance import Acceptor
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.gateway.hot_path.admission_batch import BatchingRedis
from wa_orchestrator.gateway.hot_path.fast_send import FastSend
from wa_orchestrator.gateway.hot_path.http_protocol import make_protocol
from wa_orchestrator.gateway.routes.send import PATHS, SendHandler
from wa_orchestrator.gateway.senders.sender_pool import SenderPool
from wa_orchestrator.web.http_protocol import GuardedProtocol

#: Objects allocated before the collector looks for cycles. A request allocates a hundred, and makes no cycle.
_GC_THRESHOLD: Final = 20_000


class HotPath:
    """Batched admissions (`redis`), and an HTTP protocol with a shortcut for the send routes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.redis = BatchingRedis(context.scripts)

    def http_protocol(
        self, handler: SendHandler, pool: SenderPool, acceptor: Acceptor, contents: ContentLoader
    ) -> type[GuardedProtocol]:
        """Return the protocol class for `uvicorn.Config(http=…)`."""
        fast = FastSend(self._context, self.redis, pool, acceptor, contents)
        return make_protocol(PATHS, handler.reply, fast.try_send, fast.is_known)

    def tune_gc(self) -> None:
        """Exempt what exists from garbage collection: it lives as long as the process."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
