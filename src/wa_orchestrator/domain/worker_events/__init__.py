"""The events that a worker reports to the server: a closed union, parsed once where they enter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from wa_orchestrator.domain.content import Location
from wa_orchestrator.domain.session import Event
from wa_orchestrator.domain.worker_events.json_fields import BadEvent, JsonFields
from wa_orchestrator.domain.worker_events.types import (
    AccountLimits,
    AuthFailure,
    Connected,
    Disconnected,
    IncomingMessage,
    MessageFailed,
    MessageReceipt,
    MessageSent,
    NewChatCap,
    PairingCodeShown,
    Payload,
    Ping,
    ProxyError,
    ProxyStage,
    QrCode,
    ReachoutLockReport,
    Receipt,
    StatusChange,
    UnknownEvent,
)

__all__ = [
    "AccountLimits",
    "AuthFailure",
    "BadEvent",
    "Connected",
    "Disconnected",
    "IncomingMessage",
    "MessageFailed",
    "MessageReceipt",
    "MessageSent",
    "NewChatCap",
    "PairingCodeShown",
    "Payload",
    "Ping",
    "ProxyError",
    "ProxyStage",
    "QrCode",
    "ReachoutLockReport",
    "Receipt",
    "StatusChange",
    "UnknownEvent",
    "WorkerEvent",
    "mentions_proxy",
    "parse",
    "to_session_event",
]

#: The life of a code whose worker does not say when it expires: WhatsApp's for the first QR, and for a pairing code.
QR_LIFE_MS = 60_000
PAIRING_CODE_LIFE_MS = 180_000


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """One event of a session's worker. `sequence` and `epoch` are None where the worker did not send them."""

    session_id: str
    type: str
    at_ms: int
    payload: Payload
    version: int = 1
    sequence: int | None = None
    epoch: int | None = None


def parse(raw: Mapping[str, object]) -> WorkerEvent:
    """Parse an event from its JSON object; raise `BadEvent` for an invalid one, and ignore unknown fields."""
    envelope = JsonFields(raw)
    kind = envelope.text("type")
    read = _READERS.get(kind)
    session_id, at_ms = envelope.text("sessionId"), envelope.instant_ms("timestamp")
    return WorkerEvent(
        session_id=session_id,
        type=kind,
        at_ms=at_ms,
        payload=UnknownEvent(kind) if read is None else read(envelope.within("data"), at_ms),
        version=envelope.optional_whole("v") or 1,
        sequence=envelope.optional_whole("sequence"),
        epoch=envelope.optional_whole("epoch"),
    )


# Fields that a plain worker leaves out have defaults: `expiresAt`, `jid`, `willReconnect`, `stage`, the figures of a
# ping. Each reader gets the fields and the time of the event.


def _qr_code(data: JsonFields, at_ms: int) -> QrCode:
    return QrCode(data.text("qr"), data.optional_instant_ms("expiresAt") or at_ms + QR_LIFE_MS)


def _pairing_code(data: JsonFields, at_ms: int) -> PairingCodeShown:
    return PairingCodeShown(data.text("code"), data.optional_instant_ms("expiresAt") or at_ms + PAIRING_CODE_LIFE_MS)


def _connected(data: JsonFields, _at_ms: int) -> Connected:
    number = data.text("phoneNumber")
    jid = data.optional_text("jid") or f"{number.lstrip('+')}@s.whatsapp.net"
    return Connected(number, jid, data.optional_text("lid"), data.optional_text("fingerprint"))


def _disconnected(data: JsonFields, _at_ms: int) -> Disconnected:
    reason, code = data.optional_text("reason") or "", data.whole("code")
    will_reconnect = _disconnection(reason, code) is Event.CONNECTION_LOST
    return Disconnected(
        reason,
        code,
        data.flag("willReconnect") if data.has("willReconnect") else will_reconnect,
        data.optional_instant_ms("expiresAt"),
    )


def _ping(data: JsonFields, _at_ms: int) -> Ping:
    return Ping(
        data.instant_ms("timestamp"),
        data.optional_text("socket") or "",
        data.optional_whole("lagMs") or 0,
        data.optional_whole("rssBytes") or 0,
        data.optional_instant_ms("lastTrafficAt"),
    )


def _proxy_error(data: JsonFields, _at_ms: int) -> ProxyError:
    return ProxyError(data.text("error"), data.word("stage", ProxyStage) if data.has("stage") else None)


def _message_failed(data: JsonFields, _at_ms: int) -> MessageFailed:
    code = data.raw.get("code")
    word = str(data.whole("code")) if isinstance(code, int) else data.text("code")
    return MessageFailed(data.text("messageId"), word, data.optional_text("error") or "")


