"""Catalogue of stream events: everything that webhooks, `/api/v1/events`, the live log and alerts report.

An entry of the stream has the fields `type` and `at`, and those of the payload of its type. Texts, alert kinds, log
levels, `docs/events.md` and OpenAPI derive from here; the writers are
`store.events.event_stream.emit` and `lua/shared/_event.lua`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final, NewType, Self

from wa_orchestrator.domain.ids import MessageId, Phone, ProxyId, SessionId
from wa_orchestrator.domain.sessions.restore_outcome import RestoreOutcome


class Level(StrEnum):
    """How serious an event is."""

    INFO = "info"
    WARNING = "warn"
    ERROR = "error"


class ProxyReason(StrEnum):
    """Why a session or its phone has another proxy, or none."""

    FIRST = "first"
    """It is the phone's first proxy."""
    GIVEN = "given"
    """The operator chose it when the session was linked."""
    STICKY_BAD = "sticky_bad"
    """The phone's own proxy is unhealthy."""
    STICKY_FULL = "sticky_full"
    """The phone's own proxy has no free slot."""
    STICKY_PROXY = "STICKY_PROXY"
    """The session moved to its phone's own proxy."""
    CHECK_FAILED = "CHECK_FAILED"
    """The old proxy failed two health checks in a row."""
    STRUCK_OUT = "STRUCK_OUT"
    """The old proxy passed its health checks, but failed its sessions twice within five minutes."""
    PROXY_FAILED = "PROXY_FAILED"
    """The old proxy was bad already."""
    DRAINED = "DRAINED"
    """The operator removed the old proxy."""
    NO_PROXY = "NO_SLOT"
    """The session had none."""
    WAITED_FOR_PROXY = "WAITED_FOR_PROXY"
    """A slot became free."""
    GAVE_WAY = "GAVE_WAY"
    """It has failed, or nobody has scanned its code yet, and a linked session needed the slot."""
    PROXY_GIVEN = "PROXY_GIVEN"
    """The operator chose the proxy for another session of the phone."""
    CHOSEN = "CHOSEN"
    """The operator moved the phone to another proxy."""


#: Milliseconds since 1970 in the stream; an ISO 8601 time in the API.
Instant = NewType("Instant", int)


@dataclass(frozen=True, slots=True)
class Payload:
    """Fields of an event as they are stored. A field that may be missing is `None` when it is."""


@dataclass(frozen=True, slots=True)
class SessionChanged(Payload):
    """A session entered a state, or stays in it for another reason."""

    session: SessionId
    reason: str
    what: str | None = None
    phone: Phone | None = None
    proxy: ProxyId | None = None


@dataclass(frozen=True, slots=True)
class SessionRemoved(Payload):
    """A session was deleted."""

    session: SessionId
    phone: Phone


@dataclass(frozen=True, slots=True)
class ProxyChanged(Payload):
    """A session or its phone has another proxy."""

    session: SessionId
    reason: ProxyReason
    from_: ProxyId
    to: ProxyId
    phone: Phone


@dataclass(frozen=True, slots=True)
class SessionRelocated(Payload):
    """A session is connected again after it left its node; `to` is empty if the engine has not told where it runs."""

    session: SessionId
    from_: str
    to: str
    away_ms: int
    phone: Phone


@dataclass(frozen=True, slots=True)
class ProxyLost(Payload):
    """A session lost its proxy and has no other yet."""

    session: SessionId
    reason: ProxyReason
    from_: ProxyId
    phone: Phone


@dataclass(frozen=True, slots=True)
class PasskeyStep(Payload):
    """Linking with the account's passkey went a step on: `stage` is required, sent, confirm, pairing or failed.

    Neither WhatsApp's request nor the code is in it: `GET /api/sessions/{id}/passkey` has them, for administrators.
    """

    session: SessionId
    stage: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Burst(Payload):
    """More messages were submitted to a phone within a minute than it may send."""

    session: SessionId
    phone: Phone
    count: int
    until: Instant


@dataclass(frozen=True, slots=True)
class UnprovenOptOuts(Payload):
    """More people opted out at a phone that never wrote to them than do so by themselves: `count` within an hour."""

    session: SessionId
    phone: Phone
    count: int


