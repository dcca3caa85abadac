"""A client's encrypted line to the simulated WhatsApp, and the keys it is opened with."""

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
    """The server ended the connection; `code` is what it gave as its reason, if anything."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the connection ended ({code})")
        self.code = code


@dataclass(slots=True)
class Credentials:
    """What a device keeps: its keys, and after linking who it is."""

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


class Line:
    """An encrypted line to the server through a proxy: stanzas out, stanzas in."""

    def __init__(self, socket: ClientConnection, send: noise.Cipher, receive: noise.Cipher) -> None:
        self._socket = socket
        self._send = send
        self._receive = receive
        self._deframer = noise.Deframer(expects_intro=False)

    @classmethod
    async def open(cls, proxy_url: str, trust: ssl.SSLContext, keys: KeyPair, payload: bytes) -> Line:
        """Dial by name through the proxy and shake hands."""
        dialled = await Proxy.from_url(proxy_url.replace("socks5h://", "socks5://"), rdns=True).connect(HOST, 443)
        socket = await connect(
            URL, sock=dialled, ssl=trust, server_hostname=HOST, compression=None, proxy=None, ping_interval=None
        )
        initiator = noise.Initiator(keys)
        await socket.send(noise.PROLOGUE + noise.frame(initiator.hello()))
        (hello,) = noise.Deframer(expects_intro=False).feed(_binary(await socket.recv()))
        answer, send, receive = initiator.finish(hello, payload)
        await socket.send(noise.frame(answer))
        return cls(socket, send, receive)

    async def send(self, stanza: Node) -> None:
        """Send a stanza. Raises ClosedError when the line is over."""
        try:
            await self._socket.send(noise.frame(self._send.seal(binary_xml.encode(stanza))))
        except ConnectionClosed:
            raise ClosedError(None) from None

    async def receive(self) -> list[Node]:
        """Wait for the next stanzas; none when the line is over."""
        try:
            message = _binary(await self._socket.recv())
        except ConnectionClosed:
            return []
        return [binary_xml.decode(self._receive.open(body)) for body in self._deframer.feed(message)]

    async def close(self) -> None:
        await self._socket.close()


def _binary(message: str | bytes) -> bytes:
    if isinstance(message, str):
        raise ProtocolError("text where bytes belong")
    return message
