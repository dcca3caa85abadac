"""The real scripts on a real Redis against a plain Python model: whatever the order of steps, the invariants hold."""

import asyncio
import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.conftest import HELD_CLOCK, Clock
from tests.store.mutants import mutants
from tests.store.scene import LEASE_MS, PAUSE_MS, Scene
from wa_orchestrator.dispatcher.clock_steps import ClockSteps
from wa_orchestrator.domain.messages.failures import Doubt
from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus, may_become
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.store import keys, proxies, records, sessions
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts, read_sources
from wa_orchestrator.store.messages import contacts, holds, outbox, phone_queues, queues
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.messages.message_keys import Place, locate
from wa_orchestrator.store.outcomes import Fenced
from wa_orchestrator.store.sessions import slots
from wa_orchestrator.timestamps import FOREVER_MS

#: Whoever is written to, by the name that a message has: one person has two.
PERSONS = {"97251": "one", "lid:510": "one", "97252": "two"}
NAMES = sorted(PERSONS)
PHONES = {"w1": "972500000001", "w2": "972500000001", "w3": "972500000002"}
PROXIES = ("p1", "p2", "p3")
SLOTS = 2
PER_MINUTE = 2
PER_DAY = 4
DAY_MS = 3_600_000
"""A short day, so that a run of fifty steps meets its end."""
MINUTE_MS = 60_000
LONGEST_WAIT_MS = {"PAUSE": 30_000, "MINUTE_IS_FULL": MINUTE_MS, "DAY_IS_FULL": DAY_MS, "OUTSIDE_HOURS": DAY_MS}
"""The longest backoff of `nack`, which is longer than any pause here; the minute; the day."""

T = TypeVar("T")


@dataclass
class Worker:
    """A worker as the outside sees it: its epoch, and what it believes to hold."""

    session: str
    epoch: int
    holds: str = ""


@dataclass
class Arrival:
    """What WhatsApp saw: when by true time, and on which day of Redis' clock."""

    at_ms: int
    day: int
    phone: str
    to: str
    message: str
    whatsapp_id: str


@dataclass
class Model:
    """What must be true, kept in plain Python beside Redis."""

    accepted: list[str] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    epoch: dict[str, int] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    pause_ms: dict[str, int] = field(default_factory=dict)
    priority: dict[str, int] = field(default_factory=dict)


class TrueTime(ClockSteps):
    """What a dispatcher knows of the clock's steps."""

    def __init__(self, model: "Messages") -> None:
        super().__init__()
        self._model = model

    def monotonic_s(self) -> float:
        return self._model.true_ms / 1000


class Believing(TrueTime):
    """A dispatcher that takes every clock for true."""

    def observe(self, now_ms: int) -> bool:
        return False


