"""Starting a session that rests. After a ban a person must confirm it: each login of a banned account is a risk."""

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import Event, Reason
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import control_plane


def is_banned(session: Session) -> bool:
    """Whether WhatsApp banned the account and it has not been online since; a stop does not change that."""
    return session.banned or session.reason == Reason.BANNED


def require_confirmation(session: Session, confirm: str | None) -> None:
    """Raise `Refused` if the account is banned and `confirm` does not name that."""
    if is_banned(session) and confirm != Reason.BANNED:
        text = (
            "WhatsApp banned this account. Request a review in the phone's own app first. "
            'To start it all the same, on the same proxy, send {"confirm": "BANNED"}.'
        )
        raise Refused("CONFIRMATION_REQUIRED", text, 409, reason=str(Reason.BANNED))


async def start(context: Context, session_id: str) -> None:
    """Let a stopped or failed session run again, on the proxy it has."""
    await control_plane.forget_restarts(context.scripts, session_id)
    await transitions.apply(context, session_id, Event.START_ASKED, SessionChanges(wanted=transitions.RUNNING))
    await control_plane.request_attention(context.scripts, session_id)
