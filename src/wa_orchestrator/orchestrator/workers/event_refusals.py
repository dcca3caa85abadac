"""The errors for events of workers that are not handled."""

from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store.events.worker_events import EventAccepted, InProgress, Refusal, Repeated
from wa_orchestrator.store.outcomes import Fenced


def error(refusal: Refusal) -> Refused | Unavailable:
    """Return the error for an event that is not handled; by its code the worker knows whether to send it again."""
    match refusal:
        case Fenced(epoch):
            return tokens.fenced(epoch)
        case InProgress():
            return Unavailable("STILL_WORKING", "This event is being handled right now.", retryAfterS=1)
        case Repeated():
            return Refused("DUPLICATE", "This event was accepted before. Go on with the next one.", 409)


def require_accepted(outcome: EventAccepted | Refusal) -> None:
    """Raise for an event that was not handled."""
    if not isinstance(outcome, EventAccepted):
        raise error(outcome)