class Messages(RuleBasedStateMachine):
    """Accept, route, release, claim, write, ack, nack, refuse, expire, new epoch, cancel, hold, opt out, fail over, limit
    new contacts, hear from them: in any order, while Redis' clock is set and acts are cut off between two steps.

    To a script a clock that is set forward is time which passes. Only a clock that nobody sets can tell the two apart: a
    dispatcher has one, and so has the model's.
    """

    url: ClassVar[str]
    sources: ClassVar[dict[str, str]]
    clock_steps_of: ClassVar[type[TrueTime]]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.workers: list[Worker] = []
        self.runs_on: dict[str, str] = {}
        self.held: set[str] = set()
        self.opted_out: set[str] = set()
        #: Of which phone who is no new contact, and of those whose messages must not be set aside any more.
        self.known: set[tuple[str, str]] = set()
        self.answered: set[tuple[str, str]] = set()
        #: Messages that WhatsApp may have: written, and not refused.
        self.may_have: set[str] = set()
        self.heard = 0
        self.true_ms = 0
        self.clock_steps = self.clock_steps_of(self)
        self.was_set_back = False

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one call."""
        return self.loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        """Three sessions of two phones, on three proxies with two slots each."""
        self.do(self._begin())

    async def _begin(self) -> None:
        self.redis = LineClient.from_url(self.url, decode_responses=True)
        await self.redis.flushall()
        self.clock = Clock(self.redis)
        await self.clock.set(self.clock.now_ms // DAY_MS * DAY_MS)
        self.true_ms = self.clock.now_ms
        self.clock_steps.observe(self.clock.now_ms)
        self.scene = Scene(Scripts(self.redis, clock=HELD_CLOCK, sources=self.sources), self.clock)
        for proxy in PROXIES:
            await self.scene.proxy(proxy)
        for session, phone in PHONES.items():
            await self.scene.connected(session, phone, "p1" if phone.endswith("1") else "p2")
            self.model.epoch[session] = 1
            self.runs_on[session] = "p1" if phone.endswith("1") else "p2"
            self.workers.append(Worker(session, 1))
        await contacts.set_names(self.scene.scripts, "97251", "510")

    def teardown(self) -> None:
        """Check every status that each message has had, and close what was opened."""
        if hasattr(self, "redis"):
            self.do(self._timelines_are_legal())
            self.do(self.redis.aclose())
        self.loop.close()

    async def _timelines_are_legal(self) -> None:
        for message in self.model.accepted:
            statuses = [MessageStatus(status) for _, status, _ in await records.timeline(self.scene.scripts, message)]
            for before, after in itertools.pairwise(statuses):
                assert before is after or may_become(before, after)

    # -- steps ----------------------------------------------------------------------------------------------------

    @rule(session=st.sampled_from(sorted(PHONES)), to=st.sampled_from(NAMES), priority=st.integers(1, 3))
    def accept_and_route(self, session: str, to: str, priority: int) -> None:
        """A client's message reaches its queue."""
        if to in self.opted_out:
            return
        phone = PHONES[session]
        message = self.do(self.scene.accept(to, session=session, phone=phone, priority=priority))
        self.model.accepted.append(message)
        self.model.priority[message] = priority
        assert self.do(self.scene.route(message)) == queues.Queued()
        assert self.do(self.scene.route(message)) == queues.Gone()

    async def _is_silent(self, phone: str) -> bool:
        """Whether a dispatcher knows that the phone's pause goes on: the clock has jumped over its end."""
        _, (queue,) = await phone_queues.heads(self.scene.scripts, [phone])
        end_ms = queue.pace.silence_end(self.clock.now_ms)
        return self.clock_steps.true_end(end_ms - queue.pace.silence_ms, end_ms) > self.clock.now_ms

    @rule(session=st.sampled_from(sorted(PHONES)), pause_ms=st.integers(PAUSE_MS, 3 * PAUSE_MS))
    def release(self, session: str, pause_ms: int) -> None:
        """A dispatcher tries to release the first message of a phone through one of its sessions."""
        phone = PHONES[session]
        _, (queue,) = self.do(phone_queues.heads(self.scene.scripts, [phone]))
        limited_until_ms = queue.pace.new_contacts.at_ms
        if queue.set_aside and limited_until_ms <= self.clock.now_ms:
            assert self.do(queues.restore_set_aside(self.scene.scripts, phone))
        elif queue.first:
            self.do(self._release(queue.first, session, pause_ms))
        elif queue.set_aside and not queue.pace.in_flight:
            self.do(self.redis.zadd(keys.DUE, {phone: limited_until_ms}))

    async def _release(self, message: str, session: str, pause_ms: int) -> None:
        day = self.clock.now_ms // DAY_MS * DAY_MS
        place = Place(message, PHONES[session], session)
        self.scene.places[message] = place
        bounds = (day, day + DAY_MS, day, day + DAY_MS)
        if await self._is_silent(PHONES[session]):
            return
        jumped_ms = self.clock_steps.jumped_ms(self.clock.now_ms, MINUTE_MS)
        held_by = ("all", f"session:{session}")
        permit = queues.Permit(pause_ms, PER_MINUTE, PER_DAY, *bounds, LEASE_MS, MINUTE_MS + jumped_ms, held_by)
        name = await contacts.other_name(self.scene.scripts, self.scene.recipients[message])
        outcome = await queues.release(self.scene.scripts, place, permit, other_name=name)
        if isinstance(outcome, queues.Wait) and jumped_ms:
            outcome = replace(outcome, until_ms=min(outcome.until_ms, self.clock.now_ms + MINUTE_MS))
        next_ms: int | None = self.clock.now_ms
        match outcome:
            case queues.Released():
                self.model.pause_ms[message] = pause_ms
                next_ms = None
            case queues.Wait(until_ms, because):
                assert until_ms - self.clock.now_ms <= LONGEST_WAIT_MS[because], "I22: silent for longer than any limit"
                next_ms = until_ms
            case queues.Held() | queues.Busy():
                next_ms = None
            case queues.MustEnd():
                recorded = await locate(self.scene.scripts, message)
                assert recorded is not None
                await queues.cancel(self.scene.scripts, recorded, reason="OPTED_OUT")
                await self._note_cancelled(message)
        if next_ms is None:
            await self.redis.zrem(keys.DUE, place.phone)
        else:
            await self.redis.zadd(keys.DUE, {place.phone: next_ms})

    @rule(index=st.integers(0, 50))
    def claim(self, index: int) -> None:
        """A worker, perhaps one of long ago, asks for work."""
        worker = self.workers[index % len(self.workers)]
        if worker.holds:
            return
        outcome = self.do(self.scene.claim(worker.epoch, worker.session, PHONES[worker.session]))
        if worker.epoch < self.model.epoch[worker.session]:
            assert isinstance(outcome, Fenced), "I10: an older epoch claimed"
        elif isinstance(outcome, tuple):
            worker.holds = outcome[0].message

    @rule(index=st.integers(0, 50))
    def write(self, index: int) -> None:
        """A worker, perhaps one that was frozen for long, asks once more and lets its message arrive at WhatsApp."""
        worker = self.workers[index % len(self.workers)]
        if worker.holds:
            self.do(self._write(worker, worker.holds))

    async def _write(self, worker: Worker, message: str) -> None:
        to, phone = self.scene.recipients[message], PHONES[worker.session]
        self.scene.places[message] = Place(message, phone, worker.session)
        fields = ("all", f"session:{worker.session}")
        name = await contacts.other_name(self.scene.scripts, to)
        outcome = await self.scene.confirm_write(message, worker.epoch, worker.session, holds=fields, other_name=name)
        if not isinstance(outcome, outbox.Renewed):
            worker.holds = ""
            if isinstance(outcome, outbox.WriteRefused) and outcome.reason == "OPTED_OUT":
                await self._note_cancelled(message)
            return
        assert worker.epoch == self.model.epoch[worker.session], "I10: an older epoch wrote"
        assert not {PERSONS[each] for each in self.opted_out} & {PERSONS[to]}, "I18: written to somebody who opted out"
        pace = await records.phone_pace(self.scene.scripts, phone, since_ms=self.clock.now_ms)
        is_limited = pace.new_contacts.at_ms > self.clock.now_ms
        assert not is_limited or (phone, PERSONS[to]) in self.known, "written to a new contact during a limit on those"
        assert not self.held & set(fields), "I18: written during a hold"
        whatsapp_id = str(await self.redis.hget(keys.message(message), "whatsapp_id"))
        day = self.clock.now_ms // DAY_MS
        self.model.arrivals.append(Arrival(self.true_ms, day, phone, to, message, whatsapp_id))
        self.may_have.add(message)

    async def _note_cancelled(self, message: str) -> None:
        status = await self.scene.status(message)
        assert status in ("cancelled", "unknown")
        assert status == "unknown" or message not in self.may_have, "I29: cancelled although WhatsApp may have it"
        self.model.ended[message] = status

    @rule(session=st.sampled_from(sorted(PHONES)), to=st.sampled_from(NAMES), ms=st.integers(0, 2 * PAUSE_MS))
    def hurry(self, session: str, to: str, ms: int) -> None:
        """The usual way at once: one more message, some time, and the phone's next message as far as it may go."""
        self.accept_and_route(session, to, 2)
        self.time_passes(ms)
        self.release(session, PAUSE_MS)
        current = max(n for n, worker in enumerate(self.workers) if worker.session == session)
        self.claim(current)
        self.write(current)

    @rule(index=st.integers(0, 50), status=st.sampled_from(["sent", "delivered", "read"]))
    def ack(self, index: int, status: str) -> None:
        """Somebody, of whatever epoch, says that WhatsApp has a message that did arrive."""
        worker = self.workers[index % len(self.workers)]
        if any(arrival.message == worker.holds for arrival in self.model.arrivals):
            outcome = self.do(self.scene.ack(worker.holds, status))
            assert isinstance(outcome, outbox.Became | outbox.Already)
            self.model.ended[worker.holds] = "sent"
            if status != "sent":
                self.known.add((PHONES[worker.session], PERSONS[self.scene.recipients[worker.holds]]))
            worker.holds = ""

    @rule(index=st.integers(0, 50), backoff_ms=st.one_of(st.none(), st.integers(0, 30_000)))
    def nack(self, index: int, backoff_ms: int | None) -> None:
        """A worker says that it could not send."""
        worker = self.workers[index % len(self.workers)]
        if not worker.holds:
            return
        message, worker.holds = worker.holds, ""
        attempts = int(self.do(self.redis.hget(keys.message(message), "attempts")) or 0)
        self.scene.places[message] = Place(message, PHONES[worker.session], worker.session)
        doubt = Doubt.RAISED if message in self.may_have else Doubt.KEPT
        nacked = self.scene.nack(message, worker.epoch, backoff_ms, attempts, session=worker.session, doubt=doubt)
        outcome = self.do(nacked)
        if worker.epoch < self.model.epoch[worker.session]:
            assert isinstance(outcome, Fenced), "I10: an older epoch nacked"
        elif isinstance(outcome, outbox.Became) and outcome.status != "queued":
            self.model.ended[message] = outcome.status

    @rule(index=st.integers(0, 50))
    def refuse(self, index: int) -> None:
        """WhatsApp lets the phone write to no more new contacts, and takes this message for one to such."""
        worker = self.workers[index % len(self.workers)]
        if not worker.holds:
            return
        message, worker.holds, phone = worker.holds, "", PHONES[worker.session]
        if worker.epoch == self.model.epoch[worker.session]:
            self.limit(phone, "cap", MINUTE_MS)
        self.do(self._refuse(worker, message, Place(message, phone, worker.session)))

    async def _refuse(self, worker: Worker, message: str, place: Place) -> None:
        self.scene.places[message] = place
        attempts = int(await self.redis.hget(keys.message(message), "attempts") or 0)
        verdict = outbox.FailureVerdict(attempts, "NEW_CHAT_CAP", 0, place="aside")
        outcome = await outbox.nack(self.scene.scripts, place, epoch=worker.epoch, verdict=verdict, day="20250615")
        if isinstance(outcome, outbox.Became):
            who = (place.phone, PERSONS[self.scene.recipients[message]])
            self.known.discard(who)
            self.answered.discard(who)
            self.may_have.discard(message)

    @rule(
        phone=st.sampled_from(sorted(set(PHONES.values()))),
        which=st.sampled_from(["lock", "cap"]),
        ms=st.sampled_from([0, PAUSE_MS, MINUTE_MS, DAY_MS]),
    )
    def limit(self, phone: str, which: contacts.NewContactLimit, ms: int) -> None:
        """WhatsApp limits whom a phone may write to, or lifts that."""
        until_ms = self.clock.now_ms + ms if ms else 0
        self.do(contacts.limit(self.scene.scripts, phone, which, session="w1", until_ms=until_ms, source="reported"))

    @rule(session=st.sampled_from(sorted(PHONES)), name=st.sampled_from(NAMES), is_cut_off=st.booleans())
    def person_writes(self, session: str, name: str, is_cut_off: bool) -> None:
        """A person writes to a phone of ours; the server dies before it has done all that follows."""
        self.heard += 1
        phone, lid = PHONES[session], name.removeprefix("lid:")
        both = (name, "510" if name == "97251" else "") if lid == name else ("", lid)
        said = contacts.Incoming(session, phone, f"3EB0AA{self.heard}", "text", *both)
        outcome = self.do(contacts.receive(self.scene.scripts, said, keep_ms=DAY_MS))
        assert isinstance(outcome, contacts.Received | contacts.ReceivedCopy)
        self.known.add((phone, PERSONS[name]))
        if outcome.rest and is_cut_off:
            return
        if outcome.rest:
            self.do(contacts.reopen(self.scene.scripts, phone, name, by="writing"))
        self.answered.add((phone, PERSONS[name]))

    @rule()
    def expire_leases(self) -> None:
        """The server takes back what nobody has finished in time."""
        self.do(outbox.shorten_leases(self.scene.scripts, longest_ms=LEASE_MS))
        assert not self.do(self.redis.zcount(keys.LEASES, self.clock.now_ms + LEASE_MS + 1, "+inf"))
        for message in self.do(self.redis.zrange(keys.LEASES, 0, -1)):
            outcome = self.do(self.scene.reclaim(message, most_crashes=1000))
            assert isinstance(outcome, outbox.Became | outbox.Alive)

    @rule(session=st.sampled_from(sorted(PHONES)), ghost=st.booleans())
    def new_epoch(self, session: str, ghost: bool) -> None:
        """A new worker is started; the old one is dead, or lives on as a ghost that still calls."""
        phone = PHONES[session]
        self.model.epoch[session] += 1
        assert self.do(self.scene.register(session, phone)) == sessions.Registered(self.model.epoch[session])
        if not ghost:
            self.workers = [worker for worker in self.workers if worker.session != session]
        self.workers.append(Worker(session, self.model.epoch[session]))

    @precondition(lambda self: self.model.accepted)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """A client changes its mind."""
        message = data.draw(st.sampled_from(self.model.accepted))
        before = self.do(self.scene.status(message))
        place = self.do(locate(self.scene.scripts, message))
        assert place is not None
        outcome = self.do(queues.cancel(self.scene.scripts, place))
        assert isinstance(outcome, queues.Ended) == (before in ("queued", "scheduled"))
        if isinstance(outcome, queues.Ended):
            self.do(self._note_cancelled(message))

    @rule(ms=st.sampled_from([1, 400, PAUSE_MS, 2 * PAUSE_MS, 20_000, LEASE_MS, DAY_MS // 3]))
    def time_passes(self, ms: int) -> None:
        """Time passes."""
        self.true_ms += ms
        self.do(self.clock.pass_ms(ms))

    @rule(ms=st.sampled_from([-1_000, -10 * MINUTE_MS, -DAY_MS, 10 * MINUTE_MS, DAY_MS]))
    def clock_is_set(self, ms: int) -> None:
        """The clock of Redis' machine is corrected."""
        self.was_set_back = self.was_set_back or ms < 0
        self.do(self.clock.pass_ms(ms))
        self.clock_steps.observe(self.clock.now_ms)

    @rule(field=st.sampled_from(["all", *(f"session:{each}" for each in sorted(PHONES))]), is_placed=st.booleans())
    def hold_or_lift(self, field: str, is_placed: bool) -> None:
        """An operator pauses everything or a session, or lets it go on."""
        phones = [phone for session, phone in PHONES.items() if field in ("all", f"session:{session}")]
        if is_placed:
            self.held.add(field)
            self.do(holds.put(self.scene.scripts, Hold(field, FOREVER_MS, "lunch", "me"), phones=phones))
        else:
            self.held.discard(field)
            self.do(holds.lift(self.scene.scripts, field, by="me", phones=phones))

    @rule(to=st.sampled_from(["97251", "97252"]), steps=st.integers(0, 3))
    def opt_out(self, to: str, steps: int) -> None:
        """Somebody opts out; the server dies after it has cancelled some of what waits for them."""
        self.opted_out.add(to)
        self.do(contacts.opt_out(self.scene.scripts, to, word="stop", via="test"))
        self._cancel_some([each for each in self.model.accepted if self.scene.recipients[each] == to], steps)

    @rule(to=st.sampled_from(NAMES))
    def opt_in(self, to: str) -> None:
        """They want messages again, under whichever name."""
        self.opted_out -= {name for name in NAMES if PERSONS[name] == PERSONS[to]}
        self.do(contacts.opt_in(self.scene.scripts, to))

    @rule(session=st.sampled_from(sorted(PHONES)), steps=st.integers(1, 3))
    def empty_queue(self, session: str, steps: int) -> None:
        """An operator empties a queue; the server dies after some of it."""
        self._cancel_some(self.do(self.redis.zrange(keys.queue(PHONES[session]), 0, -1)), steps)

    def _cancel_some(self, messages: list[str], steps: int) -> None:
        for message in messages[:steps]:
            place = self.do(locate(self.scene.scripts, message))
            assert place is not None
            if isinstance(self.do(queues.cancel(self.scene.scripts, place)), queues.Ended):
                self.do(self._note_cancelled(message))

    @rule(session=st.sampled_from(sorted(PHONES)), bad=st.sampled_from(PROXIES), is_cut_off=st.booleans())
    def fail_over(self, session: str, bad: str, is_cut_off: bool) -> None:
        """A proxy is declared bad (or good again), and a session leaves wherever it sits, unless the server dies first."""
        self.do(self._fail_over(session, bad, is_cut_off=is_cut_off))

    async def _fail_over(self, session: str, bad: str, *, is_cut_off: bool) -> None:
        proxy = await records.proxy(self.scene.scripts, bad)
        assert proxy
        status = "OK" if proxy.status == "BAD" else "BAD"
        await proxies.mark(self.scene.scripts, bad, version=proxy.version, status=status, reason="CHECK", fields={})
        if is_cut_off:
            return
        current = str(await self.redis.hget(keys.session(session), "proxy") or "")
        others = [name for name in PROXIES if name != current]
        flight = slots.Move(session, current, PHONES[session], ProxyReason.PROXY_FAILED, others)
        moved = await slots.move(self.scene.scripts, flight, per_proxy=SLOTS)
        if isinstance(moved, slots.Moved):
            assert await self.redis.get(keys.sticky(PHONES[session])) == moved.proxy
            chosen = await records.proxy(self.scene.scripts, moved.proxy)
            assert chosen
            assert chosen.status == "OK"

    @rule(session=st.sampled_from(sorted(PHONES)))
    def replace_worker(self, session: str) -> None:
        """The old worker has ended; a new one starts where the session belongs now, if it has a place."""
        self.do(self._replace_worker(session))

    async def _replace_worker(self, session: str) -> None:
        home = str(await self.redis.hget(keys.session(session), "proxy") or "")
        if home:
            await slots.release(self.scene.scripts, session)
            self.runs_on[session] = home

    # -- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def no_proxy_has_more_sessions_than_slots(self) -> None:
        """I8. A session keeps a second slot only where its old worker may still run."""
        if not hasattr(self, "scene"):
            return
        pool = self.do(records.proxies(self.scene.scripts))
        assert all(len(proxy.sessions) <= SLOTS for proxy in pool)
        for session in self.do(records.sessions(self.scene.scripts)):
            held = {proxy.id for proxy in pool if session.id in proxy.sessions}
            assert held == {session.proxy, session.leaving} - {""}
            assert self.runs_on[session.id] in held, "I25: a slot was freed while its worker runs"

    @invariant()
    def every_accepted_message_has_one_status_and_stands_in_one_place(self) -> None:
        """I12: the counts agree with the records, and what waits waits exactly once."""
        if hasattr(self, "scene"):
            self.do(self._counts_agree())

    async def _counts_agree(self) -> None:
        phones = sorted(set(PHONES.values()))
        pipe = self.redis.pipeline(transaction=False)
        pipe.hgetall(keys.COUNTS)
        pipe.zcard(keys.LEASES)
        for place in (keys.queue, keys.set_aside):
            for phone in phones:
                pipe.zcard(place(phone))
        for session in PHONES:
            pipe.llen(keys.outbox(session))
        for message in self.model.accepted:
            pipe.hget(keys.message(message), "status")
        counts, leased, *rest = await pipe.execute()
        places = 2 * len(phones)
        waiting, released = sum(rest[:places]), sum(rest[places : places + len(PHONES)])
        statuses = rest[places + len(PHONES) :]
        assert int(counts.pop("accepted", 0)) == len(self.model.accepted) == sum(map(int, counts.values()))
        assert {name: int(n) for name, n in counts.items() if int(n)} == Counter(statuses)
        assert waiting == statuses.count("queued")
        assert released == statuses.count("scheduled")
        assert leased == statuses.count("scheduled") + statuses.count("sending")
        for message, status in zip(self.model.accepted, statuses, strict=True):
            ended = self.model.ended.get(message, status)
            # What was sent is never anything less again; what had ended otherwise may only turn out to have been sent.
            assert status in SUCCEEDED or (ended not in SUCCEEDED and status == ended)

    @invariant()
    def no_phone_sleeps_while_messages_wait_and_nothing_holds_it(self) -> None:
        """I21: it is due at some time, or in flight, or somebody holds it, whose lifting wakes it."""
        if not hasattr(self, "scene") or "all" in self.held:
            return
        free = sorted({phone for session, phone in PHONES.items() if f"session:{session}" not in self.held})
        held = {phone for session, phone in PHONES.items() if f"session:{session}" in self.held}
        asleep = self.do(phone_queues.asleep(self.scene.scripts, [phone for phone in free if phone not in held]))
        assert asleep == []

    @invariant()
    def nothing_is_kept_back_from_whoever_wrote(self) -> None:
        """What was set aside for a person returns when that person writes, and what follows is not set aside."""
        if hasattr(self, "scene"):
            for phone in sorted(set(PHONES.values())):
                aside: Any = self.do(self.redis.zrange(keys.set_aside(phone), 0, -1))
                kept = {(phone, PERSONS[self.scene.recipients[each]]) for each in aside}
                assert not kept & self.answered

    @invariant()
    def one_message_has_one_whatsapp_id(self) -> None:
        """I2."""
        names = defaultdict(set)
        for arrival in self.model.arrivals:
            names[arrival.message].add(arrival.whatsapp_id)
        assert all(len(found) == 1 for found in names.values())

    @invariant()
    def recipients_read_in_the_order_of_acceptance(self) -> None:
        """I5, within a priority."""
        order = {message: n for n, message in enumerate(self.model.accepted)}
        first: dict[tuple[str, str, int], list[int]] = defaultdict(list)
        seen: set[str] = set()
        for arrival in self.model.arrivals:
            if arrival.message not in seen:
                seen.add(arrival.message)
                lane = (arrival.phone, PERSONS[arrival.to], self.model.priority[arrival.message])
                first[lane].append(order[arrival.message])
        assert all(lane == sorted(lane) for lane in first.values())

    @invariant()
    def the_pace_is_kept_as_whatsapp_sees_it(self) -> None:
        """I6: pauses between different messages, and the limits of every minute and every day."""
        by_phone: dict[str, list[Arrival]] = defaultdict(list)
        for arrival in self.model.arrivals:
            lane = by_phone[arrival.phone]
            if lane and lane[-1].message == arrival.message:
                lane.pop()  # one worker saying it again under one lease: WhatsApp shows it once
            lane.append(arrival)
        for lane in by_phone.values():
            for before, after in itertools.pairwise(lane):
                assert after.at_ms - before.at_ms >= PAUSE_MS
            times = [arrival.at_ms for arrival in lane]
            assert all(times[n + PER_MINUTE] - times[n] >= MINUTE_MS for n in range(len(times) - PER_MINUTE))
            if not self.was_set_back:  # a day that comes twice has two limits
                days = [arrival.day for arrival in lane]
                assert all(days.count(day) <= PER_DAY for day in days)


#: MODEL_EXAMPLES=2500 is the long form; `--hypothesis-seed=n` repeats one.
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "200"))
RUN = settings(max_examples=EXAMPLES, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))
#: Each of these guards keeps an invariant that the model knows; without it the model must turn red by itself.
#: The steps among which each fault is searched: with few the search is short.
WAY = ("accept_and_route", "release", "claim", "write")
FOUND_BY = {
    "one_in_flight": ("hurry", *WAY, "new_epoch", "ack"),
    "claim_epoch": (*WAY, "new_epoch"),
    "not_claimed": (*WAY, "expire_leases", "time_passes", "cancel"),
    "slot": ("fail_over", "replace_worker"),
    "pause": ("hurry", *WAY, "ack", "clock_is_set"),
    "silence_length": ("hurry", *WAY, "ack", "clock_is_set"),
    "write_hold": (*WAY, "hold_or_lift"),
    "write_opt_out": (*WAY, "opt_out"),
    "unsent_in_doubt": (*WAY, "new_epoch", "cancel"),
}


