"""Half-sent requests, huge heads, slow bodies and slow readers, by both HTTP protocols."""

import asyncio
import contextlib
import resource

import pytest

from tests.orchestrator.fakes import API_KEY
from tests.security.peers import HEALTH, Peer, Serve
from tests.security.server_log import logged
from tests.waiting import until
from wa_orchestrator.server import open_files
from wa_orchestrator.settings import Settings
from wa_orchestrator.web.connections import Connections, Limits, client_of

PATIENT = {"head_s": 600.0, "body_s": 600.0, "write_s": 600.0}
SEND = (
    b"POST /api/v1/send HTTP/1.1\r\nHost: s\r\nX-API-Key: %b\r\nContent-Type: application/json\r\n" % API_KEY.encode()
)


async def test_one_address_cannot_take_all_connections(serve: Serve) -> None:
    async with serve(per_address=5, **PATIENT) as port:
        greedy = [await Peer.connect(port, "127.0.0.2") for _ in range(5)]
        for peer in greedy:
            await peer.send(b"GET / HTTP/1.1\r\nHost:")
        assert await (await Peer.connect(port, "127.0.0.2")).rest() == b""
        other = await Peer.connect(port, "127.0.0.3")
        await other.send(HEALTH)
        assert await other.status() == 200
        greedy[0].close()

        async def has_room() -> bool:
            again = await Peer.connect(port, "127.0.0.2")
            await again.send(HEALTH)
            return await again.status() == 200

        await until(has_room, "a place to become free")
        for peer in (*greedy, other):
            peer.close()


async def test_all_addresses_together_have_a_limit(serve: Serve) -> None:
    async with serve(connections=3, **PATIENT) as port:
        peers = [await Peer.connect(port, f"127.0.0.{n}") for n in range(2, 5)]
        await peers[0].send(HEALTH)
        assert await peers[0].status() == 200
        assert await (await Peer.connect(port, "127.0.0.9")).rest() == b""
        for peer in peers:
            peer.close()


async def test_the_main_port_is_closed_in_the_network_of_workers(serve: Serve) -> None:
    """A listener on all addresses has the workers' too; what they need is on another port."""
    settings = Settings(runner="remote", bind_host="0.0.0.0", worker_host="127.0.0.1", workers_on_main_port=False)
    limits = Limits.of(settings).apart_from(settings.workers_own_host)
    async with serve(closed_at=limits.closed_at, **PATIENT) as port:
        peer = await Peer.connect(port)
        await peer.send(HEALTH)
        assert await peer.status() == 0
    shared = settings.model_copy(update={"workers_on_main_port": True})
    assert Limits.of(shared).apart_from(shared.workers_own_host).closed_at == ()


async def test_a_reverse_proxy_has_as_many_as_it_needs(serve: Serve) -> None:
    async with serve(per_address=1, trusted=("127.0.0.2",), **PATIENT) as port:
        for peer in [await Peer.connect(port, "127.0.0.2") for _ in range(4)]:
            await peer.send(HEALTH)
            assert await peer.status() == 200
            peer.close()


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"GET",
        b"GET / HTTP/1.1\r\nHost: s\r\nX-A: ",
        b"\r\n",
        HEALTH + b"GET /health HTTP/1.1\r\nHo",
        SEND + b"Content-Le",
    ],
)
async def test_a_head_that_does_not_come_to_an_end_is_closed(serve: Serve, begin: bytes) -> None:
    async with serve(head_s=0.2) as port:
        peer = await Peer.connect(port)
        await peer.send(begin)
        said = await peer.rest()
        assert said.count(b"HTTP/1.1 ") == begin.count(HEALTH)


@pytest.mark.parametrize("piece", [b"X-Long: " + b"x" * 2000, b"X-%d: y\r\n" * 400, b"y" * 3000])
async def test_a_head_that_is_too_long_is_refused_before_it_is_complete(serve: Serve, piece: bytes) -> None:
    async with serve(head_bytes=65536, **PATIENT) as port:
        peer = await Peer.connect(port)
        await peer.send(b"GET /health HTTP/1.1\r\nHost: s\r\nX-0: ")
        sent = 0
        while sent < (4 << 20) and not peer.reader.at_eof():
            await peer.send(piece)
            sent += len(piece)
            await asyncio.sleep(0)
            if peer.writer.is_closing():
                break
        said = await peer.rest()
        assert said == b"" or said.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
        assert sent < 4 << 20