def _message_received(data: JsonFields, _at_ms: int) -> IncomingMessage:
    return IncomingMessage(
        whatsapp_id=data.text("whatsappId"),
        sender=data.text("from"),
        phone=data.optional_text("phone"),
        lid=data.optional_text("lid"),
        push_name=data.optional_text("pushName"),
        kind=data.text("kind"),
        text=data.optional_text("text"),
        media=data.within("media").raw if data.has("media") else None,
        at_ms=data.instant_ms("at"),
        group=data.optional_text("group"),
        location=_location(data.within("location")) if data.has("location") else None,
    )


def _location(place: JsonFields) -> Location | None:
    """Return a location; None for one without coordinates, which somebody's phone may send."""
    if not place.has("latitude") or not place.has("longitude"):
        return None
    return Location(
        place.number("latitude"), place.number("longitude"), place.optional_text("name"), place.optional_text("address")
    )


def _account_limits(data: JsonFields, _at_ms: int) -> AccountLimits:
    lock = data.within("reachoutLock")
    cap = data.within("newChatCap") if data.has("newChatCap") else None
    return AccountLimits(
        ReachoutLockReport(lock.flag("active"), lock.optional_instant_ms("endsAt"), lock.optional_text("type") or ""),
        None
        if cap is None
        else NewChatCap(
            cap.text("status"),
            cap.optional_whole("used"),
            cap.optional_whole("total"),
            cap.optional_instant_ms("endsAt"),
        ),
    )


_READERS: Mapping[str, Callable[[JsonFields, int], Payload]] = MappingProxyType(
    {
        "QR_CODE": _qr_code,
        "PAIRING_CODE": _pairing_code,
        "CONNECTED": _connected,
        "DISCONNECTED": _disconnected,
        "STATUS_CHANGE": lambda data, _at_ms: StatusChange(data.text("status"), data.optional_text("error")),
        "PING": _ping,
        "MESSAGE_SENT": lambda data, _at_ms: MessageSent(
            data.text("messageId"), data.text("whatsappId"), data.optional_text("to")
        ),
        "MESSAGE_FAILED": _message_failed,
        "MESSAGE_STATUS": lambda data, _at_ms: MessageReceipt(
            data.text("whatsappId"), data.word("status", Receipt), data.instant_ms("at")
        ),
        "MESSAGE_RECEIVED": _message_received,
        "PROXY_ERROR": _proxy_error,
        "AUTH_FAILURE": lambda data, _at_ms: AuthFailure(data.text("reason")),
        "ACCOUNT_LIMITS": _account_limits,
    }
)

#: WhatsApp's numbers for the end of a connection.
_BY_CODE: Mapping[int, Event] = MappingProxyType(
    {
        401: Event.LOGGED_OUT,
        402: Event.TEMPORARILY_BANNED,
        403: Event.BANNED,
        405: Event.CLIENT_REFUSED,
        406: Event.BANNED,
        440: Event.REPLACED,
    }
)
#: Status words of the worker itself. They are those of `session.Reason` where there is one.
_BY_STATUS: Mapping[str, Event] = MappingProxyType(
    {
        "PASSKEY_REQUIRED": Event.PASSKEY_DEMANDED,
        "QR_EXPIRED": Event.QR_RAN_OUT,
        "CLIENT_OUTDATED": Event.CLIENT_REFUSED,
    }
)


def to_session_event(payload: Payload) -> Event | None:
    """Return what an event means for the state of its session; None for most, and None for a failure of the proxy.

    The server checks a proxy before it does anything to its sessions; see `mentions_proxy`.
    """
    match payload:
        case QrCode():
            return Event.QR_SHOWN
        case PairingCodeShown():
            return Event.CODE_SHOWN
        case Connected():
            return Event.CONNECTED
        case Disconnected():
            return _disconnection(payload.reason, payload.code)
        case StatusChange(status):
            return _BY_STATUS.get(status.upper())
        case AuthFailure():
            return Event.AUTH_BROKEN
        case (
            Ping()
            | MessageSent()
            | MessageFailed()
            | MessageReceipt()
            | IncomingMessage()
            | ProxyError()
            | AccountLimits()
            | UnknownEvent()
        ):
            return None
    assert_never(payload)


def mentions_proxy(payload: Payload) -> bool:
    """Whether an event blames the proxy, in any of the three ways in which a worker may do that."""
    match payload:
        case ProxyError():
            return True
        case StatusChange(status, error):
            return "proxy" in f"{status} {error or ''}".lower()
        case Disconnected(reason):
            return "proxy" in reason.lower() or "socks" in reason.lower()
        case _:
            return False


def _disconnection(reason: str, code: int) -> Event:
    named = _BY_STATUS.get(reason.upper())
    # 408, 428, 503, 515 and every unknown number: the worker reconnects by itself.
    return named or _BY_CODE.get(code, Event.CONNECTION_LOST)
