"""Immediate effects of a fault. Lasting effects are read from `Faults` where they apply."""

import secrets
from collections.abc import Callable
from typing import Any

from wa_orchestrator.simulator.phones import actions
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.faults import Fault
from wa_orchestrator.simulator.whatsapp.stanzas import graphql, login
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server

#: Faults that happen once and do not stay active (`drop` does, if it has a duration).
_MOMENTARY = frozenset(
    {"bad_frame", "replace", "logout", "novelty", "client_expiration", "status", "media_hosts_gone", "server_ping"}
)
_POSTER, _PONG_S = "972509999999", 5.0


def apply(
    state: ServerState, kind: str, *, phone: str | None, seconds: float | None, code: int | None, extra: dict[str, Any]
) -> Fault:
    """Activate a fault, apply its immediate effect, and return it. Raises SimulatorError for an unknown kind."""
    if kind == "companion_reg_refresh":
        extra = {"times": 1, **extra}
    fault = state.faults.add(kind, phone, seconds, code, extra)
    if kind in _MOMENTARY or (kind == "drop" and seconds is None):
        state.faults.remove(fault)
    at_once = _AT_ONCE.get(kind)
    if at_once:
        at_once(state, fault)
    return fault


def clear(state: ServerState) -> None:
    """End all faults; devices are notified of locks that end."""
    state.media_hosts.recover()
    kinds = {fault.kind for fault in state.faults.listing()}
    state.faults.clear()
    if "reachout_lock" in kinds:
        graphql.push_timelock(state, None)
    if "newchat_cap" in kinds:
        graphql.push_capping(state, None)


def _drop(state: ServerState, fault: Fault) -> None:
    for connection in state.connections_of(fault.phone):
        connection.abort()


def _send_bad_frame(state: ServerState, fault: Fault) -> None:
    for connection in state.connections_of(fault.phone):
        if connection.device:
            connection.send_undecodable(is_sealed=fault.extra.get("part") != "cipher")


def _send_novelties(state: ServerState, fault: Fault) -> None:
    for connection in state.connections_of(fault.phone):
        if connection.device:
            attrs = {"id": state.next_id(), "type": "brand_new", "t": str(state.now)}
            state.deliver(connection.device, from_server("notification", attrs, [node("brand_new")]))
            connection.send(from_server("ib", {}, [node("brand_new_notice")]))
            connection.send(from_server("novel", {"id": state.next_id()}))


def _post_status(state: ServerState, fault: Fault) -> None:
    for connection in state.connections_of(fault.phone):
        if connection.device:
            attrs = {"from": jid.STATUS, "id": state.next_id(), "type": "media", "t": str(state.now)}
            status = Node("status", attrs)
            if fault.extra.get("form") == "message":
                space = state.accounts.phone(connection.device.phone).space
                poster = state.accounts.phone(_POSTER)
                enc = node("enc", {"v": "2", "type": "skmsg"}, secrets.token_bytes(64))
                attrs |= {"participant": str(poster.address_in(space)), "notify": poster.name}
                status = Node("message", attrs, [enc])
            state.deliver(connection.device, status)


def _ping(state: ServerState, fault: Fault) -> None:
    for connection in state.connections_of(fault.phone):
        connection.ping(fault.extra["seconds"] or _PONG_S)


def _lose_media_hosts(state: ServerState, fault: Fault) -> None:
    state.media_hosts.lose(every=bool(fault.extra.get("all")))


def _announce_expiration(state: ServerState, fault: Fault) -> None:
    attrs = {"t": str(fault.extra["at"])} if "at" in fault.extra else {}
    for connection in state.connections_of(fault.phone):
        if connection.device:
            connection.send(from_server("ib", {}, [node("client_expiration", attrs)]))


def _replace(state: ServerState, fault: Fault) -> None:
    for connection in state.connections_of(fault.phone):
        if connection.device:
            login.end_replaced(connection)


def _log_out(state: ServerState, fault: Fault) -> None:
    phones = [state.accounts.phone(fault.phone)] if fault.phone else state.accounts.linked_phones()
    for phone in phones:
        actions.unlink(state, phone, None)


def _end_streams(state: ServerState, fault: Fault) -> None:
    for connection in state.connections_of(fault.phone):
        if connection.device:
            connection.close()


def _overload(state: ServerState, fault: Fault) -> None:
    for connection in state.connections_of(fault.phone):
        if connection.device:
            connection.end_with(node("stream:error", {"code": "503"}))
    if fault.until is None:
        state.faults.remove(fault)


_AT_ONCE: dict[str, Callable[[ServerState, Fault], None]] = {
    "drop": _drop,
    "bad_frame": _send_bad_frame,
    "replace": _replace,
    "novelty": _send_novelties,
    "status": _post_status,
    "server_ping": _ping,
    "media_hosts_gone": _lose_media_hosts,
    "client_expiration": _announce_expiration,
    "logout": _log_out,
    "ban": _end_streams,
    "temporary_ban": _end_streams,
    "unavailable": _overload,
    "reachout_lock": lambda state, fault: graphql.push_timelock(state, fault.phone),
    "newchat_cap": lambda state, fault: graphql.push_capping(state, fault.phone),
}
