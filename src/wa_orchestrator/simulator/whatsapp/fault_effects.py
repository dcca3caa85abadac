"""Letting things go wrong: what a fault does at the moment it begins. What it does later, each part asks `Faults`."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.phones import actions
from wa_orchestrator.simulator.protocol.binary_xml import node
from wa_orchestrator.simulator.whatsapp import graphql, login
from wa_orchestrator.simulator.whatsapp.faults import Fault
from wa_orchestrator.simulator.whatsapp.state import Hub, from_server

#: Faults that happen once: they are not in force afterwards (`drop` is, if it was given a time).
_MOMENTARY = frozenset({"replace", "logout", "companion_reg_refresh"})


def begin(
    hub: Hub, kind: str, *, phone: str | None, seconds: float | None, code: int | None, extra: dict[str, Any]
) -> None:
    """Put a fault in force and do what it does at once. Raises SimulatorError for an unknown kind."""
    fault = hub.faults.add(kind, phone, seconds, code, extra)
    if kind in _MOMENTARY or (kind == "drop" and seconds is None):
        hub.faults.remove(fault)
    at_once = _AT_ONCE.get(kind)
    if at_once:
        at_once(hub, fault)


def clear(hub: Hub) -> None:
    """End all faults; devices are told of locks that end."""
    kinds = {fault.kind for fault in hub.faults.listing()}
    hub.faults.clear()
    if "reachout_lock" in kinds:
        graphql.push_timelock(hub, None)
    if "newchat_cap" in kinds:
        graphql.push_capping(hub, None)


def _drop(hub: Hub, fault: Fault) -> None:
    for connection in hub.connections_of(fault.phone):
        connection.abort()


def _replace(hub: Hub, fault: Fault) -> None:
    for connection in hub.connections_of(fault.phone):
        if connection.device:
            login.replace(connection)


def _log_out(hub: Hub, fault: Fault) -> None:
    phones = [hub.accounts.phone(fault.phone)] if fault.phone else hub.accounts.linked_phones()
    for phone in phones:
        actions.unlink(hub, phone, None)


def _end_streams(hub: Hub, fault: Fault) -> None:
    for connection in hub.connections_of(fault.phone):
        if connection.device:
            connection.close()


def _overload(hub: Hub, fault: Fault) -> None:
    for connection in hub.connections_of(fault.phone):
        if connection.device:
            connection.end_with(node("stream:error", {"code": "503"}))
    if fault.until is None:
        hub.faults.remove(fault)


def _refresh_registration(hub: Hub, fault: Fault) -> None:
    """Retire the secret of every QR on show. A client must acknowledge and renew it, or it cannot be linked."""
    for connection in hub.connections_of(None):
        if connection.registration is None:
            continue
        notice = hub.next_id()
        connection.unacked_refresh.add(notice)
        connection.retired_advs |= _adv_of(fault.extra.get("qr"))
        attrs = {"type": "companion_reg_refresh", "id": notice, "t": str(hub.now)}
        connection.send(from_server("notification", attrs, [node("companion_reg_refresh")]))


def _adv_of(qr: str | None) -> set[bytes]:
    try:
        return {base64.b64decode(qr.split(",")[3])} if qr else set()
    except (IndexError, binascii.Error) as error:
        raise SimulatorError("BAD_QR", "The QR to retire is not a QR of a device.") from error


_AT_ONCE: dict[str, Callable[[Hub, Fault], None]] = {
    "drop": _drop,
    "replace": _replace,
    "logout": _log_out,
    "ban": _end_streams,
    "temporary_ban": _end_streams,
    "unavailable": _overload,
    "companion_reg_refresh": _refresh_registration,
    "reachout_lock": lambda hub, fault: graphql.push_timelock(hub, fault.phone),
    "newchat_cap": lambda hub, fault: graphql.push_capping(hub, fault.phone),
}
