"""Request bodies of the gateway, and the checks between the fields of a message."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from wa_orchestrator.domain import phone, recipient
from wa_orchestrator.domain.messages.content import (
    LONGEST_CAPTION,
    LONGEST_NAME,
    LONGEST_OPTION,
    LONGEST_QUESTION,
    LONGEST_TEXT,
    MOST_CARDS,
    MOST_MENTIONS,
    MOST_OPTIONS,
    MediaKind,
)
from wa_orchestrator.errors import Refused
from wa_orchestrator.web.models import RequestModel

MAX_BATCH: Final = 1000
LONGEST_KEY: Final = 255
LONGEST_REFERENCE: Final = 200
#: Valid, unlike the one that OpenAPI tools would make of the examples of all fields.
EXAMPLE: Final[JsonDict] = {"to": "972501234567", "message": "Your order is ready.", "reference": "order-1001"}
_LAST_MS: Final = 4_102_444_800_000
_MIMETYPE = r"^[A-Za-z0-9][\w.+-]*/[A-Za-z0-9][\w.+-]*(;[ -~]*)?$"
#: The fields that are the content of a message; exactly one is given.
_CONTENTS: Final = ("message", "text", "media", "location", "contacts", "poll")
_WITHOUT_CONTROLS = re.compile(r"[^\x00-\x1f\x7f]*")


def _phone(text: str) -> str:
    try:
        return phone.parse(text)
    except phone.BadPhone as error:
        raise PydanticCustomError("phone", "{text}", {"text": error.text}) from None


def _recipient(text: str) -> str:
    return _parsed(text, recipient.parse_with_username)


def _parsed(text: str, parse: Callable[[str], str]) -> str:
    try:
        return parse(text)
    except Refused as error:
        raise PydanticCustomError("recipient", "{text}", {"text": error.text}) from None


def _person(text: str) -> str:
    found = _parsed(text, recipient.parse)
    if recipient.is_group(found):
        raise PydanticCustomError("recipient", "A group cannot be mentioned; mention its members.")
    return found


def _instant_ms(value: object) -> int:
    """Parse an instant: an ISO date and time with its offset, or milliseconds since 1970."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value.isascii() and value.isdigit() and len(value) <= 15:  # a query has strings only
            return int(value)
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is not None:
                return int(moment.timestamp() * 1000)
    raise PydanticCustomError(
        "instant", "Must be a date and time with its offset, such as 2026-01-31T09:00:00+02:00, or milliseconds."
    )


def _one_line(text: str) -> str:
    if not _WITHOUT_CONTROLS.fullmatch(text):
        raise PydanticCustomError("one_line", "Must not contain line breaks or other control characters.")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "Must contain a visible character.")
    return text


Phone = Annotated[
    str,
    AfterValidator(_phone),
    Field(description="Country code and number, 8 to 15 digits.", examples=["972501234567"]),
]
Recipient = Annotated[
    str,
    AfterValidator(_recipient),
    Field(
        description="A phone (country code and number, 8 to 15 digits), `lid:` and the LID of a person whose phone is "
        "hidden, `@` and a username (`@name:1234` where the person wants a key with it), or a group (`…@g.us`), which "
        "needs `sessionId` or `phone` too.",
        examples=["972501234567"],
    ),
]
Mentioned = Annotated[
    str, AfterValidator(_person), Field(description="A phone, or `lid:` and a LID.", examples=["972501234567"])
]
Instant = Annotated[
    int,
    BeforeValidator(_instant_ms),
    Field(ge=0, le=_LAST_MS),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "minimum": 0}],
            "examples": ["2026-01-31T09:00:00+02:00"],
        }
    ),
]
SessionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["worker_1"])]
BatchId = Annotated[str, Field(pattern=r"^b_[0-9a-f]{18}$", examples=["b_0a1b2c3d4e5f607182"])]
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_not_blank)]
Reference = Annotated[str, Field(min_length=1, max_length=LONGEST_REFERENCE)]
Line = Annotated[str, AfterValidator(_one_line)]


