"""Has a worker do something besides sending: if its session is connected, not on hold and within its limits."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import structlog

from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.messages.session_pace import holds_on
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.leases import Limited, spend_act
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import commands

#: A worker waits this long for WhatsApp's answer, and reconnects before that.
TIMEOUT_S: Final = 45.0
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_UNANSWERED: Final = frozenset({"NO_ANSWER", "NOT_CONNECTED", "FAILED"})
#: What the caller can do something about, by the worker's code.
_REFUSALS: Final = {
    "NOT_SHOWN": (404, "There is no picture, or it is not shown to this account."),
    "UNKNOWN_GROUP": (404, "WhatsApp has no such group."),
    "NO_SUCH_MEMBER": (404, "Nobody in the group has this number."),
    "NO_SUCH_REQUEST": (404, "This person has no open request to join."),
    "UNKNOWN_USERNAME": (422, "Nobody on WhatsApp has this username. Ask the person for it, or write to their phone."),
    "USERNAME_KEY_NEEDED": (
        422,
        "This person gives their username with a key of four digits. Ask them for it, and write @name:1234.",
    ),
    "GROUP_FORBIDDEN": (403, "The account is not in this group, or is not an admin of it."),
}

log = structlog.get_logger(__name__)


class Limit(StrEnum):
    """What acts of a session are counted against; each has a setting."""

    ACTS = "acts"
    LOOKUPS = "lookups"
    GROUPS = "groups"


class ActRunner:
    """Runs acts through the worker of their session."""

    def __init__(self, settings: Settings, scripts: Scripts) -> None:
        self._settings = settings
        self._scripts = scripts

    async def run(self, session: Session, kind: str, **fields: str) -> Mapping[str, Any]:
        """Return the worker's answer; raise `Refused` or `Unavailable` if it did not do it."""
        if session.status is not State.CONNECTED:
            raise not_connected()
        now_ms = await self._scripts.now_ms()
        if holds_on(await records.holds(self._scripts), session, now_ms):
            raise Refused("HELD", "Sending is on hold, and so is everything else that WhatsApp would see.", 409)
        answer = await commands.run(self._scripts, session.id, kind, timeout_s=TIMEOUT_S, **fields)
        code = str(answer.get("code")) if answer and not answer.get("ok") else ""
        if answer is None or code in _UNANSWERED:
            raise Unavailable("ACT_UNANSWERED", "WhatsApp did not answer. Try again: a repeat does no harm.")
        if code in _REFUSALS:
            status, text = _REFUSALS[code]
            raise Refused(code, text, status)
        if code:
            log.warning("act.refused", session=session.id, kind=kind, code=code)
            raise Refused("ACT_REFUSED", "WhatsApp refused it.", 409, reason=code)
        log.info("act.done", session=session.id, kind=kind)
        return answer

    async def spend(self, session_id: str, limit: Limit) -> None:
        """Count an act against a limit of its session; raise `Refused` where it is reached."""
        most, period_ms = self._rate(limit)
        match await spend_act(self._scripts, session_id, limit, gap_ms=period_ms / most, burst=most):
            case Limited(retry_after_ms):
                names = "ACTS_PER_MINUTE, NUMBER_CHECKS_PER_DAY, GROUP_CHANGES_PER_DAY"
                text = f"This session has done that as often as it may for now ({names})."
                raise Refused("ACTS_LIMITED", text, 429, retryAfterMs=retry_after_ms)

    def _rate(self, limit: Limit) -> tuple[int, int]:
        settings = self._settings
        match limit:
            case Limit.ACTS:
                return settings.acts_per_minute, _MINUTE_MS
            case Limit.LOOKUPS:
                return settings.number_checks_per_day, _DAY_MS
            case Limit.GROUPS:
                return settings.group_changes_per_day, _DAY_MS


def not_connected() -> Unavailable:
    return Unavailable("SESSION_NOT_CONNECTED", "No session of this phone is connected. Try again when one is.")
