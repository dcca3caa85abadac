"""Handlers of `<iq>` stanzas, by namespace and type."""

from collections.abc import Callable

import structlog

from wa_orchestrator.simulator.errors import ProtocolError, QueryRefusedError, SimulatorError
from wa_orchestrator.simulator.phones import actions
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.app_state import COLLECTIONS, AppState
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.stanzas import (
    graphql,
    group_queries,
    login,
    pairing,
    passkeys,
    prekeys,
    properties,
    trust_tokens,
    usync,
)
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server

#: What devices report or set, and what needs no more than a confirmation.
_CONFIRMED = frozenset(
    {"w:p", "w:stats", "w", "w:web", "w:qpl", "passive", "tos", "status", "disappearing_mode", "spam", "w:biz", "bot"}
    | {"urn:xmpp:whatsapp:dirty", "urn:xmpp:whatsapp:push", "urn:xmpp:whatsapp:account", "fb:thrift_iq"}
)
_PRIVACY = ("readreceipts", "profile", "status", "online", "last", "groupadd", "calladd")

log = structlog.get_logger(__name__)

Answer = Callable[[ServerState, Connection, Node], list[Node]]


def handle(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Answer an iq: with an error where it is malformed, or about something that this server does not know."""
    kind, xmlns = stanza.attr("type"), stanza.attr("xmlns")
    if kind in ("result", "error"):
        if not stanza.attr("id"):
            connection.answer_ping()
        elif stanza.child("pair-device-sign"):
            pairing.handle_pair_device_sign(state, connection, stanza)
        elif kind == "error":
            pairing.handle_refusal(connection, stanza)
        return
    # Queries about groups go to the group, and it answers.
    attrs = {"from": stanza.attr("to") if xmlns == "w:g2" else jid.SERVER_JID, "id": stanza.attr("id")}
    try:
        content = _content(state, connection, stanza)
    except QueryRefusedError as refused:
        error = node("error", {"code": refused.code, "text": str(refused)})
        connection.send(Node("iq", {**attrs, "type": "error"}, [error]))
        return
    connection.send(Node("iq", {**attrs, "type": "result"}, content or None))
    after = _AFTERWARDS.get((xmlns, kind))
    if after:
        after(state, connection, stanza)


def _content(state: ServerState, connection: Connection, stanza: Node) -> list[Node]:
    """Return what an answer contains. Raises QueryRefusedError."""
    kind, xmlns = stanza.attr("type"), stanza.attr("xmlns")
    answer = group_queries.answer if xmlns == "w:g2" else _ANSWERS.get((xmlns, kind))
    if answer is None:
        if xmlns in _CONFIRMED:
            return []
        raise QueryRefusedError(501, "feature-not-implemented")
    try:
        return answer(state, connection, stanza)
    except (ProtocolError, SimulatorError, ValueError) as error:
        log.info("simulator.query_malformed", xmlns=xmlns, error=str(error))
        raise QueryRefusedError(400, "bad-request") from error


def _link(state: ServerState, connection: Connection, stanza: Node) -> list[Node]:
    step = passkeys.answer(state, connection, stanza)
    if step is not None:
        return step
    request = stanza.child("link_code_companion_reg")
    if request is None:
        if stanza.child("remove-companion-device"):
            return []
        raise QueryRefusedError(400, "bad-request")
    if request.attr("stage") == "companion_hello":
        return [pairing.handle_companion_hello(state, connection, stanza)]
    return []


def _after_link(state: ServerState, connection: Connection, stanza: Node) -> None:
    passkeys.follow(state, connection, stanza)
    request = stanza.child("link_code_companion_reg")
    if request and request.attr("stage") == "companion_finish":
        pairing.handle_companion_finish(state, connection, stanza)
    if stanza.child("remove-companion-device") and connection.device:
        actions.forget_device(state, connection.device)


def _after_passive(state: ServerState, connection: Connection, stanza: Node) -> None:
    if stanza.child("active"):
        login.become_active(state, connection)


def _app_state(state: ServerState, connection: Connection, stanza: Node) -> list[Node]:
    if connection.phone is None:
        return []
    app_state = state.accounts.phone(connection.phone).app_state
    answers = []
    for wanted in stanza.require("sync").children("collection"):
        name = wanted.attr("name")
        known = int(wanted.attr("version") or 0) if name in COLLECTIONS else 0
        patch = wanted.child("patch")
        if patch and known != app_state.version(name):
            # It was made from an older state: the device has to take in what it does not know, and make it again.
            error = node("error", {"code": 409, "text": "conflict"})
            answers.append(
                node("collection", {"name": name, "type": "error"}, [error, *_patches(app_state, name, known)])
            )
            continue
        if patch:
            version = app_state.append(name, patch.data)
            answers.append(node("collection", {"name": name, "version": version}))
            _notify_other_devices(state, connection, name, version)
            continue
        attrs = {"name": name, "version": str(app_state.version(name)), "has_more_patches": "false"}
        answers.append(node("collection", attrs, _patches(app_state, name, known)))
    return [node("sync", content=answers)]


def _patches(app_state: AppState, name: str, known: int) -> list[Node]:
    patches = [node("patch", content=one) for one in app_state.since(name, known)]
    return [node("patches", content=patches)] if patches else []


def _notify_other_devices(state: ServerState, connection: Connection, name: str, version: int) -> None:
    """Notify the account's other devices of a change by one of them."""
    devices = state.accounts.phone(connection.phone or "").devices.values()
    for device in devices:
        if device is not connection.device:
            attrs = {"type": "server_sync", "id": state.next_id(), "t": str(state.now)}
            changed = node("collection", {"name": name, "version": version})
            state.deliver(device, from_server("notification", attrs, [changed]))
    state.changed(connection.phone or "")


def _media_connection(state: ServerState, _connection: Connection, _stanza: Node) -> list[Node]:
    size = {"maxContentLengthBytes": 100 << 20}
    hosts = [node("host", {"hostname": name, **size}) for name in state.media_hosts.names]
    return [node("media_conn", {"auth": "sim", "ttl": 3600, "auth_ttl": 3600, "max_buckets": 12}, hosts)]


def _picture(state: ServerState, _connection: Connection, stanza: Node) -> list[Node]:
    target = jid.parse(stanza.attr("target"))
    phone = state.accounts.find(target) if target else None
    if phone is None or not phone.picture:
        raise QueryRefusedError(404, "item-not-found")
    return [node("picture", {"id": "1", "type": "image", "url": phone.picture})]


def _block(state: ServerState, connection: Connection, stanza: Node) -> list[Node]:
    item = stanza.require("item")
    target = jid.parse(item.attr("jid"))
    other = state.accounts.find(target) if target else None
    if connection.phone is None or other is None or target is None or target.server != jid.LID:
        raise QueryRefusedError(400, "bad-request")
    blocked = state.accounts.phone(connection.phone).blocked
    if item.attr("action") == "block":
        if item.attr("pn_jid") != str(other.address):
            raise QueryRefusedError(400, "bad-request")
        blocked.add(other.number)
    else:
        blocked.discard(other.number)
    return [_blocklist(state, connection)]


def _blocklist(state: ServerState, connection: Connection) -> Node:
    """Return whom an account has blocked, by LID."""
    blocked = sorted(state.accounts.phone(connection.phone).blocked) if connection.phone else []
    people = [state.accounts.phone(number) for number in blocked]
    return node("list", content=[node("item", {"jid": str(one.address_in(jid.LID))}) for one in people])


def _privacy(_state: ServerState, _connection: Connection, _stanza: Node) -> list[Node]:
    categories = [node("category", {"name": name, "value": "all"}) for name in _PRIVACY]
    return [node("privacy", content=categories)]


def _give_tokens(state: ServerState, connection: Connection, stanza: Node) -> list[Node]:
    if connection.phone:
        trust_tokens.take_in(state, state.accounts.phone(connection.phone), stanza)
    return []


_ANSWERS: dict[tuple[str, str], Answer] = {
    ("encrypt", "get"): prekeys.handle_get,
    ("encrypt", "set"): prekeys.handle_set,
    ("usync", "get"): lambda state, connection, stanza: usync.answer(state, connection.phone, stanza),
    ("md", "set"): _link,
    ("md", "get"): _link,
    ("w:m", "set"): _media_connection,
    ("w:mex", "get"): lambda state, connection, stanza: graphql.answer(state, connection.phone, stanza),
    ("w:sync:app:state", "set"): _app_state,
    ("privacy", "get"): _privacy,
    ("privacy", "set"): _give_tokens,
    ("w:profile:picture", "get"): _picture,
    ("abt", "get"): lambda state, connection, stanza: properties.answer(state, connection.phone, stanza),
    ("blocklist", "set"): _block,
    ("blocklist", "get"): lambda state, connection, _stanza: [_blocklist(state, connection)],
}
_AFTERWARDS: dict[tuple[str, str], Callable[[ServerState, Connection, Node], None]] = {
    ("md", "set"): _after_link,
    ("passive", "set"): _after_passive,
}