class MediaBody(RequestModel):
    """A file: an https URL, which the server fetches at once, or the id of an upload."""

    url: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        None, examples=["https://example.com/menu.pdf"]
    )
    upload: Annotated[str, Field(pattern=r"^u_[0-9a-f]{32}$")] | None = Field(
        None, description="The `uploadId` from POST /api/v1/uploads."
    )
    mimetype: Annotated[str, Field(pattern=_MIMETYPE, max_length=120)] | None = Field(
        None, description="Default: that of the URL or the upload.", examples=["application/pdf"]
    )
    filename: Annotated[Line, Field(min_length=1, max_length=LONGEST_NAME)] | None = Field(None, examples=["menu.pdf"])
    caption: Annotated[str, Field(max_length=LONGEST_CAPTION)] | None = None
    kind: MediaKind | None = Field(
        None,
        description="How WhatsApp shows it. Default: by the mimetype. Any sound becomes a `voice` note, any picture a "
        "`sticker`.",
    )
    view_once: bool = Field(False, description="A picture, video or voice note that can be opened once.")


class LocationBody(RequestModel):
    """A location on the map."""

    latitude: Annotated[float, Field(ge=-90, le=90, allow_inf_nan=False)]
    longitude: Annotated[float, Field(ge=-180, le=180, allow_inf_nan=False)]
    name: Annotated[str, Field(max_length=LONGEST_NAME)] | None = None
    address: Annotated[str, Field(max_length=LONGEST_NAME)] | None = None


class CardBody(RequestModel):
    """A contact card."""

    name: Annotated[Line, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_not_blank)]
    phones: Annotated[list[Phone], Field(min_length=1, max_length=5)]


class PollBody(RequestModel):
    """A poll."""

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION), AfterValidator(_not_blank)]
    options: Annotated[
        list[Annotated[Line, Field(min_length=1, max_length=LONGEST_OPTION), AfterValidator(_not_blank)]],
        Field(min_length=2, max_length=MOST_OPTIONS),
    ]
    selectable: Annotated[int, Field(ge=0, le=MOST_OPTIONS)] = Field(
        1, description="How many options a person may choose; 0 is any number."
    )


