"""The simulated WhatsApp: one port for everything, and the acts of people as methods."""

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
from wa_orchestrator.simulator.phones import actions
from wa_orchestrator.simulator.protocol import jid, message_content, noise
from wa_orchestrator.simulator.protocol.binary_xml import Node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.whatsapp import (
    fault_effects,
    groups,
    iq_queries,
    login,
    media,
    messages,
    pairing,
    receipts,
)
from wa_orchestrator.simulator.whatsapp.accounts import Accounts, number_of
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.faults import Faults
from wa_orchestrator.simulator.whatsapp.listener import Front, Request, Response, WebSocket
from wa_orchestrator.simulator.whatsapp.persistence import Archive
from wa_orchestrator.simulator.whatsapp.state import Hub

__all__ = ["SimulatorError", "WhatsApp"]

log = structlog.get_logger(__name__)

_SAVE_EVERY_S = 0.5
_YEAR_S = 365 * 86_400
#: What the version look-up finds: the revision that the pinned client brings itself.
_REVISION = 1043857760
_STANZAS: dict[str, Callable[[Hub, Connection, Node], None]] = {
    "iq": iq_queries.handle,
    "message": messages.handle,
    "receipt": receipts.receipt,
    "ack": receipts.ack,
    "presence": receipts.presence,
    "chatstate": receipts.chatstate,
}


