"""Messages that wait, by session, recipient, reference, batch and time: found and counted."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain.message import MessageStatus
from wa_orchestrator.domain.pacing.backlog import Part, leaving_today
from wa_orchestrator.domain.pacing.hours import day_bounds_ms
from wa_orchestrator.gateway.message_search import Filters
from wa_orchestrator.gateway.sender_pool import PoolSnapshot, Sender
from wa_orchestrator.messages.session_pace import zone_of
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import message_index, open_messages, phone_queues
from wa_orchestrator.store.records import Message

_PAGE: Final = 1_000


async def find(scripts: Scripts, filters: Filters) -> list[Message]:
    """Return all messages that wait and match, the newest first: not routed yet, not due yet, queued, or set aside."""
    candidates = _of_status(scripts, filters) if filters.has_index_of_status else _of_index(scripts, filters)
    found = {each.id: each async for each in candidates if each.status == MessageStatus.QUEUED and filters.match(each)}
    return sorted(found.values(), key=lambda each: (each.accepted_at, each.sequence), reverse=True)


def _of_index(scripts: Scripts, filters: Filters) -> AsyncIterator[Message]:
    return open_messages.unended(scripts, filters.index)


async def _of_status(scripts: Scripts, filters: Filters) -> AsyncIterator[Message]:
    async for message in open_messages.unrouted(scripts):  # first: one that is routed meanwhile is in the index by then
        yield message
    last = None
    while entries := await message_index.page_of_statuses(
        scripts,
        [MessageStatus.QUEUED],
        filters.session or "",
        after=last,
        from_ms=filters.from_ms,
        until_ms=filters.until_ms,
        most=_PAGE,
    ):
        last = entries[-1]
        for message in await records.messages(scripts, [name for name, _ in entries]):
            yield message


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
