"""Where a message stands that has not left, and when it will."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.domain.message import WAITING, MessageStatus
from wa_orchestrator.domain.pacing import Because, Eta
from wa_orchestrator.gateway.sender_pool import RECENT_S, FleetView, Outlook
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Message


async def waits_for(scripts: Scripts, view: FleetView, message: Message) -> Eta | None:
    """Say what a message waits for; None for one that has left, is being sent, or has ended."""
    if message.status not in WAITING:
        return None
    if message.status == MessageStatus.SCHEDULED:
        return Eta(None, Because.NOTHING)  # it is in the outbox: its worker takes it any moment
    fleet = await view.current(fresh_s=RECENT_S)
    sender = fleet.senders.get(message.session)
    if sender is None:
        return Eta(None, Because.NO_SENDER)
    if await scripts.redis.zscore(keys.set_aside(message.phone), message.id) is not None:
        return Eta(sender.phone.lock_until or None, Because.REACHOUT_LOCKED)
    outlook = await view.outlook(fleet, sender)
    if message.due_at > fleet.now_ms():
        return outlook.forecast.scheduled(message.due_at)
    return outlook.eta(await _ahead(scripts, message) + outlook.has_one_in_flight)


async def _ahead(scripts: Scripts, message: Message) -> int:
    rank: Any = await scripts.redis.zrank(keys.queue(message.phone), message.id)
    if rank is not None:
        return int(rank)
    return int(await scripts.redis.zcard(keys.queue(message.phone)))  # not routed yet: behind all that wait


@dataclass(frozen=True, slots=True)
class Queued:
    """A message in a queue, with its place and its eta."""

    message: Message
    position: int
    eta: Eta


async def queue(scripts: Scripts, phone: str, outlook: Outlook, *, most: int) -> tuple[int, Sequence[Queued]]:
    """What waits for a phone, in order: its queue, then what a reach-out lock holds back. And how many there are."""
    pipe = scripts.redis.pipeline(transaction=False)
    pipe.zrange(keys.queue(phone), 0, most - 1)
    pipe.zcard(keys.queue(phone))
    pipe.zrange(keys.set_aside(phone), 0, most - 1)
    pipe.zcard(keys.set_aside(phone))
    in_order, length, aside, aside_length = await pipe.execute()
    found = []
    for at, message in enumerate(await records.messages(scripts, in_order)):
        found.append(Queued(message, at + 1, outlook.eta(at + outlook.has_one_in_flight)))
    for at, message in enumerate(await records.messages(scripts, aside)):
        found.append(Queued(message, length + at + 1, Eta(None, Because.REACHOUT_LOCKED)))
    return length + aside_length, found
