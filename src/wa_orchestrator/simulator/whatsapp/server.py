"""The simulated WhatsApp server, and what people do on their phones as methods."""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from wa_orchestrator.simulator.errors import ProtocolError, SimulatorError
from wa_orchestrator.simulator.phones import actions, calls, content, peer_messages, reuploads
from wa_orchestrator.simulator.protocol import jid, message_content, noise
from wa_orchestrator.simulator.protocol.binary_xml import Node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.passkey import Passkey
from wa_orchestrator.simulator.whatsapp import fault_effects, media
from wa_orchestrator.simulator.whatsapp.accounts import Accounts, number_of
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.faults import Faults
from wa_orchestrator.simulator.whatsapp.listener import HttpListener, HttpRequest, HttpResponse, WebSocket
from wa_orchestrator.simulator.whatsapp.persistence import DeviceStore
from wa_orchestrator.simulator.whatsapp.scenarios import Attempt, Scenarios
from wa_orchestrator.simulator.whatsapp.stanzas import (
    group_queries,
    groups,
    iq_queries,
    login,
    messages,
    pairing,
    presence,
    receipts,
)
from wa_orchestrator.simulator.whatsapp.stanzas.passkeys import Ceremony
from wa_orchestrator.simulator.whatsapp.state import ServerState

__all__ = ["SimulatorError", "WhatsApp"]

log = structlog.get_logger(__name__)

_SAVE_EVERY_S = 0.5
_YEAR_S = 365 * 86_400
#: The client revision of the version check: that of the pinned Baileys.
_REVISION = 1043857760
_STANZAS: dict[str, Callable[[ServerState, Connection, Node], None]] = {
    "iq": iq_queries.handle,
    "message": messages.handle,
    "receipt": receipts.handle_receipt,
    "ack": receipts.handle_ack,
    "presence": presence.handle_presence,
    "chatstate": presence.handle_chatstate,
    "call": calls.handle,
}


