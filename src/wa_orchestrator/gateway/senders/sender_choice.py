"""Chooses the sender of a new message: candidates from the pool, refusals; `domain.messages.sender_policy` decides."""

from wa_orchestrator.domain.access.permissions import EVERYTHING, Everything, Reach
from wa_orchestrator.domain.messages import sender_policy
from wa_orchestrator.domain.messages.sender_policy import Candidate, Chosen, NoSender, Pin, Why, Wish
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.gateway.senders.sender_pool import Choice, PoolSnapshot, Sender
from wa_orchestrator.store.sessions.labels import labels_of


def choose(pool: PoolSnapshot, send: SendBody, affinity: str | None, reach: Reach = EVERYTHING) -> Choice:
    """Choose the sender by `domain.messages.sender_policy`, among those senders of the pool that could be its answer.

    To a caller with a limited reach, the other sessions do not exist.

    Raises `Refused` when none can send it.
    """
    named = (send.session_id, send.phone)
    is_shared = isinstance(reach, Everything)  # callers that reach everything get the same answers
    known = pool.choices.get(named) if is_shared else None
    if known is not None:
        return known
    wish = Wish(*named)
    candidates = [
        Candidate(sender.session.id, sender.session.phone, sender.readiness, sender.room_today)
        for sender in _candidates(pool, wish, affinity, reach)
    ]
    match sender_policy.choose(wish, candidates, affinity=affinity):
        case Chosen(session_id, why):
            sender = pool.senders[session_id]
            if not sender.session.phone:
                text = f"Session {session_id} has no phone yet. Link it first."
                raise Refused("SESSION_NOT_LINKED", text, 409, sessionId=session_id)
            choice = Choice(sender, why)
            if is_shared and not is_free(send):  # within one snapshot a name has one answer
                pool.choices[named] = choice
            return choice
        case NoSender(why):
            raise refusal(why, send)


def is_free(send: SendBody) -> bool:
    """Whether the client leaves the choice of the sender to the server."""
    return send.session_id is None and send.phone is None


def pin(send: SendBody, reach: Reach = EVERYTHING) -> Pin:
    """Return how far the client has fixed the sender.

    A message of a client that reaches some sessions only stays with its phone: whatever happens to its session, it must
    not leave from the phone of somebody else.
    """
    if send.session_id is not None:
        return Pin.SESSION
    is_fixed = send.phone is not None or not isinstance(reach, Everything)
    return Pin.PHONE if is_fixed else Pin.NOTHING


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


def _candidates(pool: PoolSnapshot, wish: Wish, affinity: str | None, reach: Reach) -> list[Sender]:
    if isinstance(reach, Everything):
        return _possible(pool, wish, affinity)
    is_free = wish.session_id is None and wish.phone is None
    found = pool.senders.values() if is_free else _possible(pool, wish, affinity)
    return [each for each in found if reach.includes(each.session.id, labels_of(each.session))]


def _possible(pool: PoolSnapshot, wish: Wish, affinity: str | None) -> list[Sender]:
    if wish.session_id is not None:
        return [pool.senders[wish.session_id]] if wish.session_id in pool.senders else []
    if wish.phone is not None:
        return pool.by_phone.get(wish.phone, [])
    roomiest = pool.room.top()
    if roomiest is None:  # nobody is ready
        return list(pool.senders.values())
    known = None if affinity is None else pool.senders.get(affinity)
    return [roomiest] if known is None else [roomiest, *pool.by_phone[known.session.phone]]
