"""The records of Redis: the fields of a session, a message, a proxy and a phone's pace, each listed and typed once.

`<Record>Changes` are the fields that Python writes; mypy rejects a field that is not among them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain.ids import MessageId, Phone, ProxyId, SessionId
from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.domain.messages.sender_policy import Pin
from wa_orchestrator.domain.pacing.decision import WaitUntil
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason
from wa_orchestrator.domain.proxies.proxy_health import ProxyStatus
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages.holds import Hold, holds_from
from wa_orchestrator.store.record_codec import decode


@dataclass(frozen=True, slots=True)
class Session:
    """One session. Every field of its hash, in the order of its life."""

    id: SessionId
    status: State
    reason: Reason | None
    standing: str
    """The state with the reports that led to it, as `session_standing` encodes it."""
    version: int
    created_at: int
    changed_at: int
    # What the operator chose.
    label: str
    tags: tuple[str, ...]
    notes: str
    """What people wrote about it, for people."""
    wanted: str
    pairing: str
    """`qr` or `code`."""
    limits: str
    """Overridden limits as JSON."""
    tag_limits: str
    """The limits of its tags, a JSON array; scripts keep it the same as `limits:tags` has them."""
    timezone: str
    presence: str
    """When its device is shown as online: `always`, `while_sending`, `never`; '' is the installation's."""
    device_name: str
    """Its profile: what it shows as under "linked devices", for its whole life."""
    # Its phone and its proxy.
    phone: Phone
    proxy: ProxyId
    proxy_given: str
    """`given` until the phone is bound to a proxy that the operator chose."""
    direct: bool
    leaving: ProxyId
    """The proxy on which its old worker still holds a slot."""
    named_phone: Phone
    """A phone that a person named for it (confirmed, restored, asked a pairing code for), until it is linked."""
    reported_phone: Phone
    """What its worker reported when it failed with PHONE_CHANGED."""
    code_at: int
    """When the server recorded the first code of its present credentials; 0 once it is linked."""
    credentials_change_bytes: int
    """With CREDENTIALS=server: how long the changes are that are stored after its last whole copy."""
    left_phone: str
    """Phones it has left, until the messages that wait there are rerouted."""
    jid: str
    lid: str
    fingerprint: str
    connected_at: int
    first_connected_at: int
    lost_at: int
    """When it was last connected and then no longer."""
    unlinked_at: int
    """When its phone removed the device; 0 once it is linked again."""
    logout_asked_at: int
    ban_ends_at: int
    banned: bool
    """WhatsApp banned the account, and it has not been online since."""
    # Its worker.
    epoch: int
    refused_revision: int
    """The client revision that WhatsApp refused; 0 where its worker did not say."""
    restart_epoch: int | None
    """The epoch whose worker is to be replaced."""
    started_at: int
    missed_at: int
    worker_lost_at: int
    """When the node of its worker stopped answering, until another worker is started; the old one may still run."""
    node: str
    """The node on which its worker was started; '' where there is only one, or while it starts."""
    move_epoch: int | None
    """The epoch whose worker leaves its node, until a later one is connected."""
    move_to: str
    """The node that an operator chose for it, until it has started there; '' leaves that to the engine."""
    moved_from: str
    moved_at: int
    """When it was last asked to leave its node; 0 for never."""
    left_at: int
    """When its worker left WhatsApp for that; 0 until then."""
    away_ms: int
    """How long it was away for its last move, until it was connected again; 0 while it lasts."""
    asked_at: int
    """When its worker last asked for messages, or was seen waiting for them."""
    unclaimed: int
    """How many released messages in a row its worker did not claim, although it was connected."""
    last_ping_at: int
    last_traffic_at: int
    ping_socket: str
    ping_lag_ms: int
    ping_rss_bytes: int
    # Requests that are carried out step by step, so that a crash cannot lose them.
    discard: bool
    """Its credentials go to the trash."""
    restore: str
    """The entry of the trash whose credentials it gets."""
    removing: str
    """`keep` or `forget` (the phone's sticky proxy) while it is being deleted."""
    removing_queued: str
    """What becomes of its queued messages: `cancel` or `reroute`."""