class SendBody(RequestModel):
    """One message, with exactly one of `message` (or `text`), `media`, `location`, `contacts` and `poll`."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    to: Recipient
    message: Text | None = Field(None, description="The text.", examples=["Your order is ready."])
    text: Text | None = Field(None, description="Another name for `message`.")
    media: MediaBody | None = None
    location: LocationBody | None = None
    contacts: Annotated[list[CardBody], Field(min_length=1, max_length=MOST_CARDS)] | None = None
    poll: PollBody | None = None
    reply_to: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{4,250}$")] | None = Field(
        None,
        description="The message that this one answers: its `messageId` or `whatsappId`. WhatsApp shows it above.",
        examples=["m_0a1b2c3d4e5f607182"],
    )
    # A tuple, because pydantic copies a default that can change, for every message.
    mentions: Annotated[tuple[Mentioned, ...], Field(max_length=MOST_MENTIONS)] = Field(
        (), description="People who are mentioned; the text or caption contains `@` and the digits of each."
    )
    link_preview: bool = Field(
        False,
        description="Show the title, description and picture of the page that the text links to. The server reads the "
        "page; without an answer within seconds the message has no preview.",
    )
    session_id: SessionId | None = Field(None, description="The session that sends it.")
    phone: Phone | None = Field(None, description="The phone that sends it.")
    priority: Literal[1, 2, 3] = Field(2, description="1 is sent first.")
    send_at: Instant | None = Field(None, description="Not before this instant.")
    expires_at: Instant | None = Field(None, description="Not after this instant.")
    on_limit: Literal["reject", "defer"] = Field(
        "reject", description="When the phone's daily limit is reached: refuse the message, or send it the next day."
    )
    reference: Annotated[Line, Field(min_length=1, max_length=LONGEST_REFERENCE)] | None = Field(
        None, description="Your own id for the message; searchable.", examples=["order-1001"]
    )
    idempotency_key: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)] | None = Field(
        None, description="Same as the header `Idempotency-Key`."
    )


class BatchEnvelope(RequestModel):
    """A batch before its messages are validated."""

    messages: Annotated[list[Any], Field(min_length=1, max_length=MAX_BATCH)]
    spread_minutes: Annotated[float, Field(ge=0, le=7 * 24 * 60, allow_inf_nan=False)] = Field(
        0, description="Spread the messages evenly over this many minutes."
    )


class BatchBody(BatchEnvelope):
    """Up to 1,000 messages, each validated and answered on its own."""

    messages: Annotated[list[SendBody], Field(min_length=1, max_length=MAX_BATCH)]


Problem = dict[str, str]


def cross_problems(raw: dict[str, Any], now_ms: int) -> Iterator[Problem]:
    """Yield the problems between the fields of one message; `raw` is the JSON object of the client."""
    given = [name for name in _CONTENTS if raw.get(name) is not None]
    if not given:
        yield _problem("message", "missing", f"Give a text in `message`, or one of {', '.join(_CONTENTS[2:])}.")
    elif len(given) > 1:
        hint = " A text beside a file goes into `media.caption`." if "media" in given else ""
        yield _problem(given[1], "ambiguous", f"Give only one of {', '.join(given)}.{hint}")
    media = raw.get("media")
    if isinstance(media, dict) and (media.get("url") is None) == (media.get("upload") is None):
        yield _problem("media", "ambiguous", "Give either `url` or `upload`.")
    if isinstance(media, dict) and media.get("viewOnce") and media.get("kind") in ("document", "sticker", "audio"):
        yield _problem("media.viewOnce", "not_viewable", "Only a picture, a video or a voice note can be viewed once.")
    if raw.get("linkPreview") and given and given[0] not in ("message", "text"):
        yield _problem("linkPreview", "not_a_text", "Only a text has a link preview.")
    yield from _poll_problems(raw.get("poll"))
    yield from _mention_problems(raw)
    yield from _group_problems(raw)
    yield from _time_problems(raw.get("sendAt"), raw.get("expiresAt"), now_ms)


def _poll_problems(poll: object) -> Iterator[Problem]:
    options = poll.get("options") if isinstance(poll, dict) else None
    if isinstance(poll, dict) and isinstance(options, list):
        if len(set(map(str, options))) < len(options):
            yield _problem("poll.options", "repeated", "Each option must be different.")
        selectable = poll.get("selectable")
        if isinstance(selectable, int) and selectable > len(options):
            yield _problem("poll.selectable", "too_many", "There are not so many options.")


def _mention_problems(raw: dict[str, Any]) -> Iterator[Problem]:
    media, mentions = raw.get("media"), raw.get("mentions")
    caption = media.get("caption") if isinstance(media, dict) else None
    text = str(raw.get("message") or raw.get("text") or caption or "")
    for index, each in enumerate(mentions if isinstance(mentions, list) else []):
        with suppress(Refused):
            person = recipient.parse(str(each))
            digits = recipient.lid_of(person) or person
            if f"@{digits}" not in text:
                yield _problem(f"mentions.{index}", "not_in_text", f"The text must contain @{digits}.")


def _group_problems(raw: dict[str, Any]) -> Iterator[Problem]:
    is_group = str(raw.get("to", "")).strip().endswith("@g.us")
    if is_group and raw.get("sessionId") is None and raw.get("phone") is None:
        yield _problem("sessionId", "missing", "A message to a group needs `sessionId` or `phone`: a member of it.")


def _time_problems(send_at: object, expires_at: object, now_ms: int) -> Iterator[Problem]:
    starts, ends = (_or_none(value) for value in (send_at, expires_at))
    if ends is not None and ends <= now_ms:
        yield _problem("expiresAt", "past", "Must be in the future.")
    elif starts is not None and ends is not None and ends <= starts:
        yield _problem("expiresAt", "order", "Must be later than `sendAt`.")
    if starts is not None and starts > now_ms + 366 * 86_400_000:
        yield _problem("sendAt", "too_far", "Must be within a year.")


def _or_none(value: object) -> int | None:
    try:
        return _instant_ms(value)
    except PydanticCustomError:
        return None


def _problem(path: str, code: str, message: str) -> Problem:
    return {"path": path, "code": code, "message": message}
