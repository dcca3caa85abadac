"""Client side of the Noise socket, and the credentials of a device."""

from __future__ import annotations

import secrets
import ssl
from dataclasses import dataclass, field

from python_socks.async_.asyncio import Proxy
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import binary_xml, curve25519, noise
from wa_orchestrator.simulator.protocol.binary_xml import Node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.signal import DJB

HOST = "web.whatsapp.com"
URL = f"wss://{HOST}/ws/chat"


class ClosedError(Exception):
    """The server closed the connection; `code` is its reason, if it sent one."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the connection ended ({code})")
        self.code = code


@dataclass(slots=True)
class Credentials:
    """The keys of a device, and its phone and device number after linking."""

    noise: KeyPair = field(default_factory=KeyPair.generate)
    identity: KeyPair = field(default_factory=KeyPair.generate)
    signed: KeyPair = field(default_factory=KeyPair.generate)
    adv_secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    registration: int = field(default_factory=lambda: secrets.randbelow(16380) + 1)
    prekeys: dict[int, KeyPair] = field(default_factory=dict)
    phone: str = ""
    device: int = 0

    @property
    def signature(self) -> bytes:
        return curve25519.sign(self.identity.private, DJB + self.signed.public)


class NoiseSocket:
    """An encrypted WebSocket to the server through a proxy, which sends and receives stanzas."""

    def __init__(self, socket: ClientConnection, send: noise.Cipher, receive: noise.Cipher) -> None:
        self._socket = socket
        self._send = send
        self._receive = receive
        self._deframer = noise.FrameReader(expects_intro=False)

    @classmethod
    async def open(cls, proxy_url: str, trust: ssl.SSLContext, keys: KeyPair, payload: bytes) -> NoiseSocket:
        """Connect by host name through the proxy and perform the Noise handshake."""
        dialled = await Proxy.from_url(proxy_url.replace("socks5h://", "socks5://"), rdns=True).connect(HOST, 443)
        socket = await connect(
            URL, sock=dialled, ssl=trust, server_hostname=HOST, compression=None, proxy=None, ping_interval=None
        )
        initiator = noise.Initiator(keys)
        await socket.send(noise.PROLOGUE + noise.frame(initiator.hello()))
        (hello,) = noise.FrameReader(expects_intro=False).feed(_binary(await socket.recv()))
        answer, send, receive = initiator.finish(hello, payload)
        await socket.send(noise.frame(answer))
        return cls(socket, send, receive)

    async def send(self, stanza: Node) -> None:
        """Send a stanza. Raises ClosedError when the connection is closed."""
        try:
            await self._socket.send(noise.frame(self._send.seal(binary_xml.encode(stanza))))
        except ConnectionClosed:
            raise ClosedError(None) from None

    async def receive(self) -> list[Node]:
        """Return the next stanzas; empty when the connection is closed."""
        try:
            message = _binary(await self._socket.recv())
        except ConnectionClosed:
            return []
        return [binary_xml.decode(self._receive.open(body)) for body in self._deframer.feed(message)]

    async def close(self) -> None:
        await self._socket.close()


def _binary(message: str | bytes) -> bytes:
    if isinstance(message, str):
        raise ProtocolError("text frame instead of a binary one")
    return message
