"""The payloads of worker events: one dataclass per type, and their closed union."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from wa_orchestrator.domain.content import Location


@dataclass(frozen=True, slots=True)
class QrCode:
    """A QR is ready to be scanned until `expires_at_ms`."""

    qr: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class PairingCodeShown:
    """A code is ready to be entered on the phone until `expires_at_ms`."""

    code: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Connected:
    """The device is linked and online."""

    phone_number: str
    jid: str
    lid: str | None
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection ended; `code` is WhatsApp's number."""

    reason: str
    code: int
    will_reconnect: bool
    expires_at_ms: int | None = None
    """When a temporary ban ends, where WhatsApp says so."""


@dataclass(frozen=True, slots=True)
class StatusChange:
    """Any other report of the worker about its own state."""

    status: str
    error: str | None


@dataclass(frozen=True, slots=True)
class Ping:
    """The worker is alive, with its vital figures: '' and 0 where it does not report them."""

    timestamp_ms: int
    socket: str
    lag_ms: int
    rss_bytes: int
    last_traffic_at_ms: int | None


@dataclass(frozen=True, slots=True)
class MessageSent:
    """WhatsApp's server acknowledged a message."""

    message_id: str
    whatsapp_id: str
    to: str | None


@dataclass(frozen=True, slots=True)
class MessageFailed:
    """A message could not be sent."""

    message_id: str
    code: str
    error: str


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
    at_ms: int


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A message arrived for this account."""

    whatsapp_id: str
    sender: str
    phone: str | None
    lid: str | None
    push_name: str | None
    kind: str
    text: str | None
    media: Mapping[str, object] | None
    at_ms: int
    group: str | None = None
    """The group in which it was sent; None for a direct message."""
    location: Location | None = None


class ProxyStage(StrEnum):
    """How far a connection through the proxy got."""

    DNS = "dns"
    CONNECT = "connect"
    AUTH = "auth"
    TUNNEL = "tunnel"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class ProxyError:
    """The connection through the proxy failed."""

    error: str
    stage: ProxyStage | None


@dataclass(frozen=True, slots=True)
class AuthFailure:
    """The credentials cannot be read."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReachoutLockReport:
    """Whether WhatsApp lets this account write to new contacts now."""

    active: bool
    ends_at_ms: int | None
    type: str


@dataclass(frozen=True, slots=True)
class NewChatCap:
    """How many new chats WhatsApp lets this account begin."""

    status: str
    used: int | None
    total: int | None
    ends_at_ms: int | None


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """The limits that WhatsApp itself has put on this account."""

    reachout_lock: ReachoutLockReport
    new_chat_cap: NewChatCap | None


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """A type that this version does not know: accepted and ignored, so that a newer worker can be used."""

    type: str


Payload = (
    QrCode
    | PairingCodeShown
    | Connected
    | Disconnected
    | StatusChange
    | Ping
    | MessageSent
    | MessageFailed
    | MessageReceipt
    | IncomingMessage
    | ProxyError
    | AuthFailure
    | AccountLimits
    | UnknownEvent
)
