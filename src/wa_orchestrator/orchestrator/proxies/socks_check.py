"""SOCKS5 proxy check: a real handshake with credentials, and a CONNECT by host name."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from wa_orchestrator.domain.proxies.proxy_health import ProxyFailure
from wa_orchestrator.domain.proxies.proxy_url import ProxyUrl, parse

_VERSION, _CONNECT, _BY_NAME = 5, 1, 3
_NO_LOGIN, _LOGIN = 0, 2
_ADDRESS_BYTES = {1: 4, 4: 16}


@dataclass(frozen=True, slots=True)
class CheckPassed:
    """The proxy connected to the target."""

    latency_ms: int


@dataclass(frozen=True, slots=True)
class CheckFailed:
    """It did not. The detail holds no secret."""

    why: ProxyFailure
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.why}:{self.detail}" if self.detail else self.why


CheckResult = CheckPassed | CheckFailed
ProxyCheck = Callable[[str], Awaitable[CheckResult]]


class _CheckError(Exception):
    def __init__(self, why: ProxyFailure, detail: object = "") -> None:
        super().__init__(why)
        self.failed = CheckFailed(why, str(detail))


async def check(url: str, target: str, timeout_ms: float) -> CheckResult:
    """Connect to `target` (`host:port`, by name) through the proxy at `url`."""
    host, _, port = target.rpartition(":")
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await _tunnel(parse(url), host, int(port))
    except TimeoutError:
        return CheckFailed(ProxyFailure.NO_ANSWER, f"{timeout_ms / 1000:g}")
    except _CheckError as error:
        return error.failed
    except asyncio.IncompleteReadError:
        return CheckFailed(ProxyFailure.CLOSED)
    except OSError as error:
        return CheckFailed(ProxyFailure.UNREACHABLE, error.strerror or type(error).__name__)
    return CheckPassed(round((time.monotonic() - began) * 1000))


async def _tunnel(proxy: ProxyUrl, host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    try:
        await _greet(reader, writer, proxy)
        name = host.encode("idna")
        writer.write(bytes([_VERSION, _CONNECT, 0, _BY_NAME, len(name)]) + name + port.to_bytes(2, "big"))
        version, reply, _, kind = await reader.readexactly(4)
        if version != _VERSION or reply != 0:
            raise _CheckError(ProxyFailure.CONNECT_REFUSED, reply)
        length = _ADDRESS_BYTES.get(kind) or (await reader.readexactly(1))[0]
        await reader.readexactly(length + 2)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: ProxyUrl) -> None:
    method = _NO_LOGIN if proxy.user is None else _LOGIN
    writer.write(bytes([_VERSION, 1, method]))
    version, chosen = await reader.readexactly(2)
    if version != _VERSION:
        raise _CheckError(ProxyFailure.NOT_SOCKS5)
    if chosen != method:
        raise _CheckError(ProxyFailure.OTHER_LOGIN)
    if method == _LOGIN:
        user, password = (proxy.user or "").encode(), (proxy.password or "").encode()
        writer.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if (await reader.readexactly(2))[1] != 0:
            raise _CheckError(ProxyFailure.LOGIN_REFUSED)