@dataclass(frozen=True, slots=True)
class SlowedDown(Payload):
    """WhatsApp asked a phone to send less; it sends nothing until then."""

    session: SessionId
    phone: Phone
    until: Instant


@dataclass(frozen=True, slots=True)
class ReachoutLock(Payload):
    """Whether a phone may write to new contacts; `until` is empty when the end is unknown."""

    session: SessionId
    phone: Phone
    until: Instant


@dataclass(frozen=True, slots=True)
class NewChatCap(Payload):
    """Whether a phone may begin new chats; while it may not, until when messages to new contacts wait."""

    session: SessionId
    phone: Phone
    until: Instant


@dataclass(frozen=True, slots=True)
class LongQueue(Payload):
    """`details` is a JSON object of counts: queued messages, and the days after today that they take."""

    session: SessionId
    phone: Phone
    details: str


@dataclass(frozen=True, slots=True)
class PoorHealth(Payload):
    """How people take what a phone sends got poor: `signal` says by what, which is so for `count` of `of`."""

    session: SessionId
    phone: Phone
    signal: str
    count: int
    of: int


@dataclass(frozen=True, slots=True)
class MessageChanged(Payload):
    """An outgoing message has a new status; `note` is a code that says why."""

    session: SessionId
    message: MessageId
    phone: Phone
    note: str


@dataclass(frozen=True, slots=True)
class MessageReceived(Payload):
    """Somebody wrote to one of our phones, in private or in a `group`; or its owner wrote to somebody, elsewhere.

    Texts and everything else of the message are not in the stream; the API adds them.
    """

    session: SessionId
    phone: Phone
    whatsapp_id: str
    kind: str
    contact_phone: Phone
    contact_lid: str
    group: str | None = None
    home: SessionId | None = None
    """The session of the account that has the conversation, where that is another one."""


@dataclass(frozen=True, slots=True)
class CallReported(Payload):
    """Somebody called one of our phones; `outcome` is missed, answered or rejected."""

    session: SessionId
    phone: Phone
    call: str
    video: str
    contact_phone: Phone
    contact_lid: str
    outcome: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class MessageUndecryptable(Payload):
    """A message to one of our phones cannot be read: `reason` is decrypt, view_once or unavailable.

    When it can be read after all, `message.received` follows with the same `whatsapp_id`.
    """

    session: SessionId
    phone: Phone
    whatsapp_id: str
    reason: str
    contact_phone: Phone
    contact_lid: str
    group: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationChanged(Payload):
    """A person read a conversation, or changed what is noted about it, or its contact opted out or in again.

    `change` lists what, separated by commas.
    """

    session: SessionId
    phone: Phone
    conversation: str
    change: str
    by: str
    contact_phone: Phone
    contact_lid: str


@dataclass(frozen=True, slots=True)
class ContactOptedOut(Payload):
    """A contact wants no more messages."""

    session: SessionId
    phone: Phone
    contact_phone: Phone
    word: str
    via: str


@dataclass(frozen=True, slots=True)
class ContactIdentityChanged(Payload):
    """A contact's number belongs to another WhatsApp account now: its former owner no longer gets our messages.

    `previous_lid` is the id of the former account.
    """

    session: SessionId
    phone: Phone
    contact_phone: Phone
    contact_lid: str
    previous_lid: str


@dataclass(frozen=True, slots=True)
class HoldChanged(Payload):
    """Sending is paused or resumed for a scope: all, group, session or phone.

    `why` and `until` belong to a pause; `until` is empty when the pause ends only by hand.
    """

    scope: str
    session: SessionId
    by: str
    group: str | None = None
    phone: Phone | None = None
    why: str | None = None
    until: Instant | None = None


@dataclass(frozen=True, slots=True)
class CampaignChanged(Payload):
    """A campaign has another state: draft, sending, paused, done or cancelled; `reason` says why it is paused."""

    campaign: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProxyPoolChanged(Payload):
    """A proxy joined or left the pool, or its health changed, with the reason."""

    proxy: ProxyId
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LowInventory(Payload):
    """`details` is a JSON object of counts: proxies, healthy, slots, free, waiting."""

    details: str


@dataclass(frozen=True, slots=True)
class LowProfiles(Payload):
    """`details` is a JSON object of counts: free (sessions that can still get a profile), profiles with room."""

    details: str