class WhatsApp:
    """WhatsApp for one machine. Phones are digits; a phone is made when it is first used."""

    def __init__(
        self,
        *,
        state_dir: Path | None = None,
        proxy_of: Callable[[int], str | None] = lambda _port: None,
        on_session: Callable[[int, str], None] = lambda _port, _client: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._proxy_of = proxy_of
        #: told of every client that was let in, to link or to log in: the port it dials from and its static key
        self._on_session = on_session
        self._archive = Archive(state_dir)
        accounts = Accounts(self._archive.secret())
        self._hub = Hub(accounts, Faults(clock), clock, self._changed)
        self._archive.load(accounts, self._hub.groups)
        now = int(clock())
        self._authority = noise.Authority.issue(KeyPair.generate(), not_before=now - _YEAR_S, not_after=now + _YEAR_S)
        self._front = Front(self._serve_socket, self._answer_http)
        self._server: asyncio.Server | None = None
        self._saver: asyncio.Task[None] | None = None

    # ── running ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, ssl_context: ssl.SSLContext | None, host: str = "127.0.0.1", port: int = 0) -> int:
        """Serve WebSocket, files and the version look-up on one port, which is returned."""
        self._server = await asyncio.start_server(
            self._front.handle, host, port, ssl=ssl_context, limit=1 << 17, backlog=1024
        )
        self._saver = asyncio.create_task(self._save_now_and_then())
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Break every connection and write down what is linked."""
        if self._saver:
            self._saver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._saver
        for phone in self._hub.accounts.linked_phones():
            self._changed(phone.number)  # what waits for devices is written at the end only
        self._save()
        if self._server:
            self._server.close()
            await self._front.abort_all()
            await self._server.wait_closed()

    @property
    def noise_root(self) -> bytes:
        """The key that signs the server's certificates, for clients that check them."""
        return self._authority.root_public

    # ── acts of people ──────────────────────────────────────────────────────────────────────────────────────────────

    async def scan(self, phone: str, qr: str) -> None:
        """Link the device that shows this QR; returns when it is linked."""
        await pairing.scan(self._hub, self._hub.accounts.phone(phone), qr)
        self._save()

    async def enter_code(self, phone: str, code: str) -> None:
        """Link the device that shows this code; returns when it is linked."""
        await pairing.enter_code(self._hub, self._hub.accounts.phone(phone), code)
        self._save()

    async def say(self, phone: str, to: str, text: str, **options: Any) -> str:
        """Write a text. Options: `expires` (seconds), `by_lid` (hide the number behind the LID)."""
        message = message_content.text(text, options.get("expires"))
        by_lid = bool(options.get("by_lid"))
        return actions.say(self._hub, self._hub.accounts.phone(phone), _chat(to), message, by_lid=by_lid)

    async def say_media(  # noqa: PLR0917 - a file takes this many words
        self,
        phone: str,
        to: str,
        kind: str,
        data: bytes,
        mimetype: str,
        caption: str | None = None,
        name: str | None = None,
    ) -> str:
        """Send a file: image, video, audio, document or sticker."""
        sender = self._hub.accounts.phone(phone)
        return actions.say_file(self._hub, sender, _chat(to), kind, data, mimetype=mimetype, caption=caption, name=name)

    async def read(self, phone: str, of: str | None = None) -> int:
        """Read everything unread (of one person or group); returns how much it was."""
        return actions.read(self._hub, self._hub.accounts.phone(phone), of)

    async def unlink(self, phone: str, device: int | None = None) -> None:
        """Log linked devices out."""
        actions.unlink(self._hub, self._hub.accounts.phone(phone), device)
        self._save()

    async def make_group(self, phone: str, subject: str, members: list[str]) -> str:
        """Make a group; returns its address."""
        group = groups.create(self._hub, phone, subject, members)
        self._archive.save_groups(self._hub.groups)
        return group.address

    def unregister(self, phone: str) -> None:
        """Take a number off WhatsApp."""
        self._hub.accounts.unregister(phone)

    def unregister_prefixes(self, *prefixes: str) -> None:
        """Say that all numbers beginning so are not on WhatsApp."""
        self._hub.accounts.unregister_prefixes(prefixes)

    # ── ledgers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def arrivals(self, after: int = 0) -> list[dict[str, Any]]:
        return self._hub.ledger.arrivals(after)

    def refusals(self, after: int = 0) -> list[dict[str, Any]]:
        """Messages that were answered with an error and did not arrive."""
        return self._hub.ledger.refusals(after)

    def connections(self) -> list[dict[str, Any]]:
        return [_describe(connection) for connection in self._hub.connections.values()]

    def inbox(self, phone: str) -> list[dict[str, Any]]:
        entries = self._hub.ledger.inbox(phone)
        return [{name: value for name, value in entry.items() if name != "_file"} for entry in entries]

    def media_of(self, phone: str, message_id: str) -> bytes:
        """Open the file of a message that a phone shows. Raises SimulatorError if there is none."""
        for entry in self._hub.ledger.inbox(phone):
            file = entry.get("_file")
            if entry["id"] == message_id and file:
                blob = self._hub.shelf.get(file.path)
                if blob is not None:
                    return media.unseal(blob, file.kind, file.key, file.sha256)
        raise SimulatorError("NO_MEDIA", f"{phone} shows no file in message {message_id}.")

    def chatstates(self) -> list[dict[str, Any]]:
        return self._hub.ledger.states()

    def devices(self, phone: str) -> list[dict[str, Any]]:
        """The devices linked to a phone."""
        known = self._hub.accounts.phone(phone).devices.values()
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
        """Let something go wrong, for one phone or for everybody; `faultlist.KINDS` says what there is."""
        fault_effects.begin(self._hub, kind, phone=phone, seconds=seconds, code=code, extra=extra)
        self._save()

    async def clear_faults(self) -> None:
        fault_effects.clear(self._hub)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _serve_socket(self, socket: WebSocket) -> None:
        connection = Connection(self._hub, socket, self._authority, self._proxy_of(socket.peer_port))
        self._hub.connections[connection.number] = connection
        try:
            await connection.run(self._on_login, self._on_stanza)
        except ProtocolError as error:
            log.info("simulator.client_misspoke", connection=connection.number, error=str(error))
        except OSError:
            log.debug("simulator.client_gone", connection=connection.number)
        except Exception:
            # A loop of many connections: whatever one client provokes must not reach the others.
            log.exception("simulator.connection_failed", connection=connection.number)
        finally:
            self._forget(connection)

    def _on_login(self, connection: Connection, payload: Any) -> None:
        login.arrive(self._hub, connection, payload)
        if connection.device or connection.registration:
            self._on_session(connection.port, connection.client_static.hex())

    def _on_stanza(self, connection: Connection, stanza: Node) -> None:
        handler = _STANZAS.get(stanza.tag)
        if handler:
            try:
                handler(self._hub, connection, stanza)
            except (ValueError, SimulatorError) as error:
                raise ProtocolError(f"<{stanza.tag}> makes no sense: {error}") from error

    def _forget(self, connection: Connection) -> None:
        connection.ended = True
        self._hub.connections.pop(connection.number, None)
        pairing.withdraw(self._hub, connection)
        if connection.device:
            key = (connection.device.phone, connection.device.number)
            if self._hub.online.get(key) is connection:
                del self._hub.online[key]

    def _answer_http(self, request: Request) -> Response:
        path = request.path.partition("?")[0]
        if request.method == "POST":
            direct = self._hub.shelf.put(request.body)
            answer = {"url": f"https://{media.HOST}{direct}", "direct_path": direct}
            return Response(200, json.dumps(answer).encode(), "application/json")
        if request.method == "GET" and path in ("/", "/sw.js"):
            return Response(200, b'{"client_revision":%d}' % _REVISION, "text/javascript")
        blob = self._hub.shelf.get(path) if request.method == "GET" else None
        return Response(404) if blob is None else Response(200, blob)

    def _changed(self, phone: str) -> None:
        self._archive.touch(phone)

    def _save(self) -> None:
        self._archive.flush(self._hub.accounts)

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_SAVE_EVERY_S)
            self._save()


def _chat(to: str) -> str:
    """A number or a group's address, however a person wrote it."""
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
        "linking": bool(connection.refs),
    }
