"""A small WhatsApp client in Python that can link, log in, send, and misbehave."""

import asyncio
import base64
import secrets
from pathlib import Path
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

from wa_orchestrator.simulator.protocol import binary_xml, curve25519, noise, protobuf, signal
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields
from wa_orchestrator.simulator.protocol.signal import DJB, PreKeyBundle, PreKeyMessage, SignalSession
from wa_orchestrator.simulator.whatsapp.accounts import lid_of
from wa_orchestrator.simulator.whatsapp.server import WhatsApp

WAIT_S = 30.0


class WireClient:
    """One device. Its keys outlive its connections."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.noise, self.identity, self.signed = KeyPair.generate(), KeyPair.generate(), KeyPair.generate()
        self.prekeys = {number: KeyPair.generate() for number in range(1, 21)}
        self.adv = secrets.token_bytes(32)
        self.phone, self.device = "", 0
        self.sessions: dict[str, SignalSession] = {}
        self.socket: ClientConnection | None = None
        #: what precedes the prologue; the answer that linked it; how many stanzas came compressed
        self.intro = b""
        self.pair_success: Node | None = None
        self.compressed = 0
        self._ids = 0

    async def handshake(self, payload: bytes) -> None:
        self.socket = await connect(f"ws://127.0.0.1:{self.world.port}/ws/chat", max_size=None, compression=None)
        self._deframer = noise.FrameReader(expects_intro=False)
        initiator = noise.Initiator(self.noise, self.world.whatsapp.noise_root)
        await self.socket.send(self.intro + noise.PROLOGUE + noise.frame(initiator.hello()))
        (hello,) = self._deframer.feed(await self.raw())
        finish, self._seal, self._open = initiator.finish(hello, payload)
        await self.socket.send(noise.frame(finish))
        self._inbox: list[Node] = []

    async def raw(self) -> bytes:
        assert self.socket
        data = await asyncio.wait_for(self.socket.recv(), WAIT_S)
        assert isinstance(data, bytes)
        return data

    async def send(self, stanza: Node) -> None:
        await self.send_plain(binary_xml.encode(stanza))

    async def send_plain(self, payload: bytes) -> None:
        assert self.socket
        await self.socket.send(noise.frame(self._seal.seal(payload)))

    async def receive(self) -> Node:
        while not self._inbox:
            for body in self._deframer.feed(await self.raw()):
                payload = self._open.open(body)
                self.compressed += payload[0] == 2
                self._inbox.append(binary_xml.decode(payload))
        stanza = self._inbox.pop(0)
        if stanza.attr("type") == "privacy_token":
            attrs = {
                "id": stanza.attr("id"),
                "class": "notification",
                "type": "privacy_token",
                "to": stanza.attr("from"),
            }
            await self.send(node("ack", attrs))
        return stanza

    async def until(self, tag: str, **attrs: str) -> Node:
        """Read on to the stanza with that name (and attributes)."""
        while True:
            stanza = await self.receive()
            if stanza.tag == tag and all(stanza.attr(name) == value for name, value in attrs.items()):
                return stanza

    async def ask(self, xmlns: str, kind: str, *content: Node, to: str = "@s.whatsapp.net") -> Node:
        self._ids += 1
        query_id = f"q{self._ids}"
        await self.send(node("iq", {"id": query_id, "xmlns": xmlns, "type": kind, "to": to}, list(content)))
        return await self.until("iq", id=query_id)

    async def register(self) -> str:
        """Ask to be linked; returns the text of the QR."""
        signature = curve25519.sign(self.identity.private, DJB + self.signed.public)
        keys: protobuf.Layout = {
            1: (77).to_bytes(4, "big"),
            2: DJB,
            3: self.identity.public,
            4: (1).to_bytes(3, "big"),
            5: self.signed.public,
            6: signature,
            8: protobuf.encode({1: "Linux", 3: 1}),
        }
        await self.handshake(protobuf.encode({19: keys}))
        offer = await self.until("iq", type="set")
        ref = offer.require("pair-device").children("ref")[0].data.decode()
        parts = [base64.b64encode(part).decode() for part in (self.noise.public, self.identity.public, self.adv)]
        return f"https://wa.me/settings/linked_devices#{ref},{','.join(parts)},1"

    async def complete(self) -> Node:
        """Answer pair-success; returns the stream error that follows."""
        stanza = await self.until("iq", type="set")
        success = self.pair_success = stanza.require("pair-success")
        box = protobuf.decode(success.child_bytes("device-identity"))
        assert curve25519.mac(self.adv, box.raw(1)) == box.raw(2)
        signed = box.message(1)
        account = signed.raw(2)
        assert curve25519.verify(account, b"\x06\x00" + signed.raw(1) + self.identity.public, signed.raw(3))
        own = curve25519.sign(self.identity.private, b"\x06\x01" + signed.raw(1) + self.identity.public + account)
        identity = protobuf.encode({1: signed.raw(1), 3: signed.raw(3), 4: own})
        self.phone, _, rest = success.require("device").attr("jid").partition(":")
        self.device = int(rest.partition("@")[0])
        sign = node("pair-device-sign", content=[node("device-identity", {"key-index": self.device}, identity)])
        await self.send(node("iq", {"id": stanza.attr("id"), "type": "result", "to": "@s.whatsapp.net"}, [sign]))
        return await self.until("stream:error")

    async def login(self, *, passive: bool = True) -> Node:
        """Log in; returns the answer, `success` or `failure`. A passive client asks later for what has waited."""
        await self.handshake(protobuf.encode({1: int(self.phone), 3: passive, 18: self.device}))
        return await self.receive()

    async def come_online(self) -> Self:
        """Log in, upload keys, become active."""
        assert (await self.login()).tag == "success"
        count = (await self.ask("encrypt", "get", node("count"))).require("count").attr("value")
        if count == "0":
            await self.upload()
        await self.ask("passive", "set", node("active"))
        return self

    async def upload(self) -> None:
        await self.ask("encrypt", "set", *self.key_upload())

    def key_upload(self) -> list[Node]:
        """What uploads the keys: registration, type, identity, list, signed key."""
        keys = [_key("key", number, pair.public) for number, pair in self.prekeys.items()]
        skey = _key("skey", 1, self.signed.public)
        signature = curve25519.sign(self.identity.private, DJB + self.signed.public)
        skey.content = [*skey.children(), node("signature", content=signature)]
        return [
            node("registration", content=(77).to_bytes(4, "big")),
            node("type", content=DJB),
            node("identity", content=self.identity.public),
            node("list", content=keys),
            skey,
        ]

    async def session(self, phone: str) -> SignalSession:
        """A session with a phone, begun with its published keys."""
        if phone not in self.sessions:
            user = node("user", {"jid": f"{lid_of(phone)}@lid"})
            answer = await self.ask("encrypt", "get", node("key", content=[user]))
            self.sessions[phone] = SignalSession.initiate(
                self.identity, 77, _bundle(answer.require("list").require("user"))
            )
        return self.sessions[phone]

    async def say(self, to: str, text: str, message_id: str | None = None, **names: str) -> str:
        """Send a text to a phone, without waiting for an answer; returns its id.

        `chat` and `device` are the servers of the names of the chat and of the device in it.
        """
        message_id = message_id or "3EB0" + secrets.token_hex(9).upper()
        kind, sealed = (await self.session(to)).encrypt(signal.pad(protobuf.encode({1: text}), 3))
        enc = node("enc", {"v": "2", "type": kind}, sealed)
        chat = names.pop("chat", "s.whatsapp.net")
        copies = [node("to", {"jid": name_in(names.pop("device", chat), to)}, [enc])]
        attrs = {"id": message_id, "to": name_in(chat, to), "type": "text", **names}
        await self.send(node("message", attrs, [node("participants", content=copies)]))
        return message_id

    async def say_blindly(self, to: str) -> None:
        """Send a message with keys that the server was not asked for."""
        enc = node("enc", {"v": "2", "type": "msg"}, b"anything")
        copies = [node("to", {"jid": f"{to}@s.whatsapp.net"}, [enc])]
        attrs = {"id": "3EB0BLIND", "to": f"{to}@s.whatsapp.net", "type": "text"}
        await self.send(node("message", attrs, [node("participants", content=copies)]))

    def decrypt(self, stanza: Node) -> ProtobufFields:
        """Decrypt a message of a phone."""
        enc = stanza.require("enc")
        sender = stanza.attr("from")
        raw = enc.data
        if enc.attr("type") == "pkmsg":
            greeting = PreKeyMessage.read(raw)
            known = self.sessions.get(sender)
            if known is None or known.base_key != greeting.base_key:
                prekey = self.prekeys[greeting.prekey_id] if greeting.prekey_id else None
                self.sessions[sender] = SignalSession.respond(self.identity, self.signed, prekey, greeting)
            raw = greeting.message
        return protobuf.decode(signal.unpad(self.sessions[sender].decrypt(raw)))

    async def next_text(self) -> str:
        """The text of the next message that is one; each message is confirmed."""
        while True:
            stanza = await self.until("message")
            await self.send(node("receipt", {"id": stanza.attr("id"), "to": stanza.attr("from")}))
            message = self.decrypt(stanza)
            if 1 in message:
                return message.text(1)

    async def close(self) -> None:
        if self.socket:
            await self.socket.close()


def name_in(server: str, phone: str) -> str:
    return f"{lid_of(phone)}@lid" if server == "lid" else f"{phone}@{server}"


def _key(tag: str, number: int, value: bytes) -> Node:
    return node(tag, content=[node("id", content=number.to_bytes(3, "big")), node("value", content=value)])


def _bundle(user: Node) -> PreKeyBundle:
    key, skey = user.require("key"), user.require("skey")
    bundle = PreKeyBundle(
        int.from_bytes(user.child_bytes("registration"), "big"),
        user.child_bytes("identity"),
        int.from_bytes(skey.child_bytes("id"), "big"),
        skey.child_bytes("value"),
        skey.child_bytes("signature"),
        int.from_bytes(key.child_bytes("id"), "big"),
        key.child_bytes("value"),
    )
    assert bundle.has_valid_signature
    return bundle


class World:
    """A simulated WhatsApp for one test."""

    def __init__(self, state_dir: Path | None = None, **options: Any) -> None:
        self.whatsapp = WhatsApp(state_dir=state_dir, **{"migrated": False, **options})
        self.port = 0

    async def __aenter__(self) -> Self:
        self.port = await self.whatsapp.start(None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.whatsapp.stop()

    async def link(self, phone: str) -> WireClient:
        """Link a new device to a phone; it is not logged in yet."""
        client = WireClient(self)
        qr = await client.register()
        scan = asyncio.create_task(self.whatsapp.scan(phone, qr))
        ending = await client.complete()
        await scan
        assert ending.attr("code") == "515"
        await client.close()
        return client

    async def online(self, phone: str) -> WireClient:
        """Link a new device and log it in."""
        return await (await self.link(phone)).come_online()
