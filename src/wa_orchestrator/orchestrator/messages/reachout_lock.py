"""WhatsApp does not let a phone write to new contacts: a guess after a refusal, until WhatsApp itself says how it is.

The worker asks WhatsApp after a refusal, and its report may overtake the nack. So the guess belongs to the event of the
refusal, which comes before that report; the nack, which has no place among the events, guesses only if it is first.
"""

from wa_orchestrator.context import Context
from wa_orchestrator.domain.worker_events import WorkerEvent
from wa_orchestrator.store import contacts, keys
from wa_orchestrator.store.contacts import Word
from wa_orchestrator.store.records import Message, Session

#: After a 463, new contacts wait this long unless WhatsApp itself says how long: asking takes the worker a moment.
GUESSED_LOCK_MS = 600_000
_HEARD = "refusal_heard"


def word_of(session: Session, event: WorkerEvent) -> Word | None:
    """Give an event's place among the words of its worker; None where the worker did not say."""
    return None if event.sequence is None else Word(event.epoch or session.epoch, event.sequence)


async def refused_by_event(context: Context, session: Session, message: Message, event: WorkerEvent) -> None:
    """Take in the event of a refusal (463)."""
    await context.redis.hset(keys.message(message.id), _HEARD, str(message.attempts))
    await _guess(context, session, word_of(session, event))


async def refused_by_nack(context: Context, session: Session, message: Message) -> None:
    """Take in the nack of a refusal (463), whose event may have been heard before."""
    heard = await context.redis.hget(keys.message(message.id), _HEARD)
    if heard != str(message.attempts):
        await _guess(context, session, None)


async def _guess(context: Context, session: Session, word: Word | None) -> None:
    until_ms = await context.scripts.now_ms() + int(context.settings.scaled(GUESSED_LOCK_MS))
    await contacts.lock(
        context.scripts, session.phone, session=session.id, until_ms=until_ms, source="guessed", word=word
    )