class SessionChanges(TypedDict, total=False):
    """Fields of a session that Python writes, typed as in `Session`; the others are written by scripts alone."""

    reason: Reason | None
    standing: str
    label: str
    tags: tuple[str, ...]
    notes: str
    wanted: str
    pairing: str
    limits: str
    timezone: str
    presence: str
    device_name: str
    proxy_given: str
    direct: bool
    named_phone: Phone
    reported_phone: Phone
    code_at: int
    jid: str
    lid: str
    fingerprint: str
    first_connected_at: int
    lost_at: int
    unlinked_at: int
    logout_asked_at: int
    ban_ends_at: int
    banned: bool
    refused_revision: int
    restart_epoch: int | None
    missed_at: int
    worker_lost_at: int
    node: str
    move_epoch: int | None
    move_to: str
    moved_from: str
    moved_at: int
    left_at: int
    away_ms: int
    last_ping_at: int
    last_traffic_at: int
    ping_socket: str
    ping_lag_ms: int
    ping_rss_bytes: int
    discard: bool
    restore: str
    removing: str
    removing_queued: str


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy, with the sessions that hold a slot on it. The URL holds a password and stays inside the server."""

    id: ProxyId
    url: str
    masked: str
    origin: str
    """`environment`, `operator` or `provision`."""
    name: str
    provider: str
    country: str
    expires_on: str
    """The last day that is paid for, as an ISO date."""
    status: ProxyStatus
    version: int
    added_at: int
    changed_at: int
    draining: bool
    checked_at: int
    passed_at: int
    """Its last good check."""
    failing_since: int
    """The first of the failed checks in a row; 0 if the last one passed."""
    next_check_at: int
    latency_ms: int | None
    last_error: str
    bad_because: str
    good_in_a_row: int
    bad_in_a_row: int
    strikes: tuple[int, ...]
    """When workers complained about it lately, by their own time."""
    sessions: frozenset[str]


class ProxyChanges(TypedDict, total=False):
    """Fields of a proxy that Python writes, typed as in `Proxy`."""

    url: str
    masked: str
    name: str
    provider: str
    country: str
    expires_on: str
    draining: bool
    checked_at: int
    passed_at: int
    failing_since: int
    next_check_at: int
    latency_ms: int | None
    last_error: str
    bad_because: str
    good_in_a_row: int
    bad_in_a_row: int
    strikes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Every field of its hash."""

    id: MessageId
    whatsapp_id: str
    phone: Phone
    session: SessionId
    to: Phone
    status: MessageStatus
    reason: str
    """Why it failed, ended or returned to the queue; a `Failure` when it failed."""
    priority: int
    sequence: int
    # What the client asked for.
    kind: str
    body: str
    """The content as JSON; empty once retention has erased it."""
    reference: str
    batch: str
    """The batch it came with; empty where it came alone."""
    pinned: Pin
    api_key: str
    why: str
    """Why this sender was chosen."""
    answers_in: str
    """The conversation in which it ended the waiting: its session, a space, the contact."""
    # Attempts.
    attempts: int
    crashes: int
    uncounted: int
    releases: int
    pause_ms: int
    claim_epoch: int
    claimed_by: str
    """The process of the worker that holds it, until that may write."""
    freed: bool
    """A person allowed another attempt from another phone, although the recipient may have it."""
    in_doubt: bool
    """An attempt ended without an answer of WhatsApp: the recipient may have it."""
    refusal_heard: str
    """The attempt whose refusal was reported by an event."""
    answers: str
    """What ended each failed attempt, as its worker reported it: `<ms>:<code>`, the oldest first."""
    # Times.
    accepted_at: int
    due_at: int
    """The instant it waits for, which a client or the daily limit has set; 0 as soon as it may leave."""
    deferred: bool
    """The daily limit has set that instant."""
    expires_at: int
    released_at: int
    claimed_at: int
    sent_at: int
    delivered_at: int
    read_at: int
    edited_at: int
    """When its text was last changed, on the recipients' phones too; 0 if it is as it was sent."""
    deleted_at: int
    """When it was deleted for everyone."""


class MessageChanges(TypedDict, total=False):
    """Fields of a message that Python writes, typed as in `Message`."""

    kind: str
    body: str
    reference: str
    batch: str
    pinned: Pin
    api_key: str
    why: str
    refusal_heard: str


