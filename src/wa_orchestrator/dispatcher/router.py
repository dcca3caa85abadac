"""Moves accepted messages from the gateway's jobs to their phones' queues, and reassigns those whose sender is gone."""

import asyncio

import structlog

from wa_orchestrator.domain.messages import sender_policy
from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.domain.messages.sender_policy import Chosen, NoSender, Pin
from wa_orchestrator.domain.pacing.limits import BURST_MS, MINUTE_MS, is_burst
from wa_orchestrator.domain.sessions.session import WANTS_WORKER
from wa_orchestrator.messages import sender_candidates
from wa_orchestrator.messages.session_pace import day_of, pace_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import contacts, phone_queues, queues
from wa_orchestrator.store.messages.message_keys import Place, counted_in
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.store.sessions import connected_sessions, sessions_of_phones

BATCH = 200

log = structlog.get_logger(__name__)


class Router:
    """Moves accepted messages into their queues. Several routers may read the same job; the script moves it once."""

    def __init__(self, scripts: Scripts, settings: Settings) -> None:
        self._scripts = scripts
        self._settings = settings

    async def step(self) -> int:
        """Route the messages that wait, at most `BATCH`; return how many jobs were read."""
        ids = await queues.jobs(self._scripts, most=BATCH)
        if not ids:
            return 0
        messages: dict[str, Message] = {each.id: each for each in await records.messages(self._scripts, ids)}
        names = sorted({message.session for message in messages.values()})
        sessions: dict[str, Session] = {each.id: each for each in await records.sessions(self._scripts, names)}
        await asyncio.gather(*(self._set_aside(name) for name in ids if name not in messages))
        homeless = await asyncio.gather(*(self._route(each, sessions.get(each.session)) for each in messages.values()))
        for message in filter(None, homeless):  # one by one: the next message to a recipient follows the first
            await self.find_sender(message)
        await self._detect_bursts(messages, sessions)
        return len(ids)

    async def _set_aside(self, job: str) -> None:
        """Set aside a job that is no message: another program's, another version's, or of a message that was erased."""
        if await queues.set_aside_job(self._scripts, job):
            log.error(
                "job.set_aside", message=job if job.startswith("m_") else "", length=len(job), list=keys.STRANGE_JOBS
            )

    async def _route(self, message: Message, session: Session | None) -> Message | None:
        """Move a message to its queue; return it if it needs another sender."""
        is_open = message.status == "queued"  # one that ended while it was a job: the script removes the job
        if is_open and (session is None or not _waits_for(session, message)):
            return message
        return None if await self._enqueue(message, message.session) else message

    async def _enqueue(self, message: Message, session_id: str) -> bool:
        """Move a message to its queue; False if the session was deleted meanwhile."""
        place = Place(message.id, message.phone, session_id)
        routed = await queues.route(
            self._scripts, place, to=message.to, reference=message.reference, batch=message.batch
        )
        return not isinstance(routed, queues.NoSession)

    async def find_sender(self, message: Message) -> bool:
        """Choose the sender of a waiting message again among all sessions; it fails where there is none.

        Return whether the message stays in the queue of its phone.
        """
        sender = await self._choose_again(message)
        if sender is None:
            await self._fail(message)
        elif sender.phone in ("", message.phone):
            return await self._enqueue(message, sender.id) or await self.find_sender(message)
        elif sender.id == message.session:
            await self._follow(message, sender)
        else:
            await self._reroute(message, sender)
        return False

    async def _choose_again(self, message: Message) -> Session | None:
        """Every connected session is read, or all: only what lost its session to a deletion or a failure comes here."""
        connected = await connected_sessions(self._scripts)
        [of_phone] = await sessions_of_phones(self._scripts, [message.phone])
        names = sorted({message.session} | connected | of_phone) if connected else None
        known: dict[str, Session] = {each.id: each for each in await records.sessions(self._scripts, names)}
        candidates = await sender_candidates.read(self._scripts, self._settings, list(known.values()))
        affinity = await contacts.affinity(self._scripts, message.to)
        match sender_policy.choose_again(sender_candidates.assignment_of(message), candidates, affinity=affinity):
            case Chosen(session_id):
                return known[session_id]
            case NoSender():
                return None

    async def _reroute(self, message: Message, other: Session) -> None:
        moved = await queues.reroute(self._scripts, Place.of(message), phone=other.phone, session=other.id)
        if isinstance(moved, queues.Rerouted):
            log.info("message.rerouted", message=message.id, session=other.id, was=message.session)

    async def _fail(self, message: Message) -> None:
        counted = counted_in("", day_of(self._settings, None, await self._scripts.now_ms()))
        reason = Failure.SENDER_LOST if sender_policy.may_have_arrived(message.claimed_at) else Failure.NO_SENDER
        await queues.fail(self._scripts, Place.of(message), reason=reason, counted=counted)
        log.warning("message.no_sender", message=message.id, session=message.session, reason=reason.value)

    async def _follow(self, message: Message, session: Session) -> None:
        """Move a message to the phone that its session has now; it fails if the recipient may already have it."""
        day = day_of(self._settings, session, await self._scripts.now_ms())
        outcome = await queues.follow_session(self._scripts, message, session, day=day)
        log.info("message.followed_session", message=message.id, session=session.id, outcome=type(outcome).__name__)

    async def _detect_bursts(self, messages: dict[str, Message], sessions: dict[str, Session]) -> None:
        # By the time of each phone's newest message: others that wait to be routed may be much younger.
        newest = {each.phone: each for each in sorted(messages.values(), key=lambda each: each.accepted_at)}
        found = [(each, sessions[each.session]) for each in newest.values() if each.session in sessions]
        minute_ms = int(self._settings.scaled(MINUTE_MS))
        counts = await phone_queues.submitted(
            self._scripts, [(last.phone, last.accepted_at - minute_ms) for last, _ in found]
        )
        for (last, session), count in zip(found, counts, strict=True):
            if is_burst(count, pace_of(self._settings, session, last.accepted_at)):
                await self._mark_burst(last.phone, session, count)

    async def _mark_burst(self, phone: str, session: Session, count: int) -> None:
        burst_ms = int(self._settings.scaled(BURST_MS))
        if await queues.mark_burst(self._scripts, phone, session=session.id, submitted=count, burst_ms=burst_ms):
            log.warning("session.burst", session=session.id, phone=phone, burst_ms=burst_ms)


def _waits_for(session: Session, message: Message) -> bool:
    """Whether a message waits for its session: it has the message's phone, and comes back by itself or was named."""
    comes_back = session.status in WANTS_WORKER or message.pinned is Pin.SESSION
    return comes_back and session.phone in ("", message.phone)
