"""Messages that wait, by session, recipient, reference, batch and time: found and counted."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.domain.pacing.backlog import Part, leaving_today
from wa_orchestrator.domain.pacing.hours import day_bounds_ms
from wa_orchestrator.gateway.senders.sender_pool import PoolSnapshot, Sender
from wa_orchestrator.messages import message_search
from wa_orchestrator.messages.message_search import MAX_EXAMINED
from wa_orchestrator.messages.session_pace import zone_of
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import phone_queues
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.records import Message


async def find(
    scripts: Scripts, archive: Archive, filters: Filters, *, among: Collection[str] | None = None
) -> list[Message]:
    """Return all messages that wait and match, the newest first: not routed yet, not due yet, queued, or set aside.

    `among` are the sessions that are searched; None for all.
    """
    waiting = replace(filters, statuses=[MessageStatus.QUEUED])
    found = message_search.every(scripts, archive, waiting, among=among, page=MAX_EXAMINED)
    return [message async for message in found]


async def count(context: Context, snapshot: PoolSnapshot, messages: Sequence[Message]) -> dict[Part, int]:
    """Return how many of these leave now, today and later, by the definition of `domain.pacing`."""
    by_phone: dict[str, list[Message]] = defaultdict(list)
    for message in sorted(messages, key=lambda each: each.sequence):
        by_phone[message.phone].append(message)
    counts: Counter[Part] = Counter()
    for phone, waiting in by_phone.items():
        senders = snapshot.by_phone.get(phone)
        if senders:
            counts.update(await _parts(context, senders[0], waiting, snapshot.now_ms()))
        else:  # nobody can send them today
            counts[Part.LATER] += len(waiting)
    return {part: counts[part] for part in Part}


async def _parts(context: Context, sender: Sender, messages: Sequence[Message], now_ms: int) -> list[Part]:
    zone = zone_of(context.settings, sender.session)
    day_ms = day_bounds_ms(now_ms, zone)
    counts = await phone_queues.counts(context.scripts, sender.session.phone, day_ms)
    leaving = leaving_today(sender.pace, zone, counts, now_ms)
    ranks = await phone_queues.ranks(context.scripts, messages)
    return [leaving.part(queue_rank=queued, later_rank=later) for queued, later in ranks]