@dataclass(frozen=True, slots=True)
class ClientExpiry(Payload):
    """`details` is a JSON object: the client revision, and the date from which WhatsApp refuses it ('' = none)."""

    details: str


@dataclass(frozen=True, slots=True)
class DailySummary(Payload):
    """`details` is a JSON object of counts: sessions, connected, queued; sent and failed in the last 24 hours."""

    details: str


@dataclass(frozen=True, slots=True)
class ProxyOutage(Payload):
    """Our own connection failed or is back: so many of the healthy proxies failed at once. Nobody moved."""

    failing: int
    healthy: int


@dataclass(frozen=True, slots=True)
class DiskLow(Payload):
    """The disk under a directory of the server is nearly full."""

    directory: str
    free_bytes: int


@dataclass(frozen=True, slots=True)
class RedisMemoryLow(Payload):
    """Redis has used most of the memory that it may use. When it is full, nothing new is accepted; nothing is lost."""

    used_bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class NodeLost(Payload):
    """A node does not answer. Its sessions start elsewhere after their workers have left WhatsApp by themselves."""

    node: str


@dataclass(frozen=True, slots=True)
class RedisEmptied(Payload):
    """Redis came back without its data; `sessions` is how many sessions have credentials on disk."""

    sessions: int


@dataclass(frozen=True, slots=True)
class ArchiveFailing(Payload):
    """History cannot be moved from Redis to the archive; `reason` is a code."""

    reason: str
    since: Instant


@dataclass(frozen=True, slots=True)
class BackupProgress(Payload):
    """How far a backup or restore is: so many sessions of all are done."""

    kind: str
    backup: str
    phase: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class BackupEnded(Payload):
    """A backup or restore ended. `sessions` is how many it has; `reason` is the code of what failed.

    After a restore of everything, `unknown` messages may have been sent before and are not sent again by themselves;
    `held` ones wait for a person, because there was no journal. `incomplete` is how many sessions of a restore did not
    come back as they were; each has its own `restore.session`.
    """

    backup: str
    sessions: int
    reason: str | None = None
    bytes: int | None = None
    unknown: int | None = None
    held: int | None = None
    incomplete: int | None = None


@dataclass(frozen=True, slots=True)
class SessionRestored(Payload):
    """What became of a session of a restore; `outcome` is `RESTORED`, `NO_ROOM` or `PHONE_FULL`."""

    session: SessionId
    backup: str
    outcome: RestoreOutcome


@dataclass(frozen=True, slots=True)
class WebhookFailing(Payload):
    """No delivery to a webhook has succeeded for some time."""

    webhook: str
    since: Instant


@dataclass(frozen=True, slots=True)
class WebhookDisabled(Payload):
    """The server stopped delivering to a webhook; `note` is the last error."""

    webhook: str
    note: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class AlertTest(Payload):
    """An operator asked for a test alert."""

    by: str


_INFO, _WARNING, _ERROR = Level


