"""Server side of the SOCKS5 handshake (RFC 1928, user and password by RFC 1929)."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum

VERSION = 5
AUTH_VERSION = 1
METHOD_PASSWORD = 2
METHOD_NONE_ACCEPTED = 0xFF
COMMAND_CONNECT = 1


class Reply(IntEnum):
    """Reply codes (RFC 1928, section 6)."""

    SUCCEEDED = 0
    FAILURE = 1
    NOT_ALLOWED = 2
    HOST_UNREACHABLE = 4
    REFUSED = 5
    COMMAND_NOT_SUPPORTED = 7
    ADDRESS_NOT_SUPPORTED = 8


class AddressType(StrEnum):
    """Address type of a request. Anything but `DOMAIN` means that the client resolved the name itself: a DNS leak."""

    DOMAIN = "domain"
    IPV4 = "ipv4"
    IPV6 = "ipv6"


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """A CONNECT request of an authenticated client."""

    user: str
    host: str
    port: int
    address_type: AddressType


class HandshakeError(Exception):
    """A client that was refused during the handshake; the reply has been sent."""

    def __init__(self, outcome: str, user: str | None = None) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.user = user


async def negotiate(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_allowed: Callable[[str, str], bool]
) -> ConnectRequest:
    """Perform the handshake and return the request; the caller answers it with `reply_to`."""
    await _negotiate_method(reader, writer)
    user = await _authenticate(reader, writer, is_allowed)
    version, command, _reserved, kind = await reader.readexactly(4)
    if version != VERSION:
        raise HandshakeError("not_socks5", user)
    address_type, host = await _read_address(reader, writer, kind, user)
    port = int.from_bytes(await reader.readexactly(2), "big")
    if command != COMMAND_CONNECT:
        await reply_to(writer, Reply.COMMAND_NOT_SUPPORTED)
        raise HandshakeError("command_not_supported", user)
    return ConnectRequest(user, host, port, address_type)


async def reply_to(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """Send the reply to a request. The bound address stays zero; no client uses it."""
    writer.write(bytes([VERSION, reply, 0, 1, 0, 0, 0, 0, 0, 0]))
    await writer.drain()


async def _negotiate_method(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    version, count = await reader.readexactly(2)
    if version != VERSION:
        raise HandshakeError("not_socks5")
    methods = await reader.readexactly(count)
    accepted = METHOD_PASSWORD in methods
    writer.write(bytes([VERSION, METHOD_PASSWORD if accepted else METHOD_NONE_ACCEPTED]))
    await writer.drain()
    if not accepted:
        raise HandshakeError("no_credentials")


async def _authenticate(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_allowed: Callable[[str, str], bool]
) -> str:
    await reader.readexactly(1)
    user = await _read_short(reader)
    password = await _read_short(reader)
    allowed = is_allowed(user, password)
    writer.write(bytes([AUTH_VERSION, 0 if allowed else 1]))
    await writer.drain()
    if not allowed:
        raise HandshakeError("wrong_credentials", user)
    return user


async def _read_address(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kind: int, user: str
) -> tuple[AddressType, str]:
    match kind:
        case 1:
            return AddressType.IPV4, str(ipaddress.IPv4Address(await reader.readexactly(4)))
        case 3:
            return AddressType.DOMAIN, (await _read_short(reader)).lower().rstrip(".")
        case 4:
            return AddressType.IPV6, str(ipaddress.IPv6Address(await reader.readexactly(16)))
        case _:
            await reply_to(writer, Reply.ADDRESS_NOT_SUPPORTED)
            raise HandshakeError("address_not_supported", user)


async def _read_short(reader: asyncio.StreamReader) -> str:
    (length,) = await reader.readexactly(1)
    return (await reader.readexactly(length)).decode("utf-8", "replace")
