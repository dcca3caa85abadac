"""Responses and errors of the send routes."""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from wa_orchestrator.domain.number_health import StrangerWarning
from wa_orchestrator.domain.pacing.forecast import Eta
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.store.leases import Limited
from wa_orchestrator.store.messages.admission import Conflict, DayFull, OptedOut, QueueFull, Rejection
from wa_orchestrator.timestamps import iso

if TYPE_CHECKING:  # the pool reads Redis through a module that needs these replies
    from wa_orchestrator.gateway.senders.sender_pool import Sender

#: The recipient may have another message that was never confirmed.
EARLIER_UNCONFIRMED = "EARLIER_UNCONFIRMED"


def accepted(
    message_id: str,
    session_id: str,
    position: int,
    eta: Eta,
    *,
    warning: str = "",
    warnings: tuple[StrangerWarning, ...] = (),
) -> str:
    """Return the body of a 202. Ids and reasons need no escaping: they have letters, digits, `-` and `_` only."""
    at = "null" if eta.at_ms is None else f'"{_second(eta.at_ms // 1000)}.{eta.at_ms % 1000:03d}Z"'
    return (
        f'{{"queued":true,"messageId":"{message_id}","sessionId":"{session_id}","position":{position},'
        f'"eta":{at},"because":"{eta.because}"'
        + (f',"warning":"{warning}"' if warning else "")
        + (f',"warnings":[{_listed(warnings)}]}}' if warnings else "}")
    )


@lru_cache(maxsize=1_000)
def _listed(warnings: tuple[StrangerWarning, ...]) -> str:
    return ",".join(
        f'{{"code":"{each.code}"}}' if each.count is None else f'{{"code":"{each.code}","count":{each.count}}}'
        for each in warnings
    )


@lru_cache(maxsize=20_000)
def _second(second: int) -> str:
    """Return what `iso` writes before the milliseconds. Cached: the same seconds occur again and again."""
    return str(iso(second * 1000)).partition(".")[0]


def refusal(outcome: Rejection, sender: "Sender", now_ms: int) -> Refused:
    """Return the error for a message that was not accepted."""
    session_id = sender.session.id
    match outcome:
        case Conflict():
            return conflict()
        case OptedOut():
            return Refused("OPTED_OUT", "The recipient opted out. Nothing is sent to them.", 422)
        case DayFull(count):
            return Refused(
                "DAILY_LIMIT",
                f"Session {session_id} has its {sender.pace.per_day} messages for today. Wait, name another session, "
                'or send with "onLimit": "defer".',
                429,
                sessionId=session_id,
                limit=sender.pace.per_day,
                count=count,
                opensAt=iso(sender.reopens_ms),
                retryAfterS=max(1, math.ceil((sender.reopens_ms - now_ms) / 1000)),
            )
        case QueueFull(count):
            text = f"{count} messages wait for session {session_id} already. Wait until some have left."
            return Refused("QUEUE_FULL", text, 429, sessionId=session_id, count=count, retryAfterS=60)


def conflict() -> Refused:
    """Return the error for an idempotency key that was used with another body."""
    text = "This Idempotency-Key was used with another body. Use a new key for a new message."
    return Refused("IDEMPOTENCY_CONFLICT", text, 409)


def rate_limited(verdict: Limited) -> Refused:
    """Return the error for an API key that exceeds its rate."""
    text = "This API key calls too often. Wait as long as Retry-After says, or send in batches."
    return Refused("RATE_LIMITED", text, 429, retryAfterS=max(1, math.ceil(verdict.retry_after_ms / 1000)))


def unavailable() -> Unavailable:
    """Return the error for a Redis that refuses: nothing was accepted."""
    return Unavailable(
        "QUEUE_UNAVAILABLE",
        "The queue cannot accept messages right now; nothing was accepted. Try again with the same Idempotency-Key.",
        retryAfterS=2,
    )


def uncertain() -> Unavailable:
    """Return the error for a Redis that does not respond: it may have executed the request."""
    return Unavailable(
        "QUEUE_UNAVAILABLE",
        "The queue does not respond; the message may or may not have been accepted. Try again with the same "
        "Idempotency-Key: with one, a message is never accepted twice.",
        retryAfterS=2,
    )
