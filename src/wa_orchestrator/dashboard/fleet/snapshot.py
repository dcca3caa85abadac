"""Sessions and proxies as the pages show them: immutable values of one moment."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from wa_orchestrator.dashboard.html.locale import spelled_phone
from wa_orchestrator.domain.access.permissions import Everything, Reach
from wa_orchestrator.domain.pacing.backlog import Backlog
from wa_orchestrator.domain.pacing.limits import Pace, Trust
from wa_orchestrator.domain.pacing.tag_limits import Origin, PaceLimit
from wa_orchestrator.domain.sessions.session import WANTS_WORKER, Reason, State
from wa_orchestrator.orchestrator.sessions import session_start
from wa_orchestrator.store.events.lasting_troubles import Trouble
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.records import Proxy, Session
from wa_orchestrator.store.sessions.labels import labels_of

#: The order of states in tables: those that need a person first.
_ORDER: Final = (State.FAILED, State.DISCONNECTED, State.QR_READY, State.PENDING, State.CONNECTED, State.STOPPED)
#: A slot of a proxy in which there is a session that the person does not see.
IN_USE: Final = "in use"
_NUMBER_OR_CHARACTER: Final = re.compile(r"([0-9]+)|([^0-9])")


@dataclass(frozen=True, slots=True)
class Row:
    """One session as a row of the table."""

    session: Session
    trust: Trust
    pace: Pace
    sent_today: int
    sent_minute: int
    waiting: Backlog
    hold: Hold | None
    burst_until: int
    lock_until: int
    cap_until: int
    slowdowns: int
    stats: Mapping[str, int]
    origins: Mapping[PaceLimit, Origin]
    """Where each of its limits comes from."""

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def own_limits(self) -> bool:
        """Whether one of its limits is not the preset's."""
        return any(origin.kind != "preset" for origin in self.origins.values())

    @property
    def needs_confirmation(self) -> bool:
        return session_start.is_banned(self.session)

    @property
    def name(self) -> str:
        return self.session.label or self.session.id

    @property
    def full_name(self) -> str:
        """Its name and, kept left to right in any language, its phone; its id where it has none."""
        if self.name == self.id:
            return self.id
        detail = spelled_phone(self.session.phone) if self.session.phone else self.id
        return f"{self.name} · \N{LEFT-TO-RIGHT ISOLATE}{detail}\N{POP DIRECTIONAL ISOLATE}"

    @property
    def state(self) -> State:
        return self.session.status

    @property
    def is_unlinked(self) -> bool:
        """Whether its phone removed the device, and it is not linked again yet."""
        reason = self.session.reason
        failed = self.state is State.FAILED and reason is not Reason.QR_EXPIRED  # for a worse reason
        return bool(self.session.unlinked_at) and self.state is not State.STOPPED and not failed

    @property
    def is_slowed_down(self) -> bool:
        """Whether WhatsApp asked its phone to send less, and messages wait; only a sent one shows that it is over."""
        return bool(self.slowdowns and self.queued)

    @property
    def ban_ends_at(self) -> int:
        """When WhatsApp's suspension ends; 0 if there is none, or no end was given."""
        return self.session.ban_ends_at if self.session.reason is Reason.TEMPORARY_BAN else 0

    @property
    def has_worker(self) -> bool:
        """Whether a worker should be running for it; none does while it waits for a slot."""
        return self.state in WANTS_WORKER and not self.waits_for_slot

    @property
    def waits_for_slot(self) -> bool:
        """Whether it can start, or show a code, only when a proxy slot is free."""
        return self.session.reason is Reason.WAITING_FOR_PROXY

    @property
    def queued(self) -> int:
        """How many messages wait for its phone: now, today and later."""
        return self.waiting.total

    @property
    def for_today(self) -> int:
        return self.waiting.now + self.waiting.today

    @property
    def offline_since(self) -> int:
        """Since when a linked session should be connected and is not; 0 if it is, or waits for a person."""
        trying = self.state is State.DISCONNECTED or (self.state is State.PENDING and bool(self.session.phone))
        waits = self.session.reason in (Reason.WAITING_FOR_PROXY, Reason.LOGGED_OUT)
        return (self.session.lost_at or self.session.changed_at) if trying and not waits else 0

    @property
    def days_queued(self) -> int:
        """How many days after today its queue needs at its daily limit."""
        return self.waiting.days_after_today(self.pace)

    @property
    def left_today(self) -> int:
        return max(0, self.pace.per_day - self.sent_today)

    @property
    def budget(self) -> str:
        """The state of its budget: held, full, warn or ok."""
        if self.hold is not None:
            return "held"
        if self.sent_today >= self.pace.per_day:
            return "full"
        return "warn" if self.sent_today >= 0.8 * self.pace.per_day else "ok"

    @property
    def share_sent(self) -> int:
        """How much of today's budget is used, in percent."""
        return min(100, round(self.sent_today / self.pace.per_day * 100))

    @property
    def fits_today(self) -> int:
        """How many messages of its queue leave today; none while it cannot send."""
        return self.for_today if self.state is State.CONNECTED and self.hold is None else 0

    @property
    def share_queued(self) -> int:
        """How much of today's budget the queue will use, in percent."""
        return min(100 - self.share_sent, round(self.fits_today / self.pace.per_day * 100))

    def matches(self, text: str, proxy_name: str = "") -> bool:
        """Whether a search finds it: by name, id, phone, proxy or tag."""
        wanted = text.strip().lower()
        digits = "".join(each for each in wanted if each.isdigit())
        place = f"{self.session.proxy} {proxy_name}"
        hay = f"{self.name} {self.id} {self.session.phone} {place} {' '.join(self.session.tags)}".lower()
        return wanted in hay or (len(digits) > 3 and digits in self.session.phone)