class WhatsApp:
    """WhatsApp for one machine. Phones are named by their digits and created when first used."""

    def __init__(
        self,
        *,
        state_dir: Path | None = None,
        proxy_of: Callable[[int], str | None] = lambda _port: None,
        on_session: Callable[[int, str], None] = lambda _port, _client: None,
        clock: Callable[[], float] = time.time,
        migrated: bool = True,
    ) -> None:
        self._proxy_of = proxy_of
        #: called for every accepted client: its local port and its static key
        self._on_session = on_session
        self._devices = DeviceStore(state_dir)
        accounts = Accounts(self._devices.secret(), migrated=migrated)
        self._state = ServerState(accounts, Faults(clock), clock, self._changed)
        self._scenarios = Scenarios(self._state)
        self._devices.load(accounts, self._state.groups)
        now = int(clock())
        self._identity = noise.ServerIdentity.issue(
            KeyPair.generate(), not_before=now - _YEAR_S, not_after=now + _YEAR_S
        )
        self._listener = HttpListener(self._serve_socket, self._answer_http)
        #: what the page for the version check says
        self.revision = _REVISION
        self._server: asyncio.Server | None = None
        self._saver: asyncio.Task[None] | None = None

    # ── running ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, ssl_context: ssl.SSLContext | None, host: str = "127.0.0.1", port: int = 0) -> int:
        """Serve WebSocket, media and the version check on one port, and return it."""
        self._server = await asyncio.start_server(
            self._listener.handle, host, port, ssl=ssl_context, limit=1 << 17, backlog=1024
        )
        self._saver = asyncio.create_task(self._save_periodically())
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Reset every connection and store the linked devices."""
        if self._saver:
            self._saver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._saver
        for phone in self._state.accounts.linked_phones():
            self._changed(phone.number)  # pending stanzas are stored only here
        self._save()
        if self._server:
            self._server.close()
            await self._listener.abort_all()
            await self._server.wait_closed()

    @property
    def noise_root(self) -> bytes:
        """The root key of the server's certificate chain, for clients that check it."""
        return self._identity.root_public

    # ── acts of people ──────────────────────────────────────────────────────────────────────────────────────────────

    async def scan(self, phone: str, qr: str) -> None:
        """Link the device that shows this QR code; returns when it is linked."""
        await pairing.scan(self._state, self._state.accounts.phone(phone), qr)
        self._save()

    async def enter_code(self, phone: str, code: str) -> None:
        """Link the device that shows this pairing code; returns when it is linked."""
        await pairing.enter_code(self._state, self._state.accounts.phone(phone), code)
        self._save()

    def passkey(self, phone: str) -> Passkey:
        """Return the passkey of an account."""
        return self._state.accounts.phone(phone).passkey

    def ceremony(self, phone: str) -> Ceremony:
        """Return the linking by passkey that a phone takes part in. Raises SimulatorError if there is none."""
        for connection in reversed(self._state.connections.values()):
            if connection.ceremony and connection.ceremony.phone.number == phone:
                return connection.ceremony
        raise SimulatorError("NO_CEREMONY", f"{phone} links no device with a passkey.")

    async def send_text(self, phone: str, to: str, text: str, **options: Any) -> str:
        """Send a text. Options: `expires` (seconds), `by_lid` (the LID names the sender), `alone` (by nothing else),
        `via_list` (to a broadcast list of this name, which the receiver is in).
        """
        message = message_content.text(text, options.get("expires"))
        naming = {name: options[name] for name in ("by_lid", "alone", "via_list") if name in options}
        return actions.send_message(self._state, self._state.accounts.phone(phone), _chat(to), message, **naming)

    def ask_again(self, phone: str, of: str, chat: str, message_id: str) -> None:
        """Make a phone ask the devices of another for a message again, as one that cannot decrypt it does."""
        messages.ask_again(
            self._state, self._state.accounts.phone(phone), self._state.accounts.phone(of), chat, message_id
        )

    async def send_media(  # noqa: PLR0917 - a file takes this many words
        self,
        phone: str,
        to: str,
        kind: str,
        data: bytes,
        mimetype: str,
        caption: str | None = None,
        name: str | None = None,
        form: str = "plain",
        album: str | None = None,
        thumbnail: bytes = b"",
    ) -> str:
        """Send a file: image, video, audio, document or sticker, and the JPEG that is shown before it is opened."""
        sender = self._state.accounts.phone(phone)
        return actions.send_file(
            self._state,
            sender,
            _chat(to),
            kind,
            data,
            mimetype=mimetype,
            caption=caption,
            name=name,
            form=actions.FileForm(form),
            album=album,
            thumbnail=thumbnail,
        )

    async def send_content(self, phone: str, to: str, what: content.Content) -> str:
        """Send anything else that a person can send: `phones.content` lists the kinds."""
        return actions.send_content(self._state, self._state.accounts.phone(phone), _chat(to), what)

    async def begin_album(self, phone: str, to: str, images: int, videos: int) -> str:
        """Send the head of an album and return its id; its files follow."""
        sender = self._state.accounts.phone(phone)
        return actions.send_message(self._state, sender, _chat(to), content.album(images, videos))

    async def call(self, phone: str, to: str, *, video: bool = False) -> str:
        """Call a phone and return the id of the call."""
        return calls.offer(self._state, self._state.accounts.phone(phone), _chat(to), video=video)

    async def end_call(self, phone: str, to: str, call_id: str, how: str) -> None:
        """End a call: `hang_up`, `timeout`, `reject`; or `accept` it on another device of the callee."""
        calls.end(self._state, self._state.accounts.phone(phone), _chat(to), call_id, how)

    def rejected_calls(self, phone: str) -> list[str]:
        """Return the ids of a phone's calls that a linked device has rejected."""
        return list(self._state.accounts.phone(phone).rejected_calls)

    async def read(self, phone: str, of: str | None = None) -> int:
        """Read unread messages (of one sender or group) and return their number."""
        return actions.read(self._state, self._state.accounts.phone(phone), of)

    async def unlink(self, phone: str, device: int | None = None) -> None:
        """Log linked devices out."""
        actions.unlink(self._state, self._state.accounts.phone(phone), device)
        self._save()

    async def create_group(self, phone: str, subject: str, members: list[str], mode: str | None = None) -> str:
        """Create a group and return its JID. Its members are named by `lid` or `pn`."""
        group = groups.create(self._state, phone, subject, members, mode)
        self._devices.save_groups(self._state.groups)
        return group.address

    async def join_group(self, phone: str, link: str) -> str:
        """Follow the link of a group. Returns `joined`, or `asked` where an admin decides."""
        group = group_queries.by_invite(self._state, link.rpartition("/")[2])
        if group is None:
            raise SimulatorError("UNKNOWN_LINK", "This link leads to no group; perhaps a new one was made.")
        outcome = groups.join(self._state, group, self._state.accounts.phone(phone))
        self._devices.save_groups(self._state.groups)
        return outcome

    def move_group(self, group: str, mode: str) -> None:
        """Have a group name its members by `lid` or `pn` from now on; who has sender keys keeps them."""
        groups.find(self._state, group).mode = mode

    def group_members(self, group: str) -> list[str]:
        """Return the numbers of a group's members; its admin is the first."""
        return list(groups.find(self._state, group).members)

    async def migrate(self, phone: str) -> None:
        """Move an account's one-to-one chats from phone numbers to LIDs, as WhatsApp does while devices are linked."""
        peer_messages.migrate(self._state, self._state.accounts.phone(phone))
        self._save()

    def describe_account(
        self,
        phone: str,
        *,
        migrated: bool | None = None,
        username: str | None = None,
        username_key: str | None = None,
        hides_number: bool | None = None,
    ) -> None:
        """Set what an account is; its devices are not told."""
        account = self._state.accounts.phone(phone)
        account.migrated = account.migrated if migrated is None else migrated
        account.username = account.username if username is None else username
        account.username_key = account.username_key if username_key is None else username_key
        account.hides_number = account.hides_number if hides_number is None else hides_number
        self._changed(phone)

    def also_known_as(self, phone: str, other_form: str) -> None:
        """Have a number looked up in another form, too; nobody is registered under that."""
        self._state.accounts.other_forms[other_form] = phone
        self._state.accounts.unregister(other_form)

    def set_picture(self, phone: str, url: str) -> None:
        """Give an account a picture, by its address."""
        self._state.accounts.phone(phone).picture = url

    def blocked_by(self, phone: str) -> set[str]:
        """Return the numbers that an account has blocked."""
        return set(self._state.accounts.phone(phone).blocked)

    def reassign(self, phone: str) -> str:
        """Give a number to another person, and return its new LID. Whoever uses the old one is told so in the ack."""
        return self._state.accounts.reassign(phone).lid

    def unregister(self, phone: str) -> None:
        """Mark a number as not registered."""
        self._state.accounts.unregister(phone)

    def unregister_prefixes(self, *prefixes: str) -> None:
        """Mark all numbers with these prefixes as not registered."""
        self._state.accounts.unregister_prefixes(prefixes)

    # ── ledgers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def arrivals(self, after: int = 0) -> list[dict[str, Any]]:
        return self._state.ledger.arrivals(after)

    def refusals(self, after: int = 0) -> list[dict[str, Any]]:
        """Messages that were answered with an error and did not arrive."""
        return self._state.ledger.refusals(after)

    def replacements(self, after: int = 0) -> list[dict[str, Any]]:
        return self._state.ledger.replacements(after)

    def connections(self) -> list[dict[str, Any]]:
        return [_describe(connection) for connection in self._state.connections.values()]

    def inbox(self, phone: str) -> list[dict[str, Any]]:
        entries = self._state.ledger.inbox(phone)
        return [{name: value for name, value in entry.items() if name != "_file"} for entry in entries]

    def media_of(self, phone: str, message_id: str) -> bytes:
        """Return the decrypted file of a message in a phone's inbox. Raises SimulatorError if there is none."""
        for entry in self._state.ledger.inbox(phone):
            file = entry.get("_file")
            if entry["id"] == message_id and file:
                blob = self._state.shelf.get(file.path)
                if blob is not None:
                    return media.decrypt(blob, file.kind, file.key, file.sha256)
        raise SimulatorError("NO_MEDIA", f"{phone} shows no file in message {message_id}.")

    def drop_file(self, phone: str, message_id: str) -> None:
        """Serve the file of a message in a phone's inbox no more, as WhatsApp does after some weeks."""
        self._state.shelf.drop(self._file_path(phone, message_id))

    def damage_file(self, phone: str, message_id: str) -> None:
        """Change a byte of the encrypted file of a message in a phone's inbox."""
        self._state.shelf.damage(self._file_path(phone, message_id))

    def _file_path(self, phone: str, message_id: str) -> str:
        file = reuploads.find_file(self._state, phone, message_id)
        if file is None or self._state.shelf.get(file.path) is None:
            raise SimulatorError("NO_MEDIA", f"{phone} shows no file in message {message_id}.")
        return file.path

    def pushes(self, phone: str) -> int:
        """Return how often a phone has rung for a message."""
        return self._state.accounts.phone(phone).pushes

    def device_lookups(self, phone: str) -> int:
        """Return of how many people the devices of a phone have asked for the device list."""
        return self._state.device_lookups[phone]

    def chatstates(self) -> list[dict[str, Any]]:
        return self._state.ledger.chatstates()

    def devices(self, phone: str) -> list[dict[str, Any]]:
        """The devices linked to a phone."""
        known = self._state.accounts.phone(phone).devices.values()
        return [
            {"device": one.number, "linkedAt": one.linked_at, "platform": one.platform, "system": one.system}
            for one in known
        ]

    # ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def fault(
        self,
        kind: str,
        *,
        phone: str | None = None,
        seconds: float | None = None,
        code: int | None = None,
        **extra: Any,
    ) -> None:
        """Activate a fault for one phone or for all; `faults.KINDS` lists them."""
        fault_effects.apply(self._state, kind, phone=phone, seconds=seconds, code=code, extra=extra)
        self._save()

    def play(self, sender: str, recipient: str, attempts: list[Attempt]) -> None:
        """Play back what happened to the attempts of a message, on the next one from `sender` to `recipient`."""
        self._scenarios.play(sender, recipient, attempts)

    async def clear_faults(self) -> None:
        fault_effects.clear(self._state)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _serve_socket(self, socket: WebSocket) -> None:
        connection = Connection(self._state, socket, self._identity, self._proxy_of(socket.peer_port))
        self._state.connections[connection.number] = connection
        try:
            await connection.run(self._on_login, self._on_stanza)
        except ProtocolError as error:
            log.info("simulator.protocol_error", connection=connection.number, error=str(error))
        except OSError:
            log.debug("simulator.client_disconnected", connection=connection.number)
        except Exception:
            # An error of one client must not affect the others.
            log.exception("simulator.connection_failed", connection=connection.number)
        finally:
            self._forget(connection)

    def _on_login(self, connection: Connection, payload: Any) -> None:
        login.handle_client_payload(self._state, connection, payload)
        if connection.device or connection.registration:
            self._on_session(connection.port, connection.client_static.hex())

    def _on_stanza(self, connection: Connection, stanza: Node) -> None:
        handler = _STANZAS.get(stanza.tag)
        if handler:
            try:
                self._scenarios.before(connection, stanza)
                if connection.ended:
                    return
                handler(self._state, connection, stanza)
                self._scenarios.after(connection, stanza)
            except (ValueError, SimulatorError) as error:
                raise ProtocolError(f"<{stanza.tag}> is malformed: {error}") from error

    def _forget(self, connection: Connection) -> None:
        connection.ended = True
        presence.set_available(self._state, connection, is_available=False)
        self._state.connections.pop(connection.number, None)
        pairing.handle_disconnect(self._state, connection)
        if connection.device:
            key = (connection.device.phone, connection.device.number)
            if self._state.online.get(key) is connection:
                del self._state.online[key]

    def _answer_http(self, request: HttpRequest) -> HttpResponse:
        path = request.path.partition("?")[0]
        if request.method == "POST":
            if not self._state.media_hosts.takes(request.headers.get("host", "").partition(":")[0]):
                raise ProtocolError("this host is gone")
            direct = self._state.shelf.put(request.body)
            answer = {"url": f"https://{media.HOST}{direct}", "direct_path": direct}
            return HttpResponse(200, json.dumps(answer).encode(), "application/json")
        if request.method == "GET" and path in ("/", "/sw.js"):
            if self._state.faults.active("no_revision", None):
                return HttpResponse(404)
            return HttpResponse(200, b'{"client_revision":%d}' % self.revision, "text/javascript")
        blob = self._state.shelf.get(path) if request.method == "GET" else None
        return HttpResponse(404) if blob is None else HttpResponse(200, blob)

    def _changed(self, phone: str) -> None:
        self._devices.touch(phone)

    def _save(self) -> None:
        self._devices.flush(self._state.accounts)

    async def _save_periodically(self) -> None:
        while True:
            await asyncio.sleep(_SAVE_EVERY_S)
            self._save()


def _chat(to: str) -> str:
    """Return a number or a group's JID in canonical form."""
    address = jid.parse(to)
    if address and not address.is_group:
        return number_of(address.user) if address.server == jid.LID else address.user
    return to.strip().lstrip("+")


def _describe(connection: Connection) -> dict[str, Any]:
    return {
        "connection": connection.number,
        "phone": connection.phone,
        "device": connection.device.number if connection.device else None,
        "proxy": connection.proxy,
        "since": connection.since,
        "active": connection.active,
        "available": connection.available,
        "pongs": connection.pongs,
        "routed": bool(connection.routing_info),
        "linking": bool(connection.refs),
    }
