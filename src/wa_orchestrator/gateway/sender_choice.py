"""Chooses the sender of a new message: candidates from the pool, the decision by `domain.routing`, the refusals."""

from wa_orchestrator.domain import routing
from wa_orchestrator.domain.routing import Candidate, Chosen, NoSender, Pin, Why, Wish
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.gateway.sender_pool import Choice, PoolSnapshot, Sender


def choose(pool: PoolSnapshot, send: SendBody, affinity: str | None) -> Choice:
    """Choose the sender by `domain.routing`, among those senders of the pool that could be its answer.

    Raises `Refused` when none can send it.
    """
    named = (send.session_id, send.phone)
    known = pool.choices.get(named)
    if known is not None:
        return known
    wish = Wish(*named)
    candidates = [
        Candidate(sender.session.id, sender.session.phone, sender.readiness, sender.room_today)
        for sender in _candidates(pool, wish, affinity)
    ]
    match routing.choose(wish, candidates, affinity=affinity):
        case Chosen(session_id, why):
            sender = pool.senders[session_id]
            if not sender.session.phone:
                text = f"Session {session_id} has no phone yet. Link it first."
                raise Refused("SESSION_NOT_LINKED", text, 409, sessionId=session_id)
            choice = Choice(sender, why)
            if not is_free(send):  # within one snapshot a name has one answer
                pool.choices[named] = choice
            return choice
        case NoSender(why):
            raise refusal(why, send)


def is_free(send: SendBody) -> bool:
    """Whether the client leaves the choice of the sender to the server."""
    return send.session_id is None and send.phone is None


def pin(send: SendBody) -> Pin:
    """Return how far the client has fixed the sender."""
    if send.session_id is not None:
        return Pin.SESSION
    return Pin.PHONE if send.phone is not None else Pin.NOTHING


def refusal(why: Why, send: SendBody) -> Refused:
    """Return the refusal that says why no session can send it, and what to do."""
    match why:
        case Why.UNKNOWN_SESSION:
            text = f"There is no session {send.session_id}. GET /api/sessions lists them."
            return Refused("NO_SUCH_SESSION", text, 404, sessionId=send.session_id)
        case Why.UNKNOWN_PHONE:
            return Refused("NO_SUCH_PHONE", "No session has this phone. Link it first.", 404)
        case Why.PHONE_DIFFERS:
            return Refused("PHONE_DIFFERS", "This session has another phone. Name the session or the phone.", 409)
        case _:
            return Refused("NO_SENDER", "No session is linked to a phone. Link one first.", 409)


def _candidates(pool: PoolSnapshot, wish: Wish, affinity: str | None) -> list[Sender]:
    if wish.session_id is not None:
        return [pool.senders[wish.session_id]] if wish.session_id in pool.senders else []
    if wish.phone is not None:
        return pool.by_phone.get(wish.phone, [])
    roomiest = pool.room.top()
    if roomiest is None:  # nobody is ready
        return list(pool.senders.values())
    known = None if affinity is None else pool.senders.get(affinity)
    return [roomiest] if known is None else [roomiest, *pool.by_phone[known.session.phone]]
