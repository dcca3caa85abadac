"""Prometheus instruments that code writes to; `orchestrator/metrics.py` reads the other metrics from Redis."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_FAST_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_NETWORK_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30)


class Instruments:
    """The instruments of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.accept = Histogram(
            "wa_accept_seconds", "Time to accept a message, with its write to Redis", registry=registry, buckets=_FAST_S
        )
        self.webhook_delivery = Histogram(
            "wa_webhook_delivery_seconds",
            "Duration of one attempt to deliver an event to a webhook",
            ["outcome"],
            registry=registry,
            buckets=_NETWORK_S,
        )
        self.proxy_check = Histogram(
            "wa_proxy_check_seconds", "Duration of one check of a proxy", registry=registry, buckets=_NETWORK_S
        )
        self.worker_restarts = Counter(
            "wa_worker_restarts", "Workers that were restarted by the server's own decision", registry=registry
        )


@contextmanager
def timed(histogram: Histogram) -> Iterator[None]:
    """Observe how long the block takes, also when it raises."""
    begins = time.perf_counter()
    try:
        yield
    finally:
        histogram.observe(time.perf_counter() - begins)
