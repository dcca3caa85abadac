"""The events that a worker reports to the server: a closed union, and what each means for the session.

`worker_event_parser` reads each class from the JSON fields of the same names; a field with a default may be missing,
because a plain worker leaves it out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Generic, TypeVar

from wa_orchestrator.domain.messages.content import Location
from wa_orchestrator.domain.messages.incoming import (
    Ad,
    Card,
    IncomingFile,
    IncomingKind,
    Mention,
    Poll,
    Quote,
    TargetMessage,
    Vote,
)
from wa_orchestrator.domain.sessions.session import Event

#: Milliseconds since the epoch; in JSON also a date and time with its offset, and without `_ms` in the name.
Instant = Annotated[int, "instant"]
#: WhatsApp's word for an allowance of new chats that is used up; the others are warnings, or none.
_CAPPED = "CAPPED"
#: A name of `Failure` or WhatsApp's number; in JSON also a number.
Code = Annotated[str, "code"]


@dataclass(frozen=True, slots=True)
class QrCode:
    """A QR is ready to be scanned until `expires_at_ms`."""

    #: WhatsApp's for the first QR, where the worker does not say when it expires.
    LIFE_MS: ClassVar = 60_000
    qr: str
    expires_at_ms: Instant = 0
    renewed: bool = False
    """WhatsApp retired the code before it, probably in answer to a scan, which is lost."""


@dataclass(frozen=True, slots=True)
class PairingCodeShown:
    """A code is ready to be entered on the phone until `expires_at_ms`."""

    LIFE_MS: ClassVar = 180_000
    code: str
    expires_at_ms: Instant = 0


@dataclass(frozen=True, slots=True)
class Connected:
    """The device is linked and online."""

    phone_number: str
    jid: str | None = None
    lid: str | None = None
    fingerprint: str | None = None
    revision: int = 0
    """The revision of WhatsApp Web that it announced; 0 where the worker does not say."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection ended; `code` is WhatsApp's number."""

    code: int
    reason: str = ""
    expires_at_ms: Instant | None = None
    """When a temporary ban ends, where WhatsApp says so."""
    revision: int = 0
    """The revision of WhatsApp Web that was refused."""


@dataclass(frozen=True, slots=True)
class StatusChange:
    """Any other report of the worker about its own state."""

    status: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Ping:
    """The worker is alive, with its vital figures: '' and 0 where it does not report them."""

    socket: str = ""
    lag_ms: int = 0
    rss_bytes: int = 0
    last_traffic_at_ms: Instant = 0


@dataclass(frozen=True, slots=True)
class MessageSent:
    """WhatsApp's server acknowledged a message."""

    message_id: str
    whatsapp_id: str


@dataclass(frozen=True, slots=True)
class MessageFailed:
    """A message could not be sent."""

    message_id: str
    code: Code


class Receipt(StrEnum):
    """A receipt from the recipient's device."""

    DELIVERED = "delivered"
    READ = "read"
    PLAYED = "played"


@dataclass(frozen=True, slots=True)
class MessageReceipt:
    """A receipt came in for a message that was sent."""

    whatsapp_id: str
    status: Receipt
    at_ms: Instant


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A message arrived for this account. Which parts it has depends on its kind; the last few may come with any."""

    whatsapp_id: str
    sender: str
    kind: IncomingKind
    at_ms: Instant
    phone: str | None = None
    lid: str | None = None
    push_name: str | None = None
    text: str | None = None
    media: IncomingFile | None = None
    group: str | None = None
    """The group in which it was sent; None for a direct message."""
    group_name: str | None = None
    location: Location | None = None
    """None also for one without coordinates, which somebody's phone may send."""
    contacts: tuple[Card, ...] = ()
    poll: Poll | None = None
    vote: Vote | None = None
    """None also for one that could not be decrypted, because its poll is too old."""
    target: TargetMessage | None = None
    choice: str | None = None
    """The id of the button or row that was chosen; its words are the text."""
    reply_to: Quote | None = None
    mentions: tuple[Mention, ...] = ()
    album: str | None = None
    """WhatsApp's id of the album of which the file is a part."""
    forwarded: bool = False
    view_once: bool = False
    ad: Ad | None = None
    thumbnail: str | None = None
    """The small JPEG that came with it, in base64, as its sender made it."""
    username: str | None = None
    """By which others find the sender; WhatsApp tells it of people who hide their phone."""


@dataclass(frozen=True, slots=True)
class SentElsewhere(IncomingMessage):
    """The account's owner sent a message from the phone or another device; names are those of its recipient."""