class EventType(StrEnum):
    """Every type of event: name, payload, level, description, and the emoji of its alert ('' = no alert)."""

    payload: type[Payload]
    level: Level
    description: str
    alert_emoji: str

    def __new__(cls, name: str, payload: type[Payload], level: Level, description: str, alert_emoji: str = "") -> Self:
        member = str.__new__(cls, name)
        member._value_, member.payload, member.level = name, payload, level
        member.description, member.alert_emoji = description, alert_emoji
        return member

    SESSION_PENDING = "session.pending", SessionChanged, _INFO, "The session's worker is starting or waiting."
    SESSION_QR_READY = "session.qr_ready", SessionChanged, _INFO, "A QR or pairing code is ready."
    SESSION_CONNECTED = "session.connected", SessionChanged, _INFO, "The session is linked and online.", "✅"
    SESSION_DISCONNECTED = (
        "session.disconnected", SessionChanged, _WARNING, "The session lost its connection and reconnects.", "⚠️",
    )  # fmt: skip
    SESSION_FAILED = "session.failed", SessionChanged, _ERROR, "The session failed; a person is needed.", "⛔"
    SESSION_UNLINKED = (
        "session.unlinked", SessionChanged, _ERROR, "The phone removed the device; it must be linked again.", "⚠️",
    )  # fmt: skip
    SESSION_STOPPED = "session.stopped", SessionChanged, _INFO, "The session was stopped."
    SESSION_REMOVED = "session.removed", SessionRemoved, _WARNING, "The session was deleted."
    SESSION_MOVED = "session.moved", ProxyChanged, _WARNING, "The session moved to another proxy.", "🔄"
    SESSION_RELOCATED = (
        "session.relocated", SessionRelocated, _INFO, "The session runs on another node and is connected again.",
    )  # fmt: skip
    SESSION_PASSKEY = "session.passkey", PasskeyStep, _INFO, "Linking with the account's passkey went a step on."
    SESSION_SLOT_LOST = (
        "session.slot_lost",
        ProxyLost,
        _WARNING,
        "The session lost its proxy and waits for a free slot.",
    )
    SESSION_TURNED_AWAY = (
        "session.turned_away", SessionChanged, _WARNING,
        "The session was unlinked: its phone has too many sessions.", "🚫",
    )  # fmt: skip
    SESSION_BURST = (
        "session.burst", Burst, _WARNING, "Too many messages at once; pauses are doubled until the given time.", "🐇",
    )  # fmt: skip
    SESSION_OPT_OUTS_UNPROVEN = (
        "session.opt_outs_unproven", UnprovenOptOuts, _ERROR,
        "Many opt-outs of people whom this phone never wrote to: its worker may have been taken over. "
        "Further ones hold for this phone only.", "🕵️",
    )  # fmt: skip
    SESSION_SLOWED_DOWN = (
        "session.slowed_down", SlowedDown, _WARNING,
        "WhatsApp asked the phone to send less; it pauses, longer each time.", "🐌",
    )  # fmt: skip
    SESSION_REACHOUT_LOCKED = (
        "session.reachout_locked", ReachoutLock, _WARNING,
        "WhatsApp does not let the phone write to new contacts. This often precedes a ban.", "🔒",
    )  # fmt: skip
    SESSION_REACHOUT_UNLOCKED = (
        "session.reachout_unlocked", ReachoutLock, _INFO, "The phone may write to new contacts again.",
    )  # fmt: skip
    SESSION_NEW_CHATS_CAPPED = (
        "session.new_chats_capped", NewChatCap, _WARNING,
        "The phone has used up WhatsApp's allowance of new chats. Messages to new contacts wait until the given time.",
        "🚧",
    )  # fmt: skip
    SESSION_NEW_CHATS_RENEWED = (
        "session.new_chats_renewed", NewChatCap, _INFO, "The phone may begin new chats again.",
    )  # fmt: skip
    LONG_QUEUE = (
        "session.long_queue", LongQueue, _WARNING, "At the daily limit the phone's queue takes days.", "🗓️",
    )  # fmt: skip
    SESSION_HEALTH_POOR = (
        "session.health_poor", PoorHealth, _WARNING,
        "Few answer or read what the phone sends, or WhatsApp refused messages of it.", "🩺",
    )  # fmt: skip
    PHONE_BOUND = "phone.bound", ProxyChanged, _INFO, "The phone is bound to a proxy."
    MESSAGE_QUEUED = "message.queued", MessageChanged, _INFO, "The message was accepted or returned to its queue."
    MESSAGE_SCHEDULED = "message.scheduled", MessageChanged, _INFO, "The message was released to its session."
    MESSAGE_SENDING = "message.sending", MessageChanged, _INFO, "The worker claimed the message."
    MESSAGE_SENT = "message.sent", MessageChanged, _INFO, "WhatsApp accepted the message."
    MESSAGE_DELIVERED = "message.delivered", MessageChanged, _INFO, "The message was delivered."
    MESSAGE_READ = "message.read", MessageChanged, _INFO, "The message was read."
    MESSAGE_FAILED = "message.failed", MessageChanged, _ERROR, "The message could not be sent.", "✉️"
    MESSAGE_UNKNOWN = (
        "message.unknown", MessageChanged, _WARNING,
        "WhatsApp never confirmed the message: the recipient may have it.", "❓",
    )  # fmt: skip
    MESSAGE_EXPIRED = "message.expired", MessageChanged, _WARNING, "The message expired before it was sent."
    MESSAGE_CANCELLED = "message.cancelled", MessageChanged, _INFO, "The message was cancelled."
    MESSAGE_RECEIVED = "message.received", MessageReceived, _INFO, "A message came in."
    MESSAGE_UNDECRYPTABLE = (
        "message.undecryptable", MessageUndecryptable, _WARNING,
        "A message came in that cannot be read. If it can be later, message.received follows.",
    )  # fmt: skip
    MESSAGE_EDITED = "message.edited", MessageReceived, _INFO, "An earlier message has another text."
    MESSAGE_DELETED = "message.deleted", MessageReceived, _INFO, "An earlier message was deleted for everyone."
    MESSAGE_SENT_ELSEWHERE = (
        "message.sent_elsewhere", MessageReceived, _INFO,
        "The account's owner sent a message from the phone or another device.",
    )  # fmt: skip
    CALL_RECEIVED = "call.received", CallReported, _INFO, "Somebody calls the phone."
    CALL_ENDED = "call.ended", CallReported, _INFO, "A call ended."
    CONTACT_OPTED_OUT = "contact.opted_out", ContactOptedOut, _WARNING, "A contact wants no more messages."
    CONTACT_IDENTITY_CHANGED = (
        "contact.identity_changed", ContactIdentityChanged, _WARNING,
        "A contact's number belongs to another WhatsApp account now. The last message went to the old one.",
    )  # fmt: skip
    CONVERSATION_CHANGED = (
        "conversation.changed", ConversationChanged, _INFO,
        "A conversation was read, closed, opened, assigned, tagged or noted, or its contact opted out or in.",
    )  # fmt: skip
    HOLD_PLACED = "hold.placed", HoldChanged, _WARNING, "Sending was paused."
    HOLD_LIFTED = "hold.lifted", HoldChanged, _INFO, "Sending was resumed."
    CAMPAIGN_CHANGED = "campaign.changed", CampaignChanged, _INFO, "A campaign was started, paused, resumed or ended."
    CAMPAIGN_PAUSED_ITSELF = (
        "campaign.paused_itself", CampaignChanged, _WARNING,
        "A campaign paused by itself and waits for a person.", "⏸️",
    )  # fmt: skip
    CLIENT_EXPIRES = (
        "client.expires", ClientExpiry, _WARNING,
        "WhatsApp announced the day from which it refuses the client version that sessions use.", "⌛",
    )  # fmt: skip
    CLIENT_EXPIRY_WITHDRAWN = (
        "client.expiry_withdrawn", ClientExpiry, _INFO,
        "WhatsApp withdrew the day from which it would refuse a client version.",
    )  # fmt: skip
    PROXY_ADDED = "proxy.added", ProxyPoolChanged, _INFO, "A proxy joined the pool."
    PROXY_REMOVED = "proxy.removed", ProxyPoolChanged, _WARNING, "A proxy left the pool."
    PROXY_OK = "proxy.ok", ProxyPoolChanged, _INFO, "A proxy is healthy again.", "🌱"
    PROXY_BAD = "proxy.bad", ProxyPoolChanged, _ERROR, "A proxy failed.", "🔥"
    PROXY_LOW_INVENTORY = "proxy.low_inventory", LowInventory, _WARNING, "Free proxy slots run low.", "📉"
    PROFILE_LOW_INVENTORY = "profile.low_inventory", LowProfiles, _WARNING, "Free profiles run low.", "📉"
    PROXY_OUTAGE = (
        "proxy.outage", ProxyOutage, _ERROR,
        "Most proxies fail at once: our own connection is the cause. Nobody is moved.", "📡",
    )  # fmt: skip
    PROXY_OUTAGE_ENDED = "proxy.outage_ended", ProxyOutage, _INFO, "Most proxies pass their checks again."
    DISK_LOW = "server.disk_low", DiskLow, _ERROR, "The server's disk is nearly full.", "💾"
    REDIS_MEMORY_LOW = "server.redis_memory_low", RedisMemoryLow, _ERROR, "Redis has used 70 % of its memory.", "🧠"
    REDIS_EMPTIED = "server.redis_emptied", RedisEmptied, _ERROR, "Redis came back without its data.", "🕳️"
    ARCHIVE_FAILING = (
        "server.archive_failing", ArchiveFailing, _ERROR,
        "For ten minutes nothing could be moved to the archive; history stays in Redis.", "📚",
    )  # fmt: skip
    NODE_LOST = "node.lost", NodeLost, _ERROR, "A node does not answer; its sessions start on others.", "🖥️"
    BACKUP_PROGRESS = "backup.progress", BackupProgress, _INFO, "A backup or restore goes on."
    BACKUP_DONE = "backup.done", BackupEnded, _INFO, "A backup was made and verified.", "🗄️"
    BACKUP_FAILED = (
        "backup.failed", BackupEnded, _ERROR, "A backup could not be made; no older one was changed.", "🧯",
    )  # fmt: skip
    BACKUP_COPY_FAILED = (
        "backup.copy_failed", BackupEnded, _WARNING, "A backup is complete; its second copy could not be made.", "📎",
    )  # fmt: skip
    RESTORE_DONE = "restore.done", BackupEnded, _WARNING, "A backup was restored; its sessions start.", "♻️"
    RESTORE_INCOMPLETE = (
        "restore.incomplete", BackupEnded, _ERROR,
        "A backup was restored, but some of its sessions did not come back as they were.", "🩹",
    )  # fmt: skip
    RESTORE_SESSION = "restore.session", SessionRestored, _INFO, "A restore is done with this session."
    RESTORE_FAILED = "restore.failed", BackupEnded, _ERROR, "A backup was not restored; nothing was changed.", "🛑"
    WEBHOOK_FAILING = "webhook.failing", WebhookFailing, _WARNING, "Deliveries to a webhook fail for ten minutes.", "📪"
    WEBHOOK_DISABLED = "webhook.disabled", WebhookDisabled, _WARNING, "A webhook was disabled after failing.", "🔌"
    SUMMARY_DAILY = "summary.daily", DailySummary, _INFO, "What the last day was like, at 08:00 local time.", "📊"
    ALERT_TEST = "alert.test", AlertTest, _INFO, "An operator asked for a test alert.", "🔔"

    @property
    def subject(self) -> str:
        """The part before the dot: session, message, proxy, …"""
        return self.partition(".")[0]


