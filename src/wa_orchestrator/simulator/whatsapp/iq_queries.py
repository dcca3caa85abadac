"""Questions and wishes of devices (`<iq>`): one table from what is asked to who answers."""

from collections.abc import Callable

from wa_orchestrator.simulator.errors import QueryRefusedError
from wa_orchestrator.simulator.phones import actions
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp import graphql, groups, login, media, pairing, prekeys, usync
from wa_orchestrator.simulator.whatsapp.app_state import COLLECTIONS
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.state import Hub, from_server

_PRIVACY = ("readreceipts", "profile", "status", "online", "last", "groupadd", "calladd")

Answer = Callable[[Hub, Connection, Node], list[Node]]


def handle(hub: Hub, connection: Connection, stanza: Node) -> None:
    """Answer an iq. What nobody knows gets an empty result, as most things devices report do."""
    kind, xmlns = stanza.attr("type"), stanza.attr("xmlns")
    if kind in ("result", "error"):
        if stanza.child("pair-device-sign"):
            pairing.device_signed(hub, connection, stanza)
        return
    if xmlns == "w:g2":
        connection.send(groups.answer(hub, connection.phone, stanza))
        return
    answer = _ANSWERS.get((xmlns, kind))
    try:
        content = answer(hub, connection, stanza) if answer else []
    except QueryRefusedError as refused:
        error = node("error", {"code": refused.code, "text": str(refused)})
        connection.send(from_server("iq", {"type": "error", "id": stanza.attr("id")}, [error]))
        return
    connection.send(from_server("iq", {"type": "result", "id": stanza.attr("id")}, content or None))
    after = _AFTERWARDS.get((xmlns, kind))
    if after:
        after(hub, connection, stanza)


def _link(hub: Hub, connection: Connection, stanza: Node) -> list[Node]:
    request = stanza.child("link_code_companion_reg")
    if request is None:
        return []
    if request.attr("stage") == "companion_hello":
        return [pairing.hello(hub, connection, stanza)]
    return []


def _after_link(hub: Hub, connection: Connection, stanza: Node) -> None:
    request = stanza.child("link_code_companion_reg")
    if request and request.attr("stage") == "companion_finish":
        pairing.finish(hub, connection, stanza)
    if stanza.child("remove-companion-device") and connection.device:
        actions.forget_device(hub, connection.device)


def _after_passive(hub: Hub, connection: Connection, stanza: Node) -> None:
    if stanza.child("active"):
        login.become_active(hub, connection)


def _app_state(hub: Hub, connection: Connection, stanza: Node) -> list[Node]:
    if connection.phone is None:
        return []
    state = hub.accounts.phone(connection.phone).app_state
    answers = []
    for wanted in stanza.need("sync").children("collection"):
        name = wanted.attr("name")
        known = int(wanted.attr("version") or 0) if name in COLLECTIONS else 0
        patch = wanted.child("patch")
        if patch:
            version = state.append(name, patch.data)
            answers.append(node("collection", {"name": name, "version": version}))
            _tell_other_devices(hub, connection, name, version)
            continue
        patches = [node("patch", content=one) for one in state.since(name, known)]
        attrs = {"name": name, "version": str(state.version(name)), "has_more_patches": "false"}
        answers.append(node("collection", attrs, [node("patches", content=patches)] if patches else []))
    return [node("sync", content=answers)]


def _tell_other_devices(hub: Hub, connection: Connection, name: str, version: int) -> None:
    """Let the account's other devices fetch what one of them changed."""
    devices = hub.accounts.phone(connection.phone or "").devices.values()
    for device in devices:
        if device is not connection.device:
            attrs = {"type": "server_sync", "id": hub.next_id(), "t": str(hub.now)}
            changed = node("collection", {"name": name, "version": version})
            hub.deliver(device, from_server("notification", attrs, [changed]))
    hub.changed(connection.phone or "")


def _media_connection(_hub: Hub, _connection: Connection, _stanza: Node) -> list[Node]:
    host = node("host", {"hostname": media.HOST, "maxContentLengthBytes": 100 << 20})
    return [node("media_conn", {"auth": "sim", "ttl": 3600, "auth_ttl": 3600, "max_buckets": 12}, [host])]


def _picture(_hub: Hub, _connection: Connection, _stanza: Node) -> list[Node]:
    raise QueryRefusedError(404, "item-not-found")  # nobody here has a picture


def _privacy(_hub: Hub, _connection: Connection, _stanza: Node) -> list[Node]:
    categories = [node("category", {"name": name, "value": "all"}) for name in _PRIVACY]
    return [node("privacy", content=categories)]


_ANSWERS: dict[tuple[str, str], Answer] = {
    ("encrypt", "get"): prekeys.get,
    ("encrypt", "set"): prekeys.set_,
    ("usync", "get"): lambda hub, _connection, stanza: usync.answer(hub, stanza),
    ("md", "set"): _link,
    ("w:m", "set"): _media_connection,
    ("w:mex", "get"): lambda hub, connection, stanza: graphql.answer(hub, connection.phone, stanza),
    ("w:sync:app:state", "set"): _app_state,
    ("privacy", "get"): _privacy,
    ("w:profile:picture", "get"): _picture,
    ("abt", "get"): lambda _hub, _connection, _stanza: [node("props", {"protocol": "1", "hash": "h1"})],
    ("blocklist", "get"): lambda _hub, _connection, _stanza: [node("list")],
}
_AFTERWARDS: dict[tuple[str, str], Callable[[Hub, Connection, Node], None]] = {
    ("md", "set"): _after_link,
    ("passive", "set"): _after_passive,
}
