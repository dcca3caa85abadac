"""The simulated proxies, as an independent SOCKS5 client sees them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from python_socks import ProxyError, ProxyTimeoutError
from python_socks.async_.asyncio import Proxy as Client

from tests.waiting import PATIENCE_S, until
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.proxies.destinations import ProxyAccount
from wa_orchestrator.simulator.proxies.pool import SocksPool
from wa_orchestrator.simulator.proxies.socks_server import SocksServer

WEB = "web.whatsapp.com"


class Upstream:
    """A fake WhatsApp that sends the id of the proxy, then echoes."""

    def __init__(self, pool: SocksPool) -> None:
        self.pool = pool
        self.ports: list[int] = []
        self.live = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.live += 1
        port = writer.get_extra_info("peername")[1]
        self.ports.append(port)
        with contextlib.suppress(ConnectionError):
            writer.write(f"{self.pool.proxy_of(port)}\n".encode())
            while line := await reader.readline():
                writer.write(line)
        writer.close()
        self.live -= 1


@contextlib.asynccontextmanager
async def _world() -> AsyncIterator[tuple[SocksPool, Upstream]]:
    pool = SocksPool(clock=lambda: 7.0)
    upstream = Upstream(pool)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    pool.route.target = server.sockets[0].getsockname()[:2]
    try:
        yield pool, upstream
    finally:
        await pool.close()
        server.close()


class Tunnel:
    """The client's end of a connection through a proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(
        cls, url: str, host: str = WEB, port: int = 443, *, rdns: bool = True, timeout: float = PATIENCE_S
    ) -> "Tunnel":
        client = Client.from_url(url.replace("socks5h", "socks5"), rdns=rdns)
        sock = await client.connect(dest_host=host, dest_port=port, timeout=timeout)
        return cls(*await asyncio.open_connection(sock=sock))

    async def line(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return (await self.reader.readline()).decode().strip()

    async def echo(self, text: str) -> str:
        self.writer.write(f"{text}\n".encode())
        return await self.line()

    def close(self) -> None:
        self.writer.close()


async def test_whatsapps_names_connect_to_the_simulator_which_knows_the_proxy_at_once() -> None:
    async with _world() as (pool, _):
        proxies = [await pool.add() for _ in range(3)]
        for proxy in proxies:
            tunnel = await Tunnel.open(proxy.account.url, "mmg.whatsapp.net")
            assert await tunnel.line() == proxy.account.id
            assert await tunnel.echo("hello") == "hello"
            tunnel.close()
        entry = proxies[0].describe()["connections"][0]
        assert entry == {
            "at": 7.0, "outcome": "open", "user": "proxy-1", "host": "mmg.whatsapp.net", "port": 443, "addressType": "domain",
        }  # fmt: skip
        assert proxies[0].describe()["bytesUp"] == len("hello\n")
        assert proxies[0].describe()["bytesDown"] == len("proxy-1\nhello\n")


async def test_a_direct_connection_has_no_proxy() -> None:
    async with _world() as (pool, _):
        await pool.add()
        assert pool.route.target is not None
        tunnel = Tunnel(*await asyncio.open_connection(*pool.route.target))
        assert await tunnel.line() == "None"
        tunnel.close()


@pytest.mark.parametrize(
    ("host", "port"), [("example.com", 443), (WEB, 80), ("127.0.0.1", 443), ("whatsapp.com.example.com", 443)]
)
async def test_everything_else_is_refused_and_logged(host: str, port: int) -> None:
    async with _world() as (pool, upstream):
        proxy = await pool.add()
        with pytest.raises(ProxyError, match="not allowed"):
            await Tunnel.open(proxy.account.url, host, port)
        entry = proxy.describe()["connections"][0]
        assert (entry["outcome"], entry["host"], entry["port"]) == ("not_allowed", host, port)
        assert entry["addressType"] == ("ipv4" if host[0].isdigit() else "domain")
        assert upstream.ports == []


@pytest.mark.parametrize("credentials", ["proxy-1:wrong@", "other:{password}@", ""])
async def test_only_the_right_user_and_password_are_accepted(credentials: str) -> None:
    async with _world() as (pool, _):
        account = (await pool.add()).account
        url = f"socks5h://{credentials.format(password=account.password)}127.0.0.1:{account.port}"
        with pytest.raises(ProxyError):
            await Tunnel.open(url)
        (entry,) = pool.find("proxy-1").describe()["connections"]
        assert entry["outcome"] == ("wrong_credentials" if credentials else "no_credentials")


async def test_only_sessions_are_counted_and_each_device_once() -> None:
    async with _world() as (pool, upstream):
        proxy = await pool.add()
        tunnels = [await Tunnel.open(proxy.account.url) for _ in range(4)]
        for tunnel in tunnels:
            await tunnel.line()
        assert (proxy.describe()["tunnels"], proxy.describe()["live"]) == (4, 0)
        for port, device in zip(
            upstream.ports, ["a", "b", "b"], strict=False
        ):  # b reconnects; the fourth only looks up
            pool.mark_session(port, device)
        assert (proxy.describe()["live"], proxy.describe()["highWater"]) == (2, 2)
        for tunnel in tunnels:
            tunnel.close()
        await until(lambda: proxy.describe()["tunnels"] == 0, "all tunnels are gone")
        assert (proxy.describe()["live"], proxy.describe()["highWater"]) == (0, 2)


async def test_closing_one_side_closes_the_other() -> None:
    async with _world() as (pool, upstream):
        proxy = await pool.add()
        tunnel = await Tunnel.open(proxy.account.url)
        await tunnel.line()
        tunnel.close()
        await until(lambda: upstream.live == 0, "nothing is connected")
        assert pool.proxy_of(upstream.ports[0]) is None


async def test_a_proxy_without_an_upstream_replies_host_unreachable() -> None:
    async with _world() as (pool, _):
        proxy = await pool.add()
        pool.route.target = None
        with pytest.raises(ProxyError, match="unreachable"):
            await Tunnel.open(proxy.account.url)


async def test_refuse_stops_listening_keeps_open_tunnels_and_returns_on_the_same_port() -> None:
    async with _world() as (pool, _):
        proxy = await pool.add()
        living = await Tunnel.open(proxy.account.url)
        await living.line()
        await proxy.fault("refuse")
        with pytest.raises(OSError, match=r"refused|failed"):
            await Tunnel.open(proxy.account.url)
        assert await living.echo("still here") == "still here"
        await pool.clear_faults()
        again = await Tunnel.open(proxy.account.url)
        assert await again.line() == proxy.account.id


async def test_wrong_auth_refuses_the_right_password() -> None:
    async with _world() as (pool, _):
        proxy = await pool.add()
        await proxy.fault("wrong_auth")
        with pytest.raises(ProxyError, match=r"[Aa]uth"):
            await Tunnel.open(proxy.account.url)
        await pool.clear_faults()
        (await Tunnel.open(proxy.account.url)).close()


async def test_blackhole_stalls_new_and_open_tunnels_which_continue_afterwards() -> None:
    async with _world() as (pool, _):
        proxy = await pool.add()
        living = await Tunnel.open(proxy.account.url)
        await living.line()
        await proxy.fault("blackhole")
        with pytest.raises((ProxyTimeoutError, TimeoutError)):
            await Tunnel.open(proxy.account.url, timeout=0.1)
        echo = asyncio.create_task(living.echo("held up"))
        done, _ = await asyncio.wait({echo}, timeout=0.1)
        assert not done
        await pool.clear_faults()
        assert await echo == "held up"


async def test_slow_delays_every_chunk() -> None:
    async with _world() as (pool, _):
        proxy = await pool.add()
        tunnel = await Tunnel.open(proxy.account.url)
        await tunnel.line()
        await proxy.fault("slow", latency_ms=60)
        loop = asyncio.get_running_loop()
        start = loop.time()
        await tunnel.echo("there and back")
        assert loop.time() - start >= 0.12


async def test_drop_resets_open_tunnels_once() -> None:
    async with _world() as (pool, upstream):
        proxy = await pool.add()
        tunnel = await Tunnel.open(proxy.account.url)
        await tunnel.line()
        await proxy.fault("drop")
        with contextlib.suppress(ConnectionError):
            assert await tunnel.line() == ""
        await until(lambda: upstream.live == 0, "nothing is connected")
        assert proxy.describe()["faults"] == []
        (await Tunnel.open(proxy.account.url)).close()


@pytest.mark.parametrize("kind", ["refuse", "wrong_auth", "blackhole", "slow"])
async def test_a_fault_with_an_end_ends_by_itself(kind: str) -> None:
    async with _world() as (pool, _):
        proxy = await pool.add()
        await proxy.fault(kind, seconds=0.02, latency_ms=1)
        assert proxy.describe()["faults"] == [kind]
        await until(lambda: proxy.describe()["faults"] == [], "the fault is over")
        tunnel = await Tunnel.open(proxy.account.url)
        assert await tunnel.line() == proxy.account.id


async def test_a_proxy_is_found_by_id_url_or_port_and_an_unknown_fault_or_proxy_is_named() -> None:
    async with _world() as (pool, _):
        proxy = await pool.add()
        references: list[Any] = [proxy.account.id, proxy.account.url, str(proxy.account.port)]
        assert {pool.find(reference) for reference in references} == {proxy}
        with pytest.raises(SimulatorError, match="proxy-1"):
            pool.find("proxy-9")
        with pytest.raises(SimulatorError, match="blackhole"):
            await proxy.fault("explode")


async def test_a_port_in_use_is_reported() -> None:
    async with _world() as (pool, _):
        taken: SocksServer = await pool.add()
        with pytest.raises(SimulatorError, match=str(taken.account.port)):
            await pool.add(ProxyAccount("proxy-2", "password", taken.account.port))


async def test_other_allowed_destinations_are_connected() -> None:
    async with _world() as (outer, _):
        target = outer.route.target
        assert target is not None
        pool = SocksPool(allowed=[target])
        proxy = await pool.add()
        tunnel = await Tunnel.open(proxy.account.url, *target)
        assert await tunnel.line() == "None"  # the other world does not know this proxy
        assert await tunnel.echo("through") == "through"
        await pool.close()


@pytest.mark.parametrize("kind", ["blackhole", "slow", "refuse"])
async def test_the_pool_closes_at_once_during_any_fault(kind: str) -> None:
    async with _world() as (pool, upstream):
        proxy = await pool.add()
        tunnel = await Tunnel.open(proxy.account.url)
        await tunnel.line()
        await proxy.fault(kind, seconds=60, latency_ms=60_000)
        tunnel.writer.write(b"held up\n")
        async with asyncio.timeout(PATIENCE_S):
            await pool.close()
        await until(lambda: upstream.live == 0, "nothing is connected")