@pytest.mark.slow
def test_no_order_of_steps_breaks_an_invariant(redis_url: str) -> None:
    Messages.url, Messages.sources, Messages.clock_steps_of = redis_url, read_sources(), TrueTime
    run_state_machine_as_test(Messages, settings=RUN)


@pytest.mark.parametrize("guard", FOUND_BY)
def test_the_model_turns_red_without_the_guard(guard: str, redis_url: str) -> None:
    Messages.url, Messages.clock_steps_of = redis_url, TrueTime
    Messages.sources = next(mutant for mutant in mutants() if mutant.guard == guard).sources()
    assert_red(FOUND_BY[guard])


def test_the_model_turns_red_with_a_dispatcher_that_does_not_notice_steps_of_the_clock(redis_url: str) -> None:
    Messages.url, Messages.sources, Messages.clock_steps_of = redis_url, read_sources(), Believing
    assert_red(("hurry", "ack", "clock_is_set"))


def assert_red(steps: tuple[str, ...]) -> None:
    """Search among some steps until an invariant is broken."""
    search = settings(RUN, max_examples=10_000, phases=[Phase.generate], database=None, derandomize=True)
    plain = {
        rule.function.__name__: rule.function for rule in Messages.setup_state().rules
    }  # without its mark none is a step
    few = type("FewSteps", (Messages,), {name: step for name, step in plain.items() if name not in steps})
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(few, settings=search)
