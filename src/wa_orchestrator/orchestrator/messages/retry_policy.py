"""Retry or give up after a failed attempt: worker codes to failures, counted attempts, verdict."""

import re
from collections.abc import Mapping

from wa_orchestrator.domain.messages.failures import IMPOSSIBLE, UNANSWERED, Doubt, Failure, Remedy, failure_of
from wa_orchestrator.domain.messages.retry import GiveUp, PutAside, Retry, SlowDown, StopSession, after_failure
from wa_orchestrator.store.messages.outbox import FailureVerdict
from wa_orchestrator.store.records import Message

#: Remedies after which the attempt does not count.
UNCOUNTED = frozenset({Remedy.HAND_BACK, Remedy.SLOW_DOWN, Remedy.STOP_SESSION, Remedy.SET_ASIDE})
#: The worker's report of the session's end follows in a moment; until then nothing more is tried on it.
STOPPED_MS = 60_000
_WHATSAPP = "WA_"
_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,39}", re.ASCII)
_WORKER_CODES: Mapping[str, Failure] = {
    "ACK_TIMEOUT": Failure.NO_ACK,
    "SEND_TIMEOUT": Failure.NO_ACK,
    "SOCKET_CLOSED": Failure.CONNECTION_LOST,
    "LOOKUP_FAILED": Failure.CONNECTION_LOST,
    "WORKER_STOPPING": Failure.HANDED_BACK,
    "MEDIA_UPLOAD_FAILED": Failure.MEDIA_UNREACHABLE,
}
#: Failed before anything was written.
_UNWRITTEN = frozenset({"LOOKUP_FAILED"})


def spelled_code(code: str) -> str:
    """Return a worker's code as it is kept with the message: `WA_<number>` for WhatsApp's, a name, or ''."""
    name = code.strip().upper()
    if name.isdigit():
        name = _WHATSAPP + name
    return name if _CODE.fullmatch(name) else ""


def failure_from(code: str, *, retryable: bool) -> Failure:
    """Return the failure for a worker's code: one of its own, one of ours, or WhatsApp's number."""
    name = code.strip().upper()
    if name in _WORKER_CODES:
        return _WORKER_CODES[name]
    return failure_of(name.removeprefix(_WHATSAPP), retryable=retryable)


def doubt_after(code: str, failure: Failure) -> Doubt:
    """Return what an attempt that failed with a worker's code says about whether the recipient may have the message."""
    name = code.strip().upper()
    is_answer = name.startswith(_WHATSAPP) or name.isdigit()
    if failure in UNANSWERED and not is_answer and name not in _UNWRITTEN:
        return Doubt.RAISED
    return Doubt.SETTLED if failure in IMPOSSIBLE else Doubt.KEPT


def verdict(
    message: Message, failure: Failure, *, max_attempts: int, jitter: float, slowdowns: int = 0
) -> FailureVerdict:
    """Decide whether a message is retried after a failed attempt. The backoff is not scaled yet."""
    # Those of crashed workers and those that were handed back do not count.
    attempts = max(1, message.attempts - message.crashes - message.uncounted)
    match after_failure(failure, attempts, max_attempts=max_attempts, jitter=jitter, slowdowns=slowdowns):
        case Retry(backoff_ms):
            return FailureVerdict(message.attempts, failure, backoff_ms)
        case GiveUp():
            return FailureVerdict(message.attempts, failure, None)
        case SlowDown(pause_ms):
            return FailureVerdict(message.attempts, failure, pause_ms, slowdowns=slowdowns + 1)
        case StopSession():
            return FailureVerdict(message.attempts, failure, STOPPED_MS)
        case PutAside():
            return FailureVerdict(message.attempts, failure, 0, place="aside")