@dataclass(frozen=True, slots=True)
class PhonePace:
    """The pace of a phone, as WhatsApp has seen it."""

    in_flight: MessageId
    silent_until: int
    silence_ms: int
    """How long the pause is that ends at `silent_until`."""
    lock_until: int
    cap_until: int
    burst_until: int
    service_ms: int
    sent: tuple[int, ...]

    @property
    def new_contacts(self) -> WaitUntil:
        """The limit of WhatsApp on new contacts that ends last, as `_new_contacts.lua` has it; it may be over."""
        if self.cap_until > self.lock_until:
            return WaitUntil(self.cap_until, WaitReason.NEW_CHAT_CAP)
        return WaitUntil(self.lock_until, WaitReason.REACHOUT_LOCKED)

    def silence_end(self, now_ms: int) -> int:
        """Return the end of the pause; 0 for one that would last longer than it is, because the clock was set back.

        The release script starts that one again.
        """
        return self.silent_until if self.silent_until <= now_ms + self.silence_ms else 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a stream: its cursor and its fields."""

    cursor: str
    fields: Mapping[str, str]


async def session(scripts: Scripts, session_id: str) -> Session | None:
    raw: Any = await scripts.redis.hgetall(keys.session(session_id))
    return decode(Session, raw) if raw else None


async def sessions(scripts: Scripts, ids: Iterable[str] | None = None) -> list[Session]:
    """Return these sessions, or all, by id."""
    members: Any = ids if ids is not None else await scripts.redis.smembers(keys.SESSIONS_ALL)
    raws = await scripts.each(Pipeline.hgetall, map(keys.session, sorted(members)))
    return [decode(Session, raw) for raw in raws if raw]


async def has_sessions(scripts: Scripts) -> bool:
    """Whether there is any session."""
    return bool(await scripts.redis.exists(keys.SESSIONS_ALL))


async def sessions_of_phone(scripts: Scripts, phone: str) -> list[Session]:
    """Return the sessions that are linked to a phone, by id; none for ''."""
    members: Any = await scripts.redis.smembers(keys.sessions_of_phone(phone)) if phone else ()
    return await sessions(scripts, members)


async def proxy(scripts: Scripts, proxy_id: str) -> Proxy | None:
    found = await proxies(scripts, [proxy_id])
    return found[0] if found else None


async def proxies(scripts: Scripts, ids: Iterable[str] | None = None) -> list[Proxy]:
    """Return these proxies, or all, by id, each with its sessions."""
    members: Any = ids if ids is not None else await scripts.redis.smembers(keys.PROXIES_ALL)
    names = sorted(members)
    pipe = scripts.redis.pipeline(transaction=False)
    for name in names:
        pipe.hgetall(keys.proxy(name))
        pipe.smembers(keys.sessions_of_proxy(name))
    replies: list[Any] = await pipe.execute()
    return [
        decode(Proxy, raw, sessions=frozenset(members))
        for raw, members in zip(replies[::2], replies[1::2], strict=True)
        if raw
    ]


async def message(scripts: Scripts, message_id: str) -> Message | None:
    raw: Any = await scripts.redis.hgetall(keys.message(message_id))
    return decode(Message, raw) if raw else None


async def messages(scripts: Scripts, ids: Sequence[str]) -> list[Message]:
    """Return these messages in this order, without those that are gone."""
    return [decode(Message, raw) for raw in await scripts.each(Pipeline.hgetall, map(keys.message, ids)) if raw]


async def timeline(scripts: Scripts, message_id: str) -> list[tuple[int, str, str]]:
    """Return a message's timeline: (instant ms, status, note), oldest first. It begins with the acceptance."""
    pipe = scripts.redis.pipeline(transaction=False)
    pipe.hget(keys.message(message_id), "accepted_at")
    pipe.lrange(keys.timeline(message_id), 0, -1)
    accepted_at, lines = await pipe.execute()
    return [] if accepted_at is None else timeline_of(int(accepted_at), lines)


def timeline_of(accepted_at: int, lines: Sequence[str]) -> list[tuple[int, str, str]]:
    """Return the stored lines of a timeline as (instant ms, status, note), after the acceptance."""
    parts = [(*line.split(" ", 2), "", "")[:3] for line in lines]
    return [(accepted_at, "queued", ""), *((int(at), status, note) for at, status, note in parts)]


def answers_of(message: Message) -> dict[int, str]:
    """Return the codes that workers reported of a message's failed attempts, by the instant of the timeline's entry."""
    parts = (each.partition(":") for each in message.answers.split())
    return {int(at): code for at, _, code in parts}


async def phone_pace(scripts: Scripts, phone: str, *, since_ms: int) -> PhonePace:
    """Return the pace of a phone; `sent` from `since_ms` on, oldest first."""
    pipe = scripts.redis.pipeline(transaction=False)
    pipe.hgetall(keys.pace(phone))
    pipe.zrangebyscore(keys.sent(phone), since_ms, "+inf", withscores=True)
    raw, sent = await pipe.execute()
    return decode(PhonePace, raw, sent=tuple(int(score) for _, score in sent))


async def holds(scripts: Scripts) -> dict[str, Hold]:
    raw: Any = await scripts.redis.hgetall(keys.HOLDS)
    return holds_from(raw)
