"""A minimal linked device without Node, for load tests and probes of the simulator."""

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
from wa_orchestrator.simulator.protocol.noise_channel import ClosedError, Credentials, NoiseSocket
from wa_orchestrator.simulator.protocol.signal import (
    DJB,
    PreKeyBundle,
    PreKeyMessage,
    SignalSession,
    UndecryptableError,
)

TIMEOUT_S = 30.0
SIGNED_ID = 1
USER_AGENT: protobuf.Layout = {1: 14, 2: {1: 2, 2: 3000, 3: 1_000_000_000}}
_LID_MIGRATION = "9435"
_numbers = itertools.count(1)


class DeviceClient:
    """A linked device: `link` once, then `log_in` and `send`; `texts` has received messages."""

    def __init__(self, proxy_url: str, trust: ssl.SSLContext, credentials: Credentials | None = None) -> None:
        self.credentials = credentials or Credentials()
        self.texts: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._proxy_url = proxy_url
        self._trust = trust
        self._socket: NoiseSocket | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answers: dict[str, asyncio.Future[Node]] = {}
        self._ended: asyncio.Future[int | None] | None = None
        #: (phone, device) → sessions, newest first: both sides may start one at the same time
        self._sessions: dict[tuple[str, int], list[SignalSession]] = {}
        self._phones: dict[str, str] = {}
        self._devices: dict[str, list[jid.Jid]] = {}
        self._migrated: bool | None = None

    # -- linking ------------------------------------------------------------------------------------------------------

    async def link(self, scan: Callable[[str], Awaitable[Any]]) -> None:
        """Pass a QR code to `scan` and complete the pairing. When it returns, `log_in` will succeed."""
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
        socket = await NoiseSocket.open(self._proxy_url, self._trust, keys.noise, payload)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                offered = await self._wait_for(socket, "pair-device")
                await asyncio.gather(scan(self._qr(offered)), self._complete_link(socket))
        finally:
            await socket.close()

    async def _complete_link(self, socket: NoiseSocket) -> None:
        vouched = await self._wait_for(socket, "pair-success")
        await socket.send(self._sign(vouched))
        while stanzas := await socket.receive():
            if any(stanza.tag == "stream:error" for stanza in stanzas):
                return  # 515: the next step is a login

    async def _wait_for(self, socket: NoiseSocket, child: str) -> Node:
        while stanzas := await socket.receive():
            for stanza in stanzas:
                if stanza.child(child):
                    return stanza
        raise ClosedError(None)

    def _qr(self, stanza: Node) -> str:
        keys = self.credentials
        ref = stanza.require("pair-device").child_bytes("ref").decode()
        parts = (keys.noise.public, keys.identity.public, keys.adv_secret)
        return ",".join([ref, *(base64.b64encode(part).decode() for part in parts), "1"])

    def _sign(self, stanza: Node) -> Node:
        success = stanza.require("pair-success")
        address = jid.parse(success.require("device").attr("jid"))
        if address is None or address.device is None:
            raise ProtocolError("pair-success without a JID")
        self.credentials.phone, self.credentials.device = address.user, address.device
        signed = protobuf.decode(success.child_bytes("device-identity")).message(1)
        details, account = signed.raw(1), signed.raw(2)
        own = self.credentials.identity
        signature = curve25519.sign(own.private, b"\x06\x01" + details + own.public + account)
        identity = protobuf.encode({1: details, 3: signed.raw(3), 4: signature})
        body = [node("device-identity", {"key-index": address.device}, identity)]
        attrs = {"to": jid.SERVER_JID, "type": "result", "id": stanza.attr("id")}
        return Node("iq", attrs, [Node("pair-device-sign", {}, body)])

    # -- being there --------------------------------------------------------------------------------------------------

    async def log_in(self, *, prekeys: int = 30) -> None:
        """Connect with the credentials, upload pre-keys if the server has none, and become active."""
        keys = self.credentials
        payload = protobuf.encode({1: int(keys.phone), 3: True, 5: USER_AGENT, 18: keys.device, 33: True})
        self._socket = await NoiseSocket.open(self._proxy_url, self._trust, keys.noise, payload)
        self._ended = asyncio.get_running_loop().create_future()
        first = await self._socket.receive()
        if not first or first[0].tag != "success":
            await self._socket.close()
            raise ClosedError(int(first[0].attr("reason")) if first else None)
        self._reading = asyncio.create_task(self._read())
        count = await self.ask("encrypt", "get", node("count"))
        if count.require("count").attr("value") == "0":
            await self.ask("encrypt", "set", *self._prekey_nodes(prekeys))
        await self.ask("passive", "set", node("active"))

    def _prekey_nodes(self, count: int) -> list[Node]:
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
        """Wait until the connection is closed and return the server's code."""
        if self._ended is None:
            raise RuntimeError("not logged in")
        return await self._ended

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
        if self._reading is not None:
            await self._reading

    # -- stanzas ------------------------------------------------------------------------------------------------------

    async def ask(self, namespace: str, kind: str, *children: Node) -> Node:
        """Send an iq and return its response."""
        number = f"q{next(_numbers)}"
        attrs = {"to": jid.SERVER_JID, "xmlns": namespace, "type": kind, "id": number}
        return await self._exchange(number, Node("iq", attrs, list(children)))

    async def _exchange(self, number: str, stanza: Node) -> Node:
        if self._socket is None:
            raise ClosedError(None)
        self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            await self._socket.send(stanza)
            return await asyncio.wait_for(self._answers[number], TIMEOUT_S)
        finally:
            del self._answers[number]

    async def _read(self) -> None:
        code: int | None = None
        socket = self._socket
        while socket is not None and (stanzas := await socket.receive()):
            for stanza in stanzas:
                if stanza.tag == "stream:error":
                    code = _code_of(stanza)
                    await socket.close()
                with contextlib.suppress(ClosedError):
                    await self._handle_stanza(socket, stanza)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(code)
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(ClosedError(code))

    async def _handle_stanza(self, socket: NoiseSocket, stanza: Node) -> None:
        number = stanza.attr("id")
        if stanza.tag in ("iq", "ack") and (waiting := self._answers.get(number)) and not waiting.done():
            waiting.set_result(stanza)
        elif stanza.tag == "message":
            self._handle_message(stanza)
            await socket.send(Node("receipt", {"id": number, "to": stanza.attr("from")}))
        elif stanza.tag in ("receipt", "notification"):
            attrs = {"id": number, "to": stanza.attr("from"), "class": stanza.tag}
            await socket.send(Node("ack", attrs | ({"type": stanza.attr("type")} if stanza.attr("type") else {})))
        elif stanza.tag == "iq" and stanza.attr("type") == "get":
            await socket.send(Node("iq", {"id": number, "to": jid.SERVER_JID, "type": "result"}))

    # -- messages -----------------------------------------------------------------------------------------------------

    async def send(self, phone: str, text: str, message_id: str | None = None) -> str | None:
        """Send a text to every device of a phone and of the own account. Returns WhatsApp's error code, or None."""
        message = message_content.text(text)
        for number in (phone, self.credentials.phone):
            if number not in self._devices:
                await self._fetch_devices(number)
        chat = str(self._devices[phone][0]._replace(device=None))
        parts = [await self._encrypt_for(device, message) for device in self._devices[phone]]
        copy = message_content.device_sent(chat, message)
        parts += [await self._encrypt_for(device, copy) for device in self._devices[self.credentials.phone]]
        number = message_id or "3EB0" + secrets.token_hex(9).upper()
        stanza = Node("message", {"id": number, "to": chat, "type": "text"}, [Node("participants", {}, parts)])
        answer = await self._exchange(number, stanza)
        return answer.attr("error") or None

    async def _fetch_devices(self, phone: str) -> None:
        lid = await self._fetch_lid(phone)
        self._phones[lid.user] = phone
        account = lid if await self._is_migrated() else jid.of_phone(phone)
        found = await self._usync(account, node("devices", {"version": 2}))
        listed = found.require("devices").require("device-list").children("device")
        devices = [account._replace(device=int(device.attr("id")) or None) for device in listed]
        own = account._replace(device=self.credentials.device)
        self._devices[phone] = [device for device in devices if phone != self.credentials.phone or device != own]

    async def _is_migrated(self) -> bool:
        """Whether the account's chats go by LIDs: all names in a message must be of one kind."""
        if self._migrated is None:
            answer = await self.ask("abt", "get", node("props", {"protocol": 1}))
            props = {prop.attr("config_code"): prop.attr("config_value") for prop in answer.require("props").children()}
            self._migrated = props.get(_LID_MIGRATION) in ("1", "true")
        return self._migrated

    async def _fetch_lid(self, phone: str) -> jid.Jid:
        found = await self._usync(jid.of_phone(phone), node("lid"))
        lid = jid.parse(found.require("lid").attr("val"))
        if lid is None:
            raise ProtocolError("user without a LID")
        return lid

    async def _usync(self, account: jid.Jid, protocol: Node) -> Node:
        user = node("user", {"jid": str(account)})
        query = [Node("query", {}, [protocol]), Node("list", {}, [user])]
        attrs = {"context": "message", "mode": "query", "sid": f"s{next(_numbers)}", "last": "true", "index": "0"}
        answer = await self.ask("usync", "get", Node("usync", attrs, query))
        return answer.require("usync").require("list").require("user")

    async def _encrypt_for(self, device: jid.Jid, message: bytes) -> Node:
        peer = (self._phones.get(device.user, device.user), device.device or 0)
        if peer not in self._sessions:
            bundle = await self._fetch_bundle(device)
            own = self.credentials
            self._sessions[peer] = [SignalSession.initiate(own.identity, own.registration, bundle)]
        kind, sealed = self._sessions[peer][0].encrypt(signal.pad(message, secrets.randbelow(16) + 1))
        return Node("to", {"jid": str(device)}, [Node("enc", {"v": "2", "type": kind}, sealed)])

    async def _fetch_bundle(self, device: jid.Jid) -> PreKeyBundle:
        wanted = Node("key", {}, [node("user", {"jid": str(device), "reason": "identity"})])
        user = (await self.ask("encrypt", "get", wanted)).require("list").require("user")
        signed, one_time = user.require("skey"), user.child("key")
        return PreKeyBundle(
            int.from_bytes(user.child_bytes("registration"), "big"),
            user.child_bytes("identity"),
            int.from_bytes(signed.child_bytes("id"), "big"),
            signed.child_bytes("value"),
            signed.child_bytes("signature"),
            int.from_bytes(one_time.child_bytes("id"), "big") if one_time else None,
            one_time.child_bytes("value") if one_time else None,
        )

    def _handle_message(self, stanza: Node) -> None:
        enc, sender = stanza.child("enc"), jid.parse(stanza.attr("sender_pn") or stanza.attr("from"))
        if enc is None or sender is None:
            return
        peer = (self._phones.get(sender.user, sender.user), sender.device or 0)
        with contextlib.suppress(ProtocolError):
            raw = enc.data
            if enc.attr("type") == "pkmsg":
                raw = self._start_session(peer, PreKeyMessage.read(raw))
            message = protobuf.decode(signal.unpad(self._decrypt(peer, raw)))
            if text := message_content.read(message_content.unwrap(message)[1]).text:
                self.texts.put_nowait((peer[0], text))

    def _start_session(self, peer: tuple[str, int], prekey_message: PreKeyMessage) -> bytes:
        known = self._sessions.setdefault(peer, [])
        if all(session.base_key != prekey_message.base_key for session in known):
            own = self.credentials
            prekey = own.prekeys.get(prekey_message.prekey_id or 0)
            known.insert(0, SignalSession.respond(own.identity, own.signed, prekey, prekey_message))
        return prekey_message.message

    def _decrypt(self, peer: tuple[str, int], raw: bytes) -> bytes:
        for session in self._sessions.get(peer, []):
            with contextlib.suppress(UndecryptableError):
                return session.decrypt(raw)
        raise UndecryptableError("no matching session")


def _code_of(ending: Node) -> int | None:
    """Return the code of a stream error. A connection that was replaced has none; clients call it 440."""
    conflict = ending.child("conflict")
    if conflict and conflict.attr("type") == "replaced":
        return 440
    return int(ending.attr("code") or 0) or None