@dataclass(frozen=True, slots=True)
class PastText:
    """A text of a chat from before the device was linked."""

    whatsapp_id: str
    at_ms: Instant
    text: str
    from_me: bool = False


@dataclass(frozen=True, slots=True)
class LinkedChat:
    """A chat that the phone had when the device was linked: with a person, by either name, or a group."""

    at_ms: Instant
    phone: str | None = None
    lid: str | None = None
    group: str | None = None
    name: str | None = None
    texts: tuple[PastText, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkHistory:
    """Chats that the phone had when the device was linked."""

    chats: tuple[LinkedChat, ...] = ()


class CallStatus(StrEnum):
    """What became of a call."""

    OFFERED = "offered"
    MISSED = "missed"
    ANSWERED = "answered"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Call:
    """Somebody calls the account, or such a call has ended."""

    call_id: str
    status: CallStatus
    sender: str
    at_ms: Instant
    phone: str | None = None
    lid: str | None = None
    group: str | None = None
    video: bool = False


class Unreadable(StrEnum):
    """Why an incoming message cannot be read."""

    DECRYPT = "decrypt"
    """It cannot be decrypted, and its author has not sent it again."""
    VIEW_ONCE = "view_once"
    """It may be viewed once, on the phone alone."""
    UNAVAILABLE = "unavailable"
    """WhatsApp delivered it without content, and the phone has not given it either."""


@dataclass(frozen=True, slots=True)
class UndecryptableMessage:
    """A message arrived for this account and cannot be read; it may follow as `IncomingMessage` later."""

    whatsapp_id: str
    sender: str
    reason: Unreadable
    at_ms: Instant
    phone: str | None = None
    lid: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class IdentityChanged:
    """WhatsApp said that a contact's number belongs to another account now; `new_lid` is that one's, if it told."""

    phone: str
    old_lid: str = ""
    new_lid: str = ""


@dataclass(frozen=True, slots=True)
class ClientExpiration:
    """WhatsApp told when it will refuse the client version of this session; 0: it has withdrawn that."""

    expires_at_ms: Instant = 0
    revision: int = 0


class PasskeyStage(StrEnum):
    """How far linking with a passkey is."""

    REQUIRED = "required"
    SENT = "sent"
    CONFIRM = "confirm"
    PAIRING = "pairing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, repr=False)
class PasskeyReport:
    """A step of linking with the account's passkey. It holds a challenge or a code, and is never logged."""

    stage: PasskeyStage
    options: str = ""
    expires_at_ms: Instant = 0
    code: str = ""
    auto: bool = False
    """The phone knows this device from its scan, so nobody need compare the code."""
    reason: str = ""
    retry: str = ""


@dataclass(frozen=True, slots=True)
class ProtocolDrift:
    """What WhatsApp sent that the worker does not know, counted by shape; contents are never in it."""

    shapes: Sequence[object]


@dataclass(frozen=True, slots=True)
class ProxyError:
    """The connection through the proxy failed."""

    error: str


@dataclass(frozen=True, slots=True)
class AuthFailure:
    """The credentials cannot be read."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReachoutLockReport:
    """Whether WhatsApp lets this account write to new contacts now."""

    active: bool
    ends_at_ms: Instant | None = None
    type: str = ""


@dataclass(frozen=True, slots=True)
class NewChatCapReport:
    """How many chats with new contacts WhatsApp lets this account begin in its current cycle."""

    status: str
    used: int | None = None
    total: int | None = None
    ends_at_ms: Instant | None = None

    @property
    def is_used_up(self) -> bool:
        """Whether no new chat may be begun. A total of 0 is no allowance that could be used up."""
        is_full = self.used is not None and bool(self.total) and self.used >= (self.total or 0)
        return is_full or self.status == _CAPPED

    def blocked_until_ms(self, now_ms: int, *, day_ends_ms: int) -> int:
        """Return until when no new chat may be begun: WhatsApp's own end, else the end of the day; 0 if one may."""
        if not self.is_used_up:
            return 0
        ends_ms = self.ends_at_ms or 0
        return ends_ms if ends_ms > now_ms else day_ends_ms


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """The limits that WhatsApp itself has put on this account."""

    reachout_lock: ReachoutLockReport
    new_chat_cap: NewChatCapReport | None = None
    """None where the worker does not know it: what is known stays as it is."""


#: What can say that WhatsApp stops an account. Where a field that may be missing is wrong, the rest counts: to refuse
#: the event would hide the ban, or the lock, that it reports.
SIGNALS: frozenset[type] = frozenset({Disconnected, StatusChange, AccountLimits, ReachoutLockReport, NewChatCapReport})


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """A type that this version does not know: accepted and ignored, so that a newer worker can be used."""


_AboutSession = QrCode | PairingCodeShown | Connected | Disconnected | StatusChange | Ping | ProxyError | AuthFailure
_AboutMessages = MessageSent | MessageFailed | MessageReceipt | IncomingMessage | UndecryptableMessage
_AboutPeople = SentElsewhere | Call | IdentityChanged | LinkHistory
_AboutProtocol = AccountLimits | ProtocolDrift | PasskeyReport | ClientExpiration
Payload = _AboutSession | _AboutMessages | _AboutPeople | _AboutProtocol | UnknownEvent

TYPES: Mapping[str, type[Payload]] = {
    "QR_CODE": QrCode,
    "PAIRING_CODE": PairingCodeShown,
    "CONNECTED": Connected,
    "DISCONNECTED": Disconnected,
    "STATUS_CHANGE": StatusChange,
    "PING": Ping,
    "MESSAGE_SENT": MessageSent,
    "MESSAGE_FAILED": MessageFailed,
    "MESSAGE_STATUS": MessageReceipt,
    "MESSAGE_RECEIVED": IncomingMessage,
    "MESSAGE_UNDECRYPTABLE": UndecryptableMessage,
    "CONTACT_IDENTITY_CHANGED": IdentityChanged,
    "MESSAGE_SENT_ELSEWHERE": SentElsewhere,
    "CALL": Call,
    "LINK_HISTORY": LinkHistory,
    "PROXY_ERROR": ProxyError,
    "AUTH_FAILURE": AuthFailure,
    "ACCOUNT_LIMITS": AccountLimits,
    "PROTOCOL_DRIFT": ProtocolDrift,
    "PASSKEY": PasskeyReport,
    "CLIENT_EXPIRATION": ClientExpiration,
}


P_co = TypeVar("P_co", bound=Payload, covariant=True)


@dataclass(frozen=True, slots=True)
class WorkerEvent(Generic[P_co]):
    """One event of a session's worker. `sequence` and `epoch` are None where the worker did not send them."""

    session_id: str
    type: str
    at_ms: int
    payload: P_co
    sequence: int | None = None
    epoch: int | None = None


#: WhatsApp's numbers for the end of a connection.
_BY_CODE: Mapping[int, Event] = {
    401: Event.LOGGED_OUT,
    402: Event.TEMPORARILY_BANNED,
    403: Event.BANNED,
    405: Event.CLIENT_REFUSED,
    406: Event.BANNED,
    440: Event.REPLACED,
}
#: Status words of the worker itself. They are those of `session.Reason` where there is one.
_BY_STATUS: Mapping[str, Event] = {
    "PASSKEY_REQUIRED": Event.PASSKEY_DEMANDED,
    "QR_EXPIRED": Event.QR_RAN_OUT,
    "CLIENT_OUTDATED": Event.CLIENT_REFUSED,
}


def to_session_event(payload: Payload) -> Event | None:
    """Return what an event means for the state of its session; None for most, and None for a failure of the proxy.

    The server checks a proxy before it does anything to its sessions; see `mentions_proxy`.
    """
    match payload:
        case QrCode():
            return Event.QR_RENEWED if payload.renewed else Event.QR_SHOWN
        case PairingCodeShown():
            return Event.CODE_SHOWN
        case PasskeyReport(stage=PasskeyStage.REQUIRED):
            return Event.PASSKEY_ASKED
        case Connected():
            return Event.CONNECTED
        case Disconnected():
            # 408, 428, 503, 515 and every unknown number: the worker reconnects by itself.
            return _BY_STATUS.get(payload.reason.upper()) or _BY_CODE.get(payload.code, Event.CONNECTION_LOST)
        case StatusChange():
            return _BY_STATUS.get(payload.status.upper())
        case AuthFailure():
            return Event.AUTH_BROKEN
        case _:
            return None


def mentions_proxy(payload: Payload) -> bool:
    """Whether an event blames the proxy, in any of the three ways in which a worker may do that."""
    match payload:
        case ProxyError():
            return True
        case StatusChange():
            return "proxy" in f"{payload.status} {payload.error}".lower()
        case Disconnected():
            return "proxy" in payload.reason.lower() or "socks" in payload.reason.lower()
        case _:
            return False
