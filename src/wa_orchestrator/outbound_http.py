"""Addresses that customers give us: resolved once, refused if they lead inside, and connected to as they were checked.

Whoever may name an address could otherwise make the server read its own network. So: https only, no redirects, no
proxy from the environment, and the connection goes to the address that was checked, with the name in SNI and Host.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from wa_orchestrator.errors import Refused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Coroutine[Any, Any, Sequence[str]]]
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_SHARED = ipaddress.IPv4Network("100.64.0.0/10")
#: Services of clouds that hand out credentials, where they are not link-local anyway.
_METADATA: Final = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "100.100.100.200", "fd00:ec2::254")))
_CONNECT_S: Final = 5.0


class BadUrl(Refused):
    """An address that we do not go to."""

    def __init__(self, text: str) -> None:
        super().__init__("URL_REFUSED", text, 422)


@dataclass(frozen=True, slots=True)
class Target:
    """A checked address: where to connect, and under which name."""

    url: str
    host: str
    port: int
    address: str
    secure: bool

    @property
    def connect_url(self) -> str:
        """The URL with the checked address in the place of the name."""
        parts = urlsplit(self.url)
        literal = f"[{self.address}]" if ":" in self.address else self.address
        return parts._replace(netloc=f"{literal}:{self.port}", fragment="").geturl()

    @property
    def host_header(self) -> str:
        """What the server there is asked for."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.secure else 80) else f"{name}:{self.port}"


def is_public(address: Address) -> bool:
    """Say whether an address is out on the internet, also when it hides inside another one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _inner(address)
        if inner is not None:
            return is_public(inner)
        if address in _LOCAL_NAT64 or address.is_site_local:
            return False
    elif address in _SHARED:
        return False
    return address.is_global and not address.is_reserved and not is_never_meant(address)


def is_never_meant(address: Address) -> bool:
    """Say whether nobody's file or webhook can be there, on a trusted LAN neither: link-local, metadata, multicast, no
    address at all; also when it hides inside another one.
    """
    inner = _inner(address) if isinstance(address, ipaddress.IPv6Address) else None
    if inner is not None:
        return is_never_meant(inner)
    return address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Give the IPv4 address that an IPv6 address stands for: mapped, compatible, 6to4, Teredo, NAT64."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    low = int(address) & 0xFFFFFFFF
    if address in _NAT64 or (int(address) >> 32 == 0 and low > 0xFFFF):
        return ipaddress.IPv4Address(low)
    return None


async def resolve_name(host: str, port: int) -> list[str]:
    """Look a name up, once."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


async def check(url: str, *, allow_private: bool, resolve: Resolve = resolve_name) -> Target:
    """Decide whether we go to `url`, and to which address. Raises `BadUrl`."""
    host, port, secure = _read(url, allow_private=allow_private)
    try:
        async with asyncio.timeout(_CONNECT_S):
            found = await resolve(host, port)
        addresses = [ipaddress.ip_address(each.partition("%")[0]) for each in found]
    except (OSError, ValueError, UnicodeError, TimeoutError):
        raise BadUrl(f"The name {host[:80]} cannot be resolved.") from None
    if not addresses:
        raise BadUrl(f"The name {host[:80]} cannot be resolved.")
    # One bad address is enough: a name that leads inside at times is no accident.
    if any(map(is_never_meant, addresses)):
        raise BadUrl("This address is link-local, multicast or a cloud's metadata service. Nothing is read there.")
    if not allow_private and not all(map(is_public, addresses)):
        raise BadUrl("This address leads into a private network. Set ALLOW_PRIVATE_URLS=true for a LAN you trust.")
    return Target(url, host, port, str(addresses[0]), secure)


def _read(url: str, *, allow_private: bool) -> tuple[str, int, bool]:
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise BadUrl("This is no address. Write one such as https://example.com/here.") from None
    allowed = ("https", "http") if allow_private else ("https",)
    if parts.scheme not in allowed or not host or not url.isprintable() or any(sign in url for sign in " \\"):
        raise BadUrl("Write an address that begins with https://, such as https://example.com/here.")
    if parts.username is not None or parts.password is not None:
        raise BadUrl("An address may not hold a user name or a password.")
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            raise BadUrl("This is no address. Write one such as https://example.com/here.") from None
    secure = parts.scheme == "https"
    return host, port or (443 if secure else 80), secure


@asynccontextmanager
async def request(
    method: str,
    target: Target,
    *,
    timeout_s: float,
    headers: dict[str, str] | None = None,
    content: bytes | None = None,
    trust: ssl.SSLContext | bool = True,
) -> AsyncIterator[httpx.Response]:
    """Ask a checked address. The answer is not followed elsewhere, and its body is read by the caller in pieces."""
    timeout = httpx.Timeout(timeout_s, connect=_CONNECT_S)
    async with (
        asyncio.timeout(timeout_s),
        httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=timeout, verify=trust) as client,
        client.stream(
            method,
            target.connect_url,
            headers={**(headers or {}), "Host": target.host_header},
            content=content,
            extensions={"sni_hostname": target.host},
        ) as response,
    ):
        yield response
