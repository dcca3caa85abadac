"""A linked device without Node: enough of a client to load the simulator with hundreds of them, or to probe it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import secrets
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import curve25519, jid, message_content, protobuf, signal
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.noise_channel import ClosedError, Credentials, Line
from wa_orchestrator.simulator.protocol.signal import DJB, Bundle, PreKeyMessage, Session, UndecryptableError

PATIENCE_S = 30.0
SIGNED_ID = 1
USER_AGENT: protobuf.Layout = {1: 14, 2: {1: 2, 2: 3000, 3: 1_000_000_000}}
_numbers = itertools.count(1)


class Companion:
    """A linked device. `link` once, then `log_in`, `send`, and `texts` for what came."""

    def __init__(self, proxy_url: str, trust: ssl.SSLContext, credentials: Credentials | None = None) -> None:
        self.credentials = credentials or Credentials()
        self.texts: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._proxy_url = proxy_url
        self._trust = trust
        self._line: Line | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answers: dict[str, asyncio.Future[Node]] = {}
        self._ended: asyncio.Future[int | None] | None = None
        #: (phone, device) → sessions, newest first: both sides may begin one at the same time
        self._sessions: dict[tuple[str, int], list[Session]] = {}
        self._phones: dict[str, str] = {}
        self._devices: dict[str, list[jid.Jid]] = {}

    # -- linking ------------------------------------------------------------------------------------------------------

    async def link(self, scan: Callable[[str], Awaitable[Any]]) -> None:
        """Show a QR to `scan` and sign what the phone vouches for. When it returns, `log_in` will succeed."""
        keys = self.credentials
        registration = {
            1: keys.registration.to_bytes(4, "big"),
            2: DJB,
            3: keys.identity.public,
            4: SIGNED_ID.to_bytes(3, "big"),
            5: keys.signed.public,
            6: keys.signature,
            7: bytes(16),
            8: protobuf.encode({1: "Probe", 3: 1}),
        }
        payload = protobuf.encode({3: False, 5: USER_AGENT, 19: registration, 33: False})
        line = await Line.open(self._proxy_url, self._trust, keys.noise, payload)
        try:
            async with asyncio.timeout(PATIENCE_S):
                offered = await self._await(line, "pair-device")
                await asyncio.gather(scan(self._qr(offered)), self._complete_link(line))
        finally:
            await line.close()

    async def _complete_link(self, line: Line) -> None:
        vouched = await self._await(line, "pair-success")
        await line.send(self._countersign(vouched))
        while stanzas := await line.receive():
            if any(stanza.tag == "stream:error" for stanza in stanzas):
                return  # 515: the next step is a login

    async def _await(self, line: Line, child: str) -> Node:
        while stanzas := await line.receive():
            for stanza in stanzas:
                if stanza.child(child):
                    return stanza
        raise ClosedError(None)

    def _qr(self, stanza: Node) -> str:
        keys = self.credentials
        ref = stanza.need("pair-device").bytes_of("ref").decode()
        parts = (keys.noise.public, keys.identity.public, keys.adv_secret)
        return ",".join([ref, *(base64.b64encode(part).decode() for part in parts), "1"])

    def _countersign(self, stanza: Node) -> Node:
        success = stanza.need("pair-success")
        address = jid.parse(success.need("device").attr("jid"))
        if address is None or address.device is None:
            raise ProtocolError("a link without an address")
        self.credentials.phone, self.credentials.device = address.user, address.device
        signed = protobuf.decode(success.bytes_of("device-identity")).message(1)
        details, account = signed.raw(1), signed.raw(2)
        own = self.credentials.identity
        signature = curve25519.sign(own.private, b"\x06\x01" + details + own.public + account)
        identity = protobuf.encode({1: details, 3: signed.raw(3), 4: signature})
        body = [node("device-identity", {"key-index": address.device}, identity)]
        attrs = {"to": jid.ITSELF, "type": "result", "id": stanza.attr("id")}
        return Node("iq", attrs, [Node("pair-device-sign", {}, body)])

    # -- being there --------------------------------------------------------------------------------------------------

    async def log_in(self, *, prekeys: int = 30) -> None:
        """Connect with the credentials, publish pre-keys if the server has none, become active."""
        keys = self.credentials
        payload = protobuf.encode({1: int(keys.phone), 3: False, 5: USER_AGENT, 18: keys.device, 33: True})
        self._line = await Line.open(self._proxy_url, self._trust, keys.noise, payload)
        self._ended = asyncio.get_running_loop().create_future()
        first = await self._line.receive()
        if not first or first[0].tag != "success":
            await self._line.close()
            raise ClosedError(int(first[0].attr("reason")) if first else None)
        self._reading = asyncio.create_task(self._read())
        count = await self.ask("encrypt", "get", node("count"))
        if count.need("count").attr("value") == "0":
            await self.ask("encrypt", "set", *self._published(prekeys))
        await self.ask("passive", "set", node("active"))

    def _published(self, count: int) -> list[Node]:
        keys = self.credentials
        keys.prekeys |= {number: KeyPair.generate() for number in range(1, count + 1)}
        one_time = [
            Node("key", {}, [node("id", content=number.to_bytes(3, "big")), node("value", content=pair.public)])
            for number, pair in keys.prekeys.items()
        ]
        signed = [
            node("id", content=SIGNED_ID.to_bytes(3, "big")),
            node("value", content=keys.signed.public),
            node("signature", content=keys.signature),
        ]
        return [
            node("registration", content=keys.registration.to_bytes(4, "big")),
            node("type", content=DJB),
            node("identity", content=keys.identity.public),
            Node("list", {}, one_time),
            Node("skey", {}, signed),
        ]

    async def ended(self) -> int | None:
        """Wait for the end of the connection; returns the code that the server gave."""
        if self._ended is None:
            raise RuntimeError("not logged in")
        return await self._ended

    async def close(self) -> None:
        if self._line is not None:
            await self._line.close()
        if self._reading is not None:
            await self._reading

    # -- stanzas ------------------------------------------------------------------------------------------------------

    async def ask(self, namespace: str, kind: str, *children: Node) -> Node:
        """Ask the server something and wait for its answer."""
        number = f"q{next(_numbers)}"
        attrs = {"to": jid.ITSELF, "xmlns": namespace, "type": kind, "id": number}
        return await self._exchange(number, Node("iq", attrs, list(children)))

    async def _exchange(self, number: str, stanza: Node) -> Node:
        if self._line is None:
            raise ClosedError(None)
        self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            await self._line.send(stanza)
            return await asyncio.wait_for(self._answers[number], PATIENCE_S)
        finally:
            del self._answers[number]

    async def _read(self) -> None:
        code: int | None = None
        line = self._line
        while line is not None and (stanzas := await line.receive()):
            for stanza in stanzas:
                if stanza.tag == "stream:error":
                    code = int(stanza.attr("code") or 0) or None
                    await line.close()
                with contextlib.suppress(ClosedError):
                    await self._take(line, stanza)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(code)
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(ClosedError(code))

    async def _take(self, line: Line, stanza: Node) -> None:
        number = stanza.attr("id")
        if stanza.tag in ("iq", "ack") and (waiting := self._answers.get(number)) and not waiting.done():
            waiting.set_result(stanza)
        elif stanza.tag == "message":
            self._open(stanza)
            await line.send(Node("receipt", {"id": number, "to": stanza.attr("from")}))
        elif stanza.tag in ("receipt", "notification"):
            attrs = {"id": number, "to": stanza.attr("from"), "class": stanza.tag}
            await line.send(Node("ack", attrs | ({"type": stanza.attr("type")} if stanza.attr("type") else {})))
        elif stanza.tag == "iq" and stanza.attr("type") == "get":
            await line.send(Node("iq", {"id": number, "to": jid.ITSELF, "type": "result"}))

    # -- messages -----------------------------------------------------------------------------------------------------

    async def send(self, phone: str, text: str, message_id: str | None = None) -> str | None:
        """Send a text to every device of a phone and of the own account; returns WhatsApp's error, None for success."""
        chat = str(jid.of_phone(phone))
        message = message_content.text(text)
        for number in (phone, self.credentials.phone):
            if number not in self._devices:
                await self._learn_devices(number)
        parts = [await self._for(device, message) for device in self._devices[phone]]
        copy = message_content.device_sent(chat, message)
        parts += [await self._for(device, copy) for device in self._devices[self.credentials.phone]]
        number = message_id or "3EB0" + secrets.token_hex(9).upper()
        stanza = Node("message", {"id": number, "to": chat, "type": "text"}, [Node("participants", {}, parts)])
        answer = await self._exchange(number, stanza)
        return answer.attr("error") or None

    async def _learn_devices(self, phone: str) -> None:
        user = node("user", {"jid": str(jid.of_phone(phone))})
        query = [Node("query", {}, [node("devices", {"version": 2}), node("lid")]), Node("list", {}, [user])]
        attrs = {"context": "message", "mode": "query", "sid": f"s{next(_numbers)}", "last": "true", "index": "0"}
        answer = await self.ask("usync", "get", Node("usync", attrs, query))
        found = answer.need("usync").need("list").need("user")
        lid = jid.parse(found.need("lid").attr("val"))
        if lid is None:
            raise ProtocolError("a user without a LID")
        self._phones[lid.user] = phone
        listed = found.need("devices").need("device-list").children("device")
        devices = [jid.Jid(lid.user, jid.LID, int(device.attr("id")) or None) for device in listed]
        own = jid.Jid(lid.user, jid.LID, self.credentials.device)
        self._devices[phone] = [device for device in devices if phone != self.credentials.phone or device != own]

    async def _for(self, device: jid.Jid, message: bytes) -> Node:
        peer = (self._phones[device.user], device.device or 0)
        if peer not in self._sessions:
            bundle = await self._fetch(device)
            own = self.credentials
            self._sessions[peer] = [Session.initiate(own.identity, own.registration, bundle)]
        kind, sealed = self._sessions[peer][0].encrypt(signal.pad(message, secrets.randbelow(16) + 1))
        return Node("to", {"jid": str(device)}, [Node("enc", {"v": "2", "type": kind}, sealed)])

    async def _fetch(self, device: jid.Jid) -> Bundle:
        wanted = Node("key", {}, [node("user", {"jid": str(device), "reason": "identity"})])
        user = (await self.ask("encrypt", "get", wanted)).need("list").need("user")
        signed, one_time = user.need("skey"), user.child("key")
        return Bundle(
            int.from_bytes(user.bytes_of("registration"), "big"),
            user.bytes_of("identity"),
            int.from_bytes(signed.bytes_of("id"), "big"),
            signed.bytes_of("value"),
            signed.bytes_of("signature"),
            int.from_bytes(one_time.bytes_of("id"), "big") if one_time else None,
            one_time.bytes_of("value") if one_time else None,
        )

    def _open(self, stanza: Node) -> None:
        enc, sender = stanza.child("enc"), jid.parse(stanza.attr("sender_pn") or stanza.attr("from"))
        if enc is None or sender is None:
            return
        peer = (self._phones.get(sender.user, sender.user), sender.device or 0)
        with contextlib.suppress(ProtocolError):
            raw = enc.data
            if enc.attr("type") == "pkmsg":
                raw = self._begin(peer, PreKeyMessage.read(raw))
            message = protobuf.decode(signal.unpad(self._decrypt(peer, raw)))
            if text := message_content.read(message_content.unwrap(message)[1]).text:
                self.texts.put_nowait((peer[0], text))

    def _begin(self, peer: tuple[str, int], greeting: PreKeyMessage) -> bytes:
        known = self._sessions.setdefault(peer, [])
        if all(session.base_key != greeting.base_key for session in known):
            own = self.credentials
            prekey = own.prekeys.get(greeting.prekey_id or 0)
            known.insert(0, Session.respond(own.identity, own.signed, prekey, greeting))
        return greeting.message

    def _decrypt(self, peer: tuple[str, int], raw: bytes) -> bytes:
        for session in self._sessions.get(peer, []):
            with contextlib.suppress(UndecryptableError):
                return session.decrypt(raw)
        raise UndecryptableError("no session fits")
