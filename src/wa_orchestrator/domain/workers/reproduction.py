"""Turns the way of one message into a scenario for the simulator: its shapes, without texts, names and numbers."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from wa_orchestrator.domain.messages.failures import Failure

_ACK_ERROR = "ack_error"
_ERROR_OF_ACK: Final = re.compile(r"WA_([0-9]{3})", re.ASCII)
_DROP: Final[Mapping[str, Any]] = {"kind": "drop"}
_NO_ACK: Final[Mapping[str, Any]] = {"kind": "ack_delay", "seconds": 600}


#: After these the worker sends once more within the attempt, so whoever was given up was refused twice.
_TRIED_TWICE: Final = frozenset({400, 479})


def _error(code: int) -> dict[str, Any]:
    return {"kind": _ACK_ERROR, "code": code, "times": 2 if code in _TRIED_TWICE else 1}


#: The fault that makes a simulated WhatsApp do what the real one did, by the code that the worker reported.
#: `WA_<number>` is not here: it is replayed as it was.
_FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ACK_TIMEOUT": _NO_ACK,
    "SOCKET_CLOSED": _DROP,
    Failure.ADDRESSING: _error(400),
    Failure.NEW_CHAT_CAP: _error(475),
    Failure.REACHOUT_LOCKED: {"kind": "reachout_lock"},
    Failure.NO_TRUST_TOKEN: {"kind": "needs_token", "firstContact": False},
}
#: The same by the reason of a failure, for messages of earlier versions, which kept no code: only where one thing has
#: that reason.
_FAULTS_OF_REASONS: Final[Mapping[str, Mapping[str, Any]]] = {
    Failure.NO_ACK: _NO_ACK,
    Failure.CONNECTION_LOST: _DROP,
    Failure.SERVER_ERROR: _error(500),
    Failure.RATE_LIMITED: _error(429),
    Failure.OVERLOADED: _error(503),
    Failure.STALE_DEVICES: _error(479),
    Failure.LOGGED_OUT: {"kind": "logout"},
    Failure.BANNED: {"kind": "ban"},
    Failure.REPLACED_ELSEWHERE: {"kind": "replace"},
    Failure.ADDRESSING: _FAULTS[Failure.ADDRESSING],
    Failure.NEW_CHAT_CAP: _FAULTS[Failure.NEW_CHAT_CAP],
    Failure.REACHOUT_LOCKED: _FAULTS[Failure.REACHOUT_LOCKED],
    Failure.NO_TRUST_TOKEN: _FAULTS[Failure.NO_TRUST_TOKEN],
}
#: Codes of workers for what ended an attempt before WhatsApp had the message, or without its doing.
_BEFORE_WHATSAPP: Final = frozenset(
    {
        "SEND_TIMEOUT", "SEND_FAILED", "LOOKUP_FAILED", "WORKER_STOPPING", "MEDIA_UPLOAD_FAILED", "MEDIA_UNAVAILABLE",
        "INVALID_MESSAGE", Failure.NOT_ON_WHATSAPP,
    }
)  # fmt: skip
#: Notes of the product's own vocabulary; anything else in a timeline could be somebody's words.
_NOTES: Final = frozenset(Failure)
#: Failures that are decided on this side, before or after WhatsApp had its say.
_OURS: Final = frozenset(
    {
        Failure.HANDED_BACK, Failure.LEASE_EXPIRED, Failure.WORKER_CRASHED, Failure.NOT_ON_WHATSAPP, Failure.OPTED_OUT,
        Failure.BAD_CONTENT, Failure.MEDIA_REFUSED, Failure.MEDIA_UNREACHABLE, Failure.SESSION_DELETED,
        Failure.SESSION_RELINKED, Failure.NO_SENDER, Failure.SENDER_LOST, Failure.RESTORED,
    }
)  # fmt: skip


class Omission(StrEnum):
    """Why the end of an attempt is not in a scenario."""

    NOT_WHATSAPPS = "not_whatsapps"
    """It ended on this side, before WhatsApp had the message or without its doing."""
    NOT_RECORDED = "not_recorded"
    """Several things have this reason, and the version that sent the message did not keep which."""
    UNKNOWN_CODE = "unknown_code"
    """This version does not know what the worker's code means to the simulator."""


def scenario(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario of a message as the API shows it. With two phones beside it, the simulator plays it back.

    `notReplayed` has the ends of attempts that no fault stands for: attempt, reason, and an `Omission`.
    """
    timeline: Sequence[Mapping[str, Any]] = message.get("timeline") or []
    attempts, gaps = _attempts(timeline)
    return {
        "format": 2,
        "message": _shape_of(message),
        "attempts": attempts,
        "expected": [_expected(entry) for entry in timeline],
        "notReplayed": gaps,
    }


def _attempts(timeline: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what WhatsApp did to each attempt (a timeline notes it after the sending), and what is not replayed."""
    found: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for entry in timeline:
        if entry.get("status") == "sending":
            found.append({"faults": [], "read": False})
            continue
        if not found:
            continue
        found[-1]["read"] |= entry.get("status") == "read"
        end = _end_of(str(entry.get("note") or ""), str(entry.get("answer") or ""))
        if isinstance(end, Omission):
            gaps.append({"attempt": len(found), "reason": str(entry["note"]), "why": str(end)})
        elif end is not None:
            found[-1]["faults"].append(dict(end))
    return found, gaps


def _end_of(note: str, answer: str) -> Mapping[str, Any] | Omission | None:
    """Return the fault that ends an attempt as it ended, or why there is none; None where the note tells of no end."""
    if note not in _NOTES:
        return None
    if code := _ERROR_OF_ACK.fullmatch(answer):
        return _error(int(code[1]))
    if answer:
        return _FAULTS.get(answer) or (Omission.NOT_WHATSAPPS if answer in _BEFORE_WHATSAPP else Omission.UNKNOWN_CODE)
    return _FAULTS_OF_REASONS.get(note) or (Omission.NOT_WHATSAPPS if note in _OURS else Omission.NOT_RECORDED)


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
