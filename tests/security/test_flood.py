"""A flood from one address while others work: bounded here, in full size in `bench/flood.py`."""

import asyncio

from tests.security.peers import HEALTH, Peer, Serve
from wa_orchestrator.runner.confinement import launch
from wa_orchestrator.server.bootstrap import ControlApps
from wa_orchestrator.server.http import listen, serving
from wa_orchestrator.settings import Settings
from wa_orchestrator.web.connections import Limits

FLOOD = "127.0.0.2"
HALF = b"GET /health HTTP/1.1\r\nHost: s\r\nX-Slow: "
SLOW = b"POST /login HTTP/1.1\r\nHost: s\r\nContent-Length: 5000\r\n\r\npass"
CLAIM = b"POST /api/worker/sessions/w1/outbox/claim HTTP/1.1\r\nHost: s\r\nContent-Length: 2\r\n\r\n{}"


async def _flood(port: int, number: int) -> list[Peer]:
    async def one(n: int) -> Peer:
        peer = await Peer.connect(port, FLOOD)
        await peer.send((HALF, SLOW, HALF + b"x" * 60_000)[n % 3])
        return peer

    return [await one(n) for n in range(number)]


async def test_others_are_answered_while_one_address_floods(serve: Serve) -> None:
    async with serve(per_address=64, head_s=600, body_s=600) as port:
        flood = await _flood(port, 300)
        for _ in range(5):
            others = [await Peer.connect(port, f"127.0.0.{n}") for n in range(3, 13)]
            for other in others:
                await other.send(HEALTH)
            assert await asyncio.gather(*(other.status() for other in others)) == [200] * 10
            for other in others:
                other.close()
        for peer in flood:
            peer.close()


def test_a_worker_that_was_taken_over_cannot_take_the_connections_of_all_others() -> None:
    """Workers of RUNNER=process have one address; each opens no more than an address may elsewhere."""
    limits = Limits.of(Settings())
    assert launch.OPEN_FILES <= limits.per_address <= limits.connections // 16


async def test_workers_go_on_while_the_main_port_is_full(serve: Serve, apps: ControlApps) -> None:
    bound = listen("127.0.0.1", 0, "WORKER_PORT")
    worker_port: int = bound.getsockname()[1]
    limits = Limits(connections=50, per_address=50, head_s=600, body_s=600)
    async with (
        serve(connections=50, per_address=50, head_s=600, body_s=600) as port,
        serving(apps.workers, bound, limits.inside()),
    ):
        flood = await _flood(port, 60)
        assert await (await Peer.connect(port, "127.0.0.3")).rest() == b""
        for _ in range(20):
            worker = await Peer.connect(worker_port)
            await worker.send(CLAIM)
            assert await worker.status() == 401  # it is answered; a token would be taken
            worker.close()
        for peer in flood:
            peer.close()