#: Types that raise an alert.
ALERTS: Final = frozenset(each for each in EventType if each.alert_emoji)
#: Types that webhooks and `/api/v1/events` do not deliver: the server's notes to itself.
INTERNAL: Final = frozenset({EventType.ALERT_TEST})
#: Types whose message is stored as one that came in.
OF_INCOMING: Final = frozenset(each for each in EventType if each.payload is MessageReceived)
#: What an account's devices each report, and one of them emits.
OF_ACCOUNT: Final = OF_INCOMING | {
    EventType.MESSAGE_UNDECRYPTABLE, EventType.CALL_RECEIVED, EventType.CALL_ENDED, EventType.CONTACT_OPTED_OUT,
}  # fmt: skip
#: What events are about, in the order of the catalogue.
SUBJECTS: Final = tuple(dict.fromkeys(each.subject for each in EventType))


def find(name: str) -> EventType | None:
    """Return the type with this name; None for one that another version of the product wrote."""
    return EventType._value2member_map_.get(name)  # type: ignore[return-value]


def level_of(name: str) -> Level:
    """Return how serious an event is."""
    known = find(name)
    return known.level if known else Level.INFO


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the patterns (`*`, `message.*`, `session.connected`) selects this type of event."""
    return any(
        pattern in ("*", name) or (pattern.endswith(".*") and name.startswith(pattern[:-1])) for pattern in patterns
    )


def is_pattern(pattern: str) -> bool:
    """Whether a pattern can select any event that is delivered."""
    return any(matches((pattern,), each) for each in EventType if each not in INTERNAL)


def fields_of(payload: type[Payload]) -> dict[str, bool]:
    """Return the names of a payload's fields as the stream spells them, and whether each may be missing."""
    return {_stream_name(each.name): each.default is None for each in fields(payload)}


def _stream_name(name: str) -> str:
    return name.removesuffix("_")  # Python reserves `from`


def encode(payload: Payload) -> dict[str, str]:
    """Return a payload as fields of the stream; those that are missing are not written."""
    values = ((each.name, getattr(payload, each.name)) for each in fields(payload))
    return {_stream_name(name): str(value) for name, value in values if value is not None}
