"""When an answer in a conversation would leave, and what would keep it from leaving."""

from dataclasses import dataclass
from typing import Final

from wa_orchestrator.domain.conversation import ReplyFacts, ReplyObstacle, obstacle
from wa_orchestrator.domain.messages.message import WAITING
from wa_orchestrator.domain.pacing.decision import WaitUntil
from wa_orchestrator.domain.pacing.forecast import Eta, Forecast
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason
from wa_orchestrator.messages import queue_forecast
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.conversations.conversation_records import StoredConversation
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import contacts, phone_queues
from wa_orchestrator.store.records import Message, Session

#: Answers go before everything else.
PRIORITY: Final = 1


@dataclass(frozen=True, slots=True)
class Outlook:
    """The queue of a conversation's phone, as far as it was read."""

    session: Session | None
    forecast: Forecast | None
    now_ms: int
    new_contacts: WaitUntil = queue_forecast.NO_LIMIT


@dataclass(frozen=True, slots=True)
class Prospect:
    """What would happen to an answer."""

    obstacle: ReplyObstacle | None
    eta: Eta
    ahead: int


async def outlook(scripts: Scripts, settings: Settings, session_id: str) -> Outlook:
    session = await records.session(scripts, session_id)
    if session is None or session.removing or not session.phone:
        return Outlook(session if session and not session.removing else None, None, await scripts.now_ms())
    facts = await queue_forecast.facts_of(scripts, session)
    forecast = queue_forecast.forecast_of(settings, session, facts)
    return Outlook(session, forecast, facts.now_ms, facts.phone.new_contacts)


async def prospect(scripts: Scripts, known: StoredConversation, seen: Outlook) -> Prospect:
    phone = seen.session.phone if seen.session else ""
    facts = ReplyFacts(
        opted_out=bool(await contacts.opted_out_among(scripts, [(phone, name) for name in known.names])),
        session_exists=seen.session is not None,
        banned=seen.session is not None and seen.session.banned,
    )
    if seen.session is None or seen.forecast is None:
        return Prospect(obstacle(facts), Eta(None, WaitReason.NO_SENDER), 0)
    ahead = await phone_queues.count_ahead(scripts, seen.session.phone, PRIORITY) + seen.forecast.in_flight
    return Prospect(obstacle(facts), seen.forecast.eta(ahead), ahead)


async def eta_of(scripts: Scripts, message: Message, seen: Outlook) -> Eta | None:
    """Return when a message leaves and what it waits for; None if it does not wait."""
    if message.status not in WAITING:
        return None
    limit = seen.new_contacts
    return await queue_forecast.message_eta(scripts, seen.forecast, message, new_contacts=limit, now_ms=seen.now_ms)
