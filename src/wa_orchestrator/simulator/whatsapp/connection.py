"""One client's connection: the handshake, then stanzas both ways."""

import asyncio
import itertools
from collections.abc import Callable

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import binary_xml, noise, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.protobuf import Fields
from wa_orchestrator.simulator.whatsapp.accounts import Device
from wa_orchestrator.simulator.whatsapp.listener import WebSocket
from wa_orchestrator.simulator.whatsapp.state import Hub

_numbers = itertools.count(1)


class Connection:
    """A connected client. `phone` and `device` are known from login on; a registering client has neither."""

    def __init__(self, hub: Hub, socket: WebSocket, authority: noise.Authority, proxy: str | None) -> None:
        self.number = next(_numbers)
        self.hub = hub
        self.proxy = proxy
        self.since = hub.clock()
        self.phone: str | None = None
        self.device: Device | None = None
        self.active = False
        self.available = False
        self.client_static = b""
        #: the keys of a client that wants to be linked
        self.registration: Fields | None = None
        self.refs: list[str] = []
        self.linked: asyncio.Future[None] | None = None
        #: the device to be, until it has signed
        self.candidate: Device | None = None
        #: renewals of the QR's secret that the client has not acknowledged, and secrets that hold no more
        self.unacked_refresh: set[str] = set()
        self.retired_advs: set[bytes] = set()
        #: linking by code: whose phone and the wrapped key; the reference; the phone's side; its outcome
        self.code_for: tuple[str, bytes] | None = None
        self.code_ref = b""
        self.code_keys: tuple[str, KeyPair, bytes] | None = None
        self.finished: asyncio.Future[bytes] | None = None
        self._socket = socket
        self._responder: noise.Responder | None = noise.Responder(authority)
        self._greeted = False
        self._deframer = noise.Deframer(expects_intro=True)
        self._send: noise.Cipher | None = None
        self._receive: noise.Cipher | None = None
        #: nothing the client says counts any more; it is only waited for
        self.ended = False
        self._closed = False

    @property
    def port(self) -> int:
        """The port that the client, or its proxy, dials from."""
        return self._socket.peer_port

    @property
    def is_silent(self) -> bool:
        return self.hub.faults.active("silence", self.phone) is not None

    async def run(
        self, on_login: "Callable[[Connection, Fields], None]", on_stanza: "Callable[[Connection, Node], None]"
    ) -> None:
        """Serve the client to its end. Raises ProtocolError when it does not speak the protocol."""
        while not self._closed:
            messages = await self._socket.receive()
            if messages is None:
                return
            for message in messages:
                for body in self._deframer.feed(message):
                    self._take(body, on_login, on_stanza)

    def _take(
        self,
        body: bytes,
        on_login: "Callable[[Connection, Fields], None]",
        on_stanza: "Callable[[Connection, Node], None]",
    ) -> None:
        if self._receive is not None:
            stanza = binary_xml.decode(self._receive.open(body))
            if not self.is_silent and not self.ended:
                on_stanza(self, stanza)
        elif self.is_silent:
            return
        elif not self._greeted and self._responder:
            self._greeted = True
            self._socket.send(noise.frame(self._responder.hello(body)))
        elif self._responder:
            done = self._responder.finish(body)
            self._responder = None
            self._receive, self._send, self.client_static = done.receive, done.send, done.client_static
            on_login(self, protobuf.decode(done.payload))

    def send(self, stanza: Node) -> None:
        if self._send is None:
            raise ProtocolError("nothing can be sent before the handshake is over")
        if self.ended or self.is_silent:
            return
        self._socket.send(noise.frame(self._send.seal(binary_xml.encode(stanza))))

    def end_with(self, stanza: Node, linger_s: float = 2.0) -> None:
        """Say why, then wait for the client to close: who closes at once may lose the last words."""
        self.send(stanza)
        asyncio.get_running_loop().call_later(linger_s, self.close)
        self.ended = True
        self.active = False

    def close(self) -> None:
        self.ended = self._closed = True
        self._socket.close()

    def abort(self) -> None:
        self.ended = self._closed = True
        self._socket.abort()
