"""Turns the way of one message into a scenario for the simulator: its shapes, without texts, names and numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wa_orchestrator.domain.messages.failures import Failure

_ACK_ERROR, _UNKNOWN_ERROR = "ack_error", 479
#: The fault that makes a simulated WhatsApp answer as the real one did, by the code of the failure.
_FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    Failure.NO_ACK: {"kind": "ack_delay", "seconds": 600},
    Failure.CONNECTION_LOST: {"kind": "drop"},
    Failure.SERVER_ERROR: {"kind": _ACK_ERROR, "code": 500, "times": 1},
    Failure.RATE_LIMITED: {"kind": _ACK_ERROR, "code": 429, "times": 1},
    Failure.OVERLOADED: {"kind": _ACK_ERROR, "code": 503, "times": 1},
    Failure.STALE_DEVICES: {"kind": _ACK_ERROR, "code": _UNKNOWN_ERROR, "times": 1},
    Failure.UNKNOWN: {"kind": _ACK_ERROR, "code": _UNKNOWN_ERROR, "times": 1},
    Failure.ADDRESSING: {"kind": _ACK_ERROR, "code": 400, "times": 1},
    Failure.NEW_CHAT_CAP: {"kind": _ACK_ERROR, "code": 475, "times": 1},
    Failure.REACHOUT_LOCKED: {"kind": "reachout_lock"},
    Failure.NO_TRUST_TOKEN: {"kind": "needs_token", "firstContact": False},
    Failure.LOGGED_OUT: {"kind": "logout"},
    Failure.BANNED: {"kind": "ban"},
    Failure.REPLACED_ELSEWHERE: {"kind": "replace"},
}
#: Notes of the product's own vocabulary; anything else in a timeline could be somebody's words.
_NOTES: Final = frozenset(Failure)


def scenario(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario of a message as the API shows it. With two phones beside it, the simulator plays it back."""
    timeline: Sequence[Mapping[str, Any]] = message.get("timeline") or []
    return {
        "format": 2,
        "message": _shape_of(message),
        "attempts": _attempts(timeline),
        "expected": [_expected(entry) for entry in timeline],
    }


def _attempts(timeline: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what WhatsApp did to each attempt: what a timeline notes after a sending has happened in it."""
    found: list[dict[str, Any]] = []
    for entry in timeline:
        if entry.get("status") == "sending":
            found.append({"faults": [], "read": False})
        fault = _FAULTS.get(str(entry.get("note") or ""))
        if found and fault is not None:
            found[-1]["faults"].append(dict(fault))
        if found and entry.get("status") == "read":
            found[-1]["read"] = True
    return found


def _shape_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return kind and sizes: a text becomes as many letters."""
    content: Mapping[str, Any] = message.get("content") or {}
    shape: dict[str, Any] = {"kind": str(message.get("kind") or "")}
    for name in ("text", "caption"):
        if isinstance(content.get(name), str):
            shape[name] = "x" * len(content[name])
    if isinstance(content.get("media"), Mapping):
        shape["media"] = {name: content["media"].get(name) for name in ("mimetype", "size")}
    return shape


def _expected(entry: Mapping[str, Any]) -> dict[str, str]:
    note = str(entry.get("note") or "")
    return {"status": str(entry.get("status") or "")} | ({"note": note} if note in _NOTES else {})
