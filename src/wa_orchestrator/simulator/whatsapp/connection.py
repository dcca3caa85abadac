"""One client connection: the Noise handshake, then stanzas in both directions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import binary_xml, noise, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields
from wa_orchestrator.simulator.whatsapp.accounts import Device
from wa_orchestrator.simulator.whatsapp.listener import WebSocket
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server

if TYPE_CHECKING:
    from wa_orchestrator.simulator.whatsapp.stanzas.passkeys import Ceremony

_numbers = itertools.count(1)
#: Longer stanzas are sent compressed.
_COMPRESS_ABOVE = 1024
#: Not compressed, and then no list.
_NO_STANZA = b"\x00\xff\xff\xff"


class Connection:
    """A connected client. `phone` and `device` are set at login; a registering client has neither."""

    def __init__(
        self, state: ServerState, socket: WebSocket, identity: noise.ServerIdentity, proxy: str | None
    ) -> None:
        self.number = next(_numbers)
        self.state = state
        self.proxy = proxy
        #: when it was made, and when the client was last heard
        self.since = self.heard_at = state.clock()
        self.phone: str | None = None
        self.device: Device | None = None
        self.active = False
        self.available = False
        #: the numbers of people whose presence it wants to be told
        self.watched: set[str] = set()
        #: pings that wait for an answer, and answers to pings
        self.pings = self.pongs = 0
        #: ids of messages that the device has asked for again and not acked yet
        self.retried: set[str] = set()
        self.client_static = b""
        #: keys of a client that is being linked
        self.registration: ProtobufFields | None = None
        self.refs: list[str] = []
        self.linked: asyncio.Future[None] | None = None
        #: the new device, until it has signed
        self.candidate: Device | None = None
        #: refreshes of the ADV secret that the client has not acked, and ADV secrets that are no longer valid
        self.unacked_refresh: set[str] = set()
        self.retired_advs: set[bytes] = set()
        #: pairing code: the phone and the wrapped key; the reference; the phone's ephemeral key; the result
        self.code_for: tuple[str, bytes] | None = None
        self.code_ref = b""
        self.code_keys: tuple[str, KeyPair, bytes] | None = None
        self.finished: asyncio.Future[bytes] | None = None
        #: linking by passkey, and the secret that its last step brought
        self.ceremony: Ceremony | None = None
        self.passkey_adv = b""
        self._socket = socket
        self._responder: noise.Responder | None = noise.Responder(identity)
        self._greeted = False
        self._deframer = noise.FrameReader(expects_intro=True)
        self._send: noise.Cipher | None = None
        self._receive: noise.Cipher | None = None
        #: stanzas are ignored; the client is expected to close
        self.ended = False
        self._closed = False

    @property
    def port(self) -> int:
        """The local port of the client, or of its proxy."""
        return self._socket.peer_port

    @property
    def routing_info(self) -> bytes:
        return self._deframer.routing_info

    @property
    def is_silent(self) -> bool:
        return self.state.faults.active("silence", self.phone) is not None

    async def run(
        self, on_login: Callable[[Connection, ProtobufFields], None], on_stanza: Callable[[Connection, Node], None]
    ) -> None:
        """Serve the client until it disconnects. Raises ProtocolError for anything that is not the protocol."""
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
        on_login: Callable[[Connection, ProtobufFields], None],
        on_stanza: Callable[[Connection, Node], None],
    ) -> None:
        if self._receive is not None:
            stanza = binary_xml.decode(self._receive.open(body))
            self.heard_at = self.state.clock()
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
            raise ProtocolError("cannot send before the handshake is complete")
        if self.ended or self.is_silent:
            return
        payload = binary_xml.encode(stanza)
        if len(payload) > _COMPRESS_ABOVE:
            payload = binary_xml.compress(payload)
        self._socket.send(noise.frame(self._send.seal(payload)))

    def ping(self, patience_s: float) -> None:
        """Ask whether the client is alive, and break the connection if it does not answer. The question has no id."""
        self.pings += 1
        self.send(from_server("iq", {"type": "get", "xmlns": "urn:xmpp:ping", "t": str(self.state.now)}))
        asyncio.get_running_loop().call_later(patience_s, self._break_if_mute)

    def answer_ping(self) -> None:
        self.pongs += self.pings
        self.pings = 0

    def _break_if_mute(self) -> None:
        if self.pings:
            self.abort()

    def send_undecodable(self, *, is_sealed: bool) -> None:
        """Send a frame that is no stanza, or, unsealed, one that the client cannot decrypt."""
        if self._send is not None and not self.ended:
            self._socket.send(noise.frame(self._send.seal(_NO_STANZA) if is_sealed else _NO_STANZA * 8))

    def end_with(self, stanza: Node, linger_s: float = 2.0) -> None:
        """Send a last stanza and let the client close: closing at once may lose it."""
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
