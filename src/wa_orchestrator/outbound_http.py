"""Requests to URLs of customers, protected against server-side request forgery (SSRF).

The name is resolved once, private addresses are refused, and the connection goes to the address that was checked, with
the name in SNI and Host. https only, no redirects, no proxy from the environment, and no compression: a few bytes of
gzip become gigabytes before a limit on the decoded body is reached.
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

from wa_orchestrator.domain.allowed_addresses import is_forbidden, is_public
from wa_orchestrator.errors import Refused

Resolve = Callable[[str, int], Coroutine[Any, Any, Sequence[str]]]
_CONNECT_S: Final = 5.0
_CHUNK_BYTES: Final = 65536


class EncodedBody(Refused):
    """A response with an encoding that was not asked for. Decoding it would be work that its sender decides on."""

    def __init__(self) -> None:
        text = "The server at this address sends the file compressed. Serve it without Content-Encoding, or upload it."
        super().__init__("CONTENT_ENCODED", text, 422)


class BadUrl(Refused):
    """A URL that is not requested."""

    def __init__(self, text: str) -> None:
        super().__init__("URL_REFUSED", text, 422)


@dataclass(frozen=True, slots=True)
class CheckedUrl:
    """A checked URL: the address to connect to, and the name to ask for."""

    url: str
    host: str
    port: int
    address: str
    secure: bool

    @property
    def connect_url(self) -> str:
        """The URL with the checked address instead of the name."""
        parts = urlsplit(self.url)
        literal = f"[{self.address}]" if ":" in self.address else self.address
        return parts._replace(netloc=f"{literal}:{self.port}", fragment="").geturl()

    @property
    def host_header(self) -> str:
        """The value of the Host header."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.secure else 80) else f"{name}:{self.port}"


async def resolve_name(host: str, port: int) -> list[str]:
    """Resolve a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


async def check(url: str, *, allow_private: bool, resolve: Resolve = resolve_name) -> CheckedUrl:
    """Resolve and check a URL. Raises `BadUrl`."""
    host, port, secure = _parse(url, allow_private=allow_private)
    try:
        async with asyncio.timeout(_CONNECT_S):
            found = await resolve(host, port)
        addresses = [ipaddress.ip_address(each.partition("%")[0]) for each in found]
    except (OSError, ValueError, UnicodeError, TimeoutError):
        addresses = []
    if not addresses:
        raise BadUrl(f"The name {host[:80]} cannot be resolved.")
    # One bad address is enough: a name that sometimes resolves to a private address is an attack.
    if any(map(is_forbidden, addresses)):
        raise BadUrl(
            "This URL resolves to a link-local, multicast or cloud metadata address, which is never requested."
        )
    if not allow_private and not all(map(is_public, addresses)):
        raise BadUrl("This URL resolves to a private address. Set ALLOW_PRIVATE_URLS=true for a LAN you trust.")
    return CheckedUrl(url, host, port, str(addresses[0]), secure)


def _parse(url: str, *, allow_private: bool) -> tuple[str, int, bool]:
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise BadUrl("This is not a URL. Example: https://example.com/file.pdf") from None
    allowed = ("https", "http") if allow_private else ("https",)
    if parts.scheme not in allowed or not host or not url.isprintable() or any(sign in url for sign in " \\"):
        raise BadUrl("A URL must begin with https://. Example: https://example.com/file.pdf")
    if parts.username is not None or parts.password is not None:
        raise BadUrl("A URL must not contain a user name or a password.")
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            raise BadUrl("This is not a URL. Example: https://example.com/file.pdf") from None
    secure = parts.scheme == "https"
    return host, port or (443 if secure else 80), secure


@asynccontextmanager
async def request(
    method: str,
    target: CheckedUrl,
    *,
    timeout_s: float,
    headers: dict[str, str] | None = None,
    content: bytes | None = None,
    trust: ssl.SSLContext | bool = True,
) -> AsyncIterator[httpx.Response]:
    """Request a checked URL. Redirects are not followed; the caller reads the body with `raw_chunks`."""
    timeout = httpx.Timeout(timeout_s, connect=_CONNECT_S)
    async with (
        asyncio.timeout(timeout_s),
        httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=timeout, verify=trust) as client,
        client.stream(
            method,
            target.connect_url,
            headers={**(headers or {}), "Host": target.host_header, "Accept-Encoding": "identity"},
            content=content,
            extensions={"sni_hostname": target.host},
        ) as response,
    ):
        yield response


def raw_chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    """Return the bytes of a body as they came over the wire. Raises `EncodedBody` where they would need decoding."""
    encodings = response.headers.get("content-encoding", "").lower().split(",")
    if any(each.strip() not in ("", "identity") for each in encodings):
        raise EncodedBody
    return response.aiter_raw(_CHUNK_BYTES)


async def drain(response: httpx.Response, most: int) -> bytes:
    """Read at most `most` bytes of a body, as they came over the wire, and leave the rest."""
    read = bytearray()
    async for chunk in response.aiter_raw():
        read += chunk
        if len(read) >= most:
            break
    return bytes(read[:most])