async def test_a_complete_head_that_is_too_long_is_refused(serve: Serve) -> None:
    async with serve(head_bytes=8192, **PATIENT) as port:
        peer = await Peer.connect(port)
        await peer.send(b"GET /health HTTP/1.1\r\nHost: s\r\nX-Long: " + b"x" * 9000 + b"\r\n\r\n")
        assert (await peer.rest()).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("path", [b"/api/v1/send", b"/api/v1/send/batch", b"/api/v1/uploads"])
async def test_a_slow_body_is_timed_out(serve: Serve, path: bytes) -> None:
    async with serve(body_s=0.3) as port:
        peer = await Peer.connect(port)
        await peer.send(SEND.replace(b"/api/v1/send", path) + b'Content-Length: 500\r\n\r\n{"to"')
        assert (await peer.rest()).startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_arrives_slowly_but_steadily_is_taken(serve: Serve) -> None:
    """Each 4 KiB give a second: what comes at that rate is late by no limit."""
    async with serve(body_s=1.5) as port:
        peer = await Peer.connect(port)
        await peer.send(SEND + b"Content-Length: 40000\r\n\r\n")
        for _ in range(10):
            await peer.send(b" " * 4000)
            await asyncio.sleep(0.2)
        assert await peer.status() == 400
        peer.close()


async def test_a_client_that_does_not_read_is_dropped(serve: Serve) -> None:
    async with serve(write_s=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        request = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: s\r\n\r\n"
        with contextlib.suppress(ConnectionError):
            for _ in range(20):  # 1.5 MB each: more than the kernel keeps for a client
                writer.write(request)
                await writer.drain()

        async def is_dropped() -> bool:
            try:
                writer.write(b"GET")
                await writer.drain()
            except ConnectionError:
                return True
            return writer.is_closing()

        await until(is_dropped, "the connection to be dropped")
        reader.feed_eof()
        writer.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100,
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"GET http://[ HTTP/1.1\r\nHost: s\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: s\r\n\r\n", b"GET / HTTP/1.1\nHost s\n\n", b"GET /\xff HTTP/1.1\r\nHost: s\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    ],
)  # fmt: skip
async def test_what_is_not_http_is_refused_without_an_error_in_the_log(
    serve: Serve, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with logged(caplog) as lines:
        async with serve(head_s=0.3, body_s=0.3) as port:
            peer = await Peer.connect(port)
            await peer.send(garbage)
            peer.writer.write_eof()
            said = await peer.rest()
            assert b"HTTP/1.1 5" not in said
            assert b"HTTP/1.1 2" not in said
            other = await Peer.connect(port)
            await other.send(HEALTH)
            assert await other.status() == 200
            other.close()
    assert lines == []


@pytest.mark.parametrize("path", [b"/api/v1/send", b"/api/v1/send/batch", b"/api/v1/uploads", b"/webhook", b"/login"])
async def test_a_client_that_hangs_up_is_no_error_in_the_log(
    serve: Serve, path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    signed = b"webhook-id: e\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,x\r\n"
    with logged(caplog) as lines:
        async with serve() as port:
            peer = await Peer.connect(port)
            await peer.send(SEND.replace(b"/api/v1/send", path) + signed + b"Content-Length: 500\r\n\r\n{")
            await asyncio.sleep(0.05)
            peer.writer.transport.abort()
            other = await Peer.connect(port)
            await other.send(HEALTH)
            assert await other.status() == 200
            other.close()
    assert lines == []


def test_an_ipv6_client_is_counted_with_its_network() -> None:
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1") != client_of("2001:db8:0:1::1")
    assert client_of("::ffff:192.0.2.1") == client_of("192.0.2.1")


def test_the_limit_of_open_files_is_raised_and_shared() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1000, before[1]), before[1]))
        shared = open_files.shared(Limits(), 3)
        now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert now == min(before[1], 65536) or before[1] == resource.RLIM_INFINITY
        assert shared.connections * 3 < now
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_refused_connection_is_not_counted_twice() -> None:
    class Fake:
        address, local_address, overdue_at = "a", "b", 0.0

        def close_overdue(self, now: float) -> None: ...

    connections = Connections(Limits(per_address=1))
    first, second = Fake(), Fake()
    assert connections.admit(first)
    assert not connections.admit(second)
    connections.forget(second)
    assert not connections.admit(second)
    connections.forget(first)
    assert connections.admit(second)
