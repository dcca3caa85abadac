"""GraphQL queries: reach-out time lock and new-chat capping."""

import json
from typing import Any

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.faults import Fault
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server

REACHOUT_TIMELOCK = "23983697327930364"
MESSAGE_CAPPING = "24503548349331633"


def answer(state: ServerState, phone: str | None, stanza: Node) -> list[Node]:
    """Answer a query by its id; an unknown one gets empty data."""
    if phone is None:
        raise ProtocolError("GraphQL is for linked devices")
    query_id = stanza.require("query").attr("query_id")
    payload: dict[str, Any] = {}
    if query_id == REACHOUT_TIMELOCK:
        payload = {"xwa2_fetch_account_reachout_timelock": _timelock(state.faults.active("reachout_lock", phone))}
    elif query_id == MESSAGE_CAPPING:
        payload = {"xwa2_message_capping_info": _capping(state, state.faults.active("newchat_cap", phone))}
    return [node("result", content=json.dumps({"data": payload}))]


def push_timelock(state: ServerState, phone: str | None) -> None:
    """Notify the phone's devices that the lock has begun or ended."""
    for device in list(state.accounts.devices()):
        if phone in (None, device.phone):
            lock = _timelock(state.faults.active("reachout_lock", device.phone))
            _push(
                state,
                device.phone,
                "NotificationUserReachoutTimelockUpdate",
                xwa2_notify_account_reachout_timelock=lock,
            )


def push_capping(state: ServerState, phone: str | None) -> None:
    """Notify the phone's devices how many new chats they may still start."""
    for device in list(state.accounts.devices()):
        if phone in (None, device.phone):
            cap = _capping(state, state.faults.active("newchat_cap", device.phone))
            name = "MessageCappingInfoNotification"
            _push(state, device.phone, name, xwa2_notify_new_chat_messages_capping_info_update=cap)


def _push(state: ServerState, phone: str, operation: str, **payload: Any) -> None:
    update = node("update", {"op_name": operation}, json.dumps({"data": payload}))
    for device in state.accounts.phone(phone).devices.values():
        attrs = {"type": "mex", "id": state.next_id(), "t": str(state.now)}
        state.deliver(device, from_server("notification", attrs, [update]))


def _timelock(fault: Fault | None) -> dict[str, Any]:
    if fault is None:
        return {"is_active": False, "time_enforcement_ends": "0", "enforcement_type": "DEFAULT"}
    ends = str(int(fault.until)) if fault.until else None
    kind = fault.extra.get("enforcement_type", "WEB_COMPANION_ONLY")
    return {"is_active": True, "time_enforcement_ends": ends, "enforcement_type": kind}


def is_capped(fault: Fault | None) -> bool:
    """Whether the allowance of new chats is used up."""
    used, total = _quota(fault)
    return fault is not None and used >= total


def count_new_chat(state: ServerState, phone: str) -> None:
    """Count a new chat of a phone whose allowance is limited; its devices are notified of the last one."""
    fault = state.faults.active("newchat_cap", phone)
    if fault is not None:
        fault.extra["used"] = _quota(fault)[0] + 1
        if is_capped(fault):
            push_capping(state, fault.phone)


def _quota(fault: Fault | None) -> tuple[int, int]:
    """Return how many new chats were begun, of how many."""
    total = int(fault.extra.get("total", 100)) if fault else 100
    return (int(fault.extra.get("used", total)) if fault else 0), total


def _capping(state: ServerState, fault: Fault | None) -> dict[str, Any]:
    used, total = _quota(fault)
    ends = int(fault.until) if fault and fault.until else state.now + 86_400
    return {
        "total_quota": total,
        "used_quota": used,
        "cycle_start_timestamp": str(ends - 86_400),
        "cycle_end_timestamp": str(ends),
        "server_sent_timestamp": str(state.now),
        "ote_status": "NOT_ELIGIBLE",
        "mv_status": "NOT_ELIGIBLE",
        "capping_status": "CAPPED" if is_capped(fault) else "NONE",
    }
