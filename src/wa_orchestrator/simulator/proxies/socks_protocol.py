"""SOCKS5 as spoken on the wire (RFC 1928, user and password by RFC 1929): the server's half of the handshake."""

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
    """How a proxy answers a request (RFC 1928, section 6)."""

    SUCCEEDED = 0
    FAILURE = 1
    NOT_ALLOWED = 2
    HOST_UNREACHABLE = 4
    REFUSED = 5
    COMMAND_NOT_SUPPORTED = 7
    ADDRESS_NOT_SUPPORTED = 8


class AddressType(StrEnum):
    """How a client named the host. Anything but `DOMAIN` means that it looked the name up by itself: a DNS leak."""

    DOMAIN = "domain"
    IPV4 = "ipv4"
    IPV6 = "ipv6"


@dataclass(frozen=True, slots=True)
class Request:
    """Where an authenticated client wants to go."""

    user: str
    host: str
    port: int
    address_type: AddressType


class HandshakeError(Exception):
    """A client that was turned away before it could ask for anything; it has its answer already."""

    def __init__(self, outcome: str, user: str | None = None) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.user = user


async def negotiate(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_allowed: Callable[[str, str], bool]
) -> Request:
    """Lead a client up to its request; the caller answers that one with `answer`."""
    await _agree_on_password(reader, writer)
    user = await _authenticate(reader, writer, is_allowed)
    version, command, _reserved, kind = await reader.readexactly(4)
    if version != VERSION:
        raise HandshakeError("not_socks5", user)
    address_type, host = await _read_address(reader, writer, kind, user)
    port = int.from_bytes(await reader.readexactly(2), "big")
    if command != COMMAND_CONNECT:
        await answer(writer, Reply.COMMAND_NOT_SUPPORTED)
        raise HandshakeError("command_not_supported", user)
    return Request(user, host, port, address_type)


async def answer(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """Answer a request. The bound address is of no use to any client and stays zero."""
    writer.write(bytes([VERSION, reply, 0, 1, 0, 0, 0, 0, 0, 0]))
    await writer.drain()


async def _agree_on_password(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            await answer(writer, Reply.ADDRESS_NOT_SUPPORTED)
            raise HandshakeError("address_not_supported", user)


async def _read_short(reader: asyncio.StreamReader) -> str:
    (length,) = await reader.readexactly(1)
    return (await reader.readexactly(length)).decode("utf-8", "replace")