@dataclass(frozen=True, slots=True)
class FailedMessages:
    """How many messages failed lately or were never confirmed, and since when they are counted."""

    failed: int = 0
    unknown: int = 0
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the pages show of sessions and proxies, at one moment."""

    now_ms: int
    rows: Mapping[str, Row]
    proxies: Sequence[Proxy]
    holds: Mapping[str, Hold]
    waiting_for_slot: frozenset[str]
    slots_per_proxy: int
    counts: Counter[State] = field(default_factory=Counter)
    namesakes: frozenset[str] = frozenset()
    """The names that several sessions have."""
    left: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The ids of sessions that were moved away from a bad proxy, by its id."""
    direct: bool = False
    """Sessions may connect without a proxy; every page warns about it."""
    webhook_hosts: Mapping[str, str] = field(default_factory=dict)
    failing_webhooks: Mapping[str, int] = field(default_factory=dict)
    """Since when deliveries to a webhook fail, by its host."""
    failed: FailedMessages = FailedMessages()
    troubles: Sequence[Trouble] = ()
    """Lasting troubles: those of the server itself are shown."""
    campaign_names: Mapping[str, str] = field(default_factory=dict)
    """The names of the newest campaigns, by id."""
    unseen: Mapping[str, int] = field(default_factory=dict)
    """How many slots of a proxy are in use by sessions that the person does not see."""
    is_limited: bool = False
    """Whether the person sees some sessions only, and of proxies those that these use."""
    _sorted: list[Row] = field(default_factory=list, init=False, repr=False, compare=False)
    """Sorted once: what needs attention asks a dozen times, on every page."""
    _proxy_names: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def restricted(self, reach: Reach) -> "Snapshot":
        """Return what a person with this reach sees: their sessions, and of proxies and holds what concerns those."""
        if isinstance(reach, Everything):
            return self
        rows = {name: row for name, row in self.rows.items() if reach.includes(name, labels_of(row.session))}
        holds = {each.hold.field: each.hold for each in rows.values() if each.hold is not None}
        names = Counter(row.name for row in rows.values())
        used = {row.session.proxy for row in rows.values()}
        # Made anew and not from all fields: what is added later is not shown before somebody has thought of it.
        return Snapshot(
            now_ms=self.now_ms,
            rows=rows,
            proxies=[replace(each, sessions=each.sessions & rows.keys()) for each in self.proxies if each.id in used],
            holds=holds,
            waiting_for_slot=self.waiting_for_slot & rows.keys(),
            counts=Counter(row.state for row in rows.values()),
            slots_per_proxy=self.slots_per_proxy,
            namesakes=frozenset(name for name, count in names.items() if count > 1),
            direct=self.direct,
            unseen={each.id: len(each.sessions - rows.keys()) for each in self.proxies if each.id in used},
            is_limited=True,
        )

    def called(self, row: Row) -> str:
        """Return the name of a session; the full name if others have the same."""
        return row.full_name if row.name in self.namesakes else row.name

    def proxy_called(self, proxy_id: str, shortest: int | None = None) -> str:
        """Return the name of a proxy; its id, or the first characters of it, where it has none."""
        if not self._proxy_names:
            self._proxy_names.update({each.id: each.name for each in self.proxies})
        return self._proxy_names.get(proxy_id) or proxy_id[:shortest]

    def sorted_rows(self) -> list[Row]:
        """Return all sessions, those that need a person first."""
        if not self._sorted:
            order = sorted(self.rows.values(), key=lambda row: (_ORDER.index(row.state), natural(row.name), row.id))
            self._sorted.extend(order)
        return list(self._sorted)

    def today(self, status: str) -> int:
        return sum(row.stats.get(status, 0) for row in self.rows.values())

    @property
    def waiting(self) -> Backlog:
        """What waits for all phones; what waits for a phone is counted once."""
        phones = {row.session.phone or row.id: row.waiting for row in self.rows.values()}.values()
        return Backlog(
            sum(each.now for each in phones), sum(each.today for each in phones), sum(each.later for each in phones)
        )

    @property
    def healthy(self) -> list[Proxy]:
        """The proxies that may take sessions."""
        return [proxy for proxy in self.proxies if proxy.status == "OK"]

    @property
    def bad(self) -> list[Proxy]:
        """The proxies that failed, without those that are being drained by an operator."""
        return [proxy for proxy in self.proxies if proxy.status != "OK" and not proxy.draining]

    def sessions_of(self, proxy: Proxy) -> frozenset[str]:
        """Return the ids of the sessions of a proxy, and of those that were moved away when it became bad."""
        return proxy.sessions | frozenset(self.left.get(proxy.id, ()))

    @property
    def slots(self) -> int:
        return self.slots_per_proxy * len(self.healthy)

    @property
    def free_slots(self) -> int:
        return sum(max(0, self.slots_per_proxy - self._taken(proxy)) for proxy in self.healthy)

    def slots_of(self, proxy: Proxy) -> list[Row | str | None]:
        """Return the slots of a proxy: its sessions, `IN_USE` for each that is not shown, None for each free one."""
        rows = [self.rows[name] for name in sorted(proxy.sessions) if name in self.rows]
        others = self._taken(proxy) - len(rows)
        return [*rows, *[IN_USE] * others, *[None] * (self.slots_per_proxy - len(rows) - others)]

    def _taken(self, proxy: Proxy) -> int:
        return len(proxy.sessions) + self.unseen.get(proxy.id, 0)


@lru_cache(maxsize=8192)
def natural(name: str) -> tuple[Any, ...]:
    """Return a sort key by which worker_10 follows worker_9. Cached: a page sorts the same names several times."""
    parts = _NUMBER_OR_CHARACTER.findall(f"{name.lower()} ")
    return tuple((0, int(number), "") if number else (1, 0, character) for number, character in parts)
