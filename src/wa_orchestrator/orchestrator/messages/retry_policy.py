"""What becomes of a message that a worker could not send: the words of workers, counted attempts, and the decision."""

from collections.abc import Mapping
from types import MappingProxyType

from wa_orchestrator.domain.message_failures import REMEDIES, Failure, Remedy, failure_of
from wa_orchestrator.domain.retry import GiveUp, Retry, StopSession, after_failure
from wa_orchestrator.store.outbox import Verdict
from wa_orchestrator.store.records import Message

#: Remedies after which the attempt is not held against the message.
UNCOUNTED = frozenset({Remedy.HAND_BACK, Remedy.STOP_SESSION})
#: The worker's report of the session's end follows in a moment; until then nothing more is tried on it.
STOPPED_MS = 60_000
_WHATSAPP = "WA_"
_WORKER_WORDS: Mapping[str, Failure] = MappingProxyType(
    {
        "ACK_TIMEOUT": Failure.NO_ACK,
        "SEND_TIMEOUT": Failure.NO_ACK,
        "SOCKET_CLOSED": Failure.CONNECTION_LOST,
        "LOOKUP_FAILED": Failure.CONNECTION_LOST,
        "WORKER_STOPPING": Failure.HANDED_BACK,
        "MEDIA_UPLOAD_FAILED": Failure.MEDIA_UNREACHABLE,
    }
)


def failure_from(code: str, *, retryable: bool) -> Failure:
    """Name the failure behind a worker's code: a word of its own, a word of ours, or WhatsApp's number."""
    word = code.strip().upper()
    if word in _WORKER_WORDS:
        return _WORKER_WORDS[word]
    return failure_of(word.removeprefix(_WHATSAPP), retryable=retryable)


def counted_attempts(message: Message) -> int:
    """How often it was really tried: neither dead workers nor attempts that were handed back count."""
    spared = int(message.fields.get("crashes") or 0) + int(message.fields.get("uncounted") or 0)
    return max(1, message.attempts - spared)


def verdict(message: Message, failure: Failure, *, max_attempts: int, jitter: float) -> Verdict:
    """Decide what to do with a message whose present attempt failed. The backoff is not scaled yet."""
    attempts = counted_attempts(message)
    match after_failure(failure, attempts, max_attempts=max_attempts, jitter=jitter):
        case Retry(backoff_ms):
            return Verdict(message.attempts, failure, backoff_ms)
        case GiveUp():
            return Verdict(message.attempts, failure, None)
        case StopSession():
            return Verdict(message.attempts, failure, STOPPED_MS)


def is_counted(failure: Failure) -> bool:
    """Whether an attempt that failed so is held against the message."""
    return REMEDIES[failure] not in UNCOUNTED
