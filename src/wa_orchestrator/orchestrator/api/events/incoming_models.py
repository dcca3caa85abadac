"""Incoming messages as events show them: the parts of each kind."""

from typing import Annotated, Any, Final

from pydantic import Field

from wa_orchestrator.web.models import ResponseModel, Timestamp


class EventLocation(ResponseModel):
    """A location that somebody sent."""

    latitude: float
    longitude: float
    name: str | None = None
    address: str | None = None


class IncomingFileView(ResponseModel):
    """What the sender says about a file."""

    mimetype: str | None = None
    size: int | None = Field(None, description="Bytes, as the sender says.")
    filename: str | None = None
    seconds: int | None = Field(None, description="Of a voice note, audio or video.")
    width: int | None = None
    height: int | None = None
    pages: int | None = None
    animated: bool | None = None
    gif: bool | None = None
    round: bool | None = Field(None, description="A video that was recorded in a circle.")


class ContactCard(ResponseModel):
    """A contact card."""

    name: str
    phones: list[str]


class PollView(ResponseModel):
    """The options of a poll; its question is `text`."""

    options: list[str]
    selectable: int = Field(description="How many may be chosen; 0 means any number.")


class VoteView(ResponseModel):
    """What a person chose, in place of what they chose before; nothing when they took their vote back."""

    options: list[str]


class TargetView(ResponseModel):
    """The message that a reaction, a vote, an edit or a deletion is about."""

    message_id: str = Field(description="Our id of it, whether or not we have it.")
    whatsapp_id: str
    from_me: bool | None = Field(None, description="Whether it is the account's own.")


class QuoteView(TargetView):
    """The message that a reply quotes, as the reply shows it; WhatsApp does not check that."""

    phone: str | None = None
    lid: str | None = None
    kind: str | None = None
    text: str | None = None


class MentionView(ResponseModel):
    """A person whom a text mentions."""

    phone: str | None = None
    lid: str | None = None


class AdView(ResponseModel):
    """The advertisement from which the conversation began."""

    title: str | None = None
    text: str | None = None
    url: str | None = None
    click_id: str | None = None


def _maybe(kind: Any, description: str | None = None) -> Any:
    return Annotated[kind | None, Field(default=None, description=description)]


#: What an event of an incoming message has besides the fields of the stream.
FIELDS: Final[dict[str, Any]] = {
    "messageId": Annotated[str, Field(description="Our id of the message.")],
    "conversationId": _maybe(str, "The conversation with the contact or the group."),
    "from": _maybe(str, "How WhatsApp names the sender; in what was sent elsewhere, the recipient."),
    "groupName": _maybe(str, "What the group is called; missing where WhatsApp has not told it yet."),
    "pushName": _maybe(str, "The name that the sender has chosen."),
    "username": _maybe(str, "By which others find the sender: a message can go to `@` and it."),
    "text": _maybe(str, "The text, caption, question, emoji of a reaction, or the words of the chosen button or row."),
    "sentAt": _maybe(Timestamp),
    "media": _maybe(IncomingFileView),
    "hasThumbnail": _maybe(bool, "Whether GET /api/v1/messages/{messageId}/thumbnail has a small picture of it."),
    "location": _maybe(EventLocation),
    "contacts": _maybe(list[ContactCard]),
    "poll": _maybe(PollView),
    "vote": _maybe(VoteView, "Missing where the vote could not be read, because its poll is unknown."),
    "target": _maybe(TargetView),
    "choice": _maybe(str, "The id of the chosen button or row."),
    "replyTo": _maybe(QuoteView),
    "mentions": _maybe(list[MentionView]),
    "album": _maybe(str, "The same for all files of an album."),
    "forwarded": _maybe(bool),
    "viewOnce": _maybe(bool),
    "ad": _maybe(AdView),
    "fromMe": _maybe(bool, "Whether the account's owner sent it."),
}
