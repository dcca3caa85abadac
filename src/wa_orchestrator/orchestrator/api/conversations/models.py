"""Conversations and their messages as the API shows them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from wa_orchestrator.domain.conversation import ConversationState, ReplyObstacle
from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.orchestrator.api.events.incoming_models import (
    ContactCard,
    EventLocation,
    IncomingFileView,
    PollView,
    QuoteView,
)
from wa_orchestrator.web.models import (
    NextCursor,
    OptionalText,
    OptionalTimestamp,
    RequestModel,
    ResponseModel,
    TagNames,
)

LONGEST_NOTES = 4_000
LONGEST_REPLY = 4_096


class ContactNames(ResponseModel):
    """A person by all known names."""

    phone: OptionalText
    lid: OptionalText = Field(description="How WhatsApp names them where it hides the phone.")
    name: OptionalText = Field(description="The name that they have chosen; of a group, what it is called.")


class Preview(ResponseModel):
    """A message in one line."""

    message_id: str
    direction: Literal["in", "out"]
    kind: str
    text: OptionalText = Field(description="The beginning of its text or caption; null without one, or once erased.")
    status: MessageStatus | None = Field(description="Of a message that was sent from here.")
    at: OptionalTimestamp


class ConversationView(ResponseModel):
    """A conversation in a list. An account has one with each contact, however many of its sessions are linked."""

    conversation_id: str = Field(examples=["c_dzEgOTcyNTAxMjM0NTY3"])
    session_id: str = Field(
        description="The session that answers: the one that has the conversation, or another of its account while that "
        "one is not connected."
    )
    contact: ContactNames
    group: OptionalText = Field(description="The id of the group, if it is one.")
    state: ConversationState
    unread: int = Field(
        description="Messages that nobody has read. An accepted answer reads them all, unless it is of a campaign or a "
        "batch; one for later does when it is due. If it is cancelled, expires or fails, they are unread again."
    )
    waiting_since: OptionalTimestamp = Field(description="When the first of these came.")
    last_at: OptionalTimestamp
    last_message: Preview | None = Field(description="Null once retention has erased it.")
    opted_out: bool
    has_sender: bool = Field(description="Whether this account is the one that answers the contact by default.")
    tags: list[str]
    assigned_to: OptionalText = Field(description="The id of the person who answers it.")


class ConversationPage(ResponseModel):
    """A page of conversations: those that wait, the longest first, then the others, the newest first."""

    conversations: list[ConversationView]
    next: NextCursor
    waiting: int = Field(description="How many conversations wait, on all pages.")
    open: int = Field(description="How many others are open.")
    closed: int = Field(description="How many are closed.")


class ReplyForecast(ResponseModel):
    """What would happen to an answer sent now: POST /api/v1/send with this `to`, the `sessionId`, and priority 1."""

    to: OptionalText = Field(description="The recipient to send to; null if there is an obstacle.")
    obstacle: ReplyObstacle | None = Field(description="Why it cannot be answered; null if it can.")
    eta: OptionalTimestamp = Field(description="When it would leave; null if that depends on a person or on WhatsApp.")
    because: str = Field(description="What it would wait for.", examples=["NOTHING", "OUTSIDE_HOURS"])
    ahead: int = Field(description="Messages that leave before it.")


class EarlierNotes(ResponseModel):
    """What the notes said before they were changed."""

    text: str
    at: OptionalTimestamp = Field(description="When this text was written; null where that was not recorded.")
    by: OptionalText = Field(description="Who wrote it, by name.")


class ConversationDetail(ConversationView):
    """A conversation with what people noted, and when an answer would leave."""

    notes: str
    noted_at: OptionalTimestamp = Field(description="When the notes were last changed.")
    noted_by: OptionalText = Field(description="Who did that, by name.")
    earlier_notes: list[EarlierNotes] = Field(description="The texts before, the newest first, at most 20.")
    read_at: OptionalTimestamp
    closed_at: OptionalTimestamp
    created_at: OptionalTimestamp
    reply: ReplyForecast


class ConversationPatch(RequestModel):
    """What to change; fields that are missing stay."""

    notes: Annotated[str, Field(max_length=LONGEST_NOTES)] | None = Field(None, description="'' removes them.")
    tags: TagNames | None = None
    assigned_to: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="The id of a person; '' for nobody."
    )
    state: Literal["open", "closed"] | None = Field(None, description="It opens again when the contact writes.")


class ReadMark(RequestModel):
    """Up to where a conversation was read."""

    until: Annotated[str, Field(max_length=240)] | None = Field(
        None, description="The `messageId` of the last message that was seen; missing: all of them."
    )
    unread: bool = Field(False, description="True makes it wait again, for somebody else.")
    tell: bool = Field(
        False,
        description="Also tell WhatsApp, so that the contact sees it as far as the account's privacy settings show it. "
        "Not in a group; only while the session is connected, not on hold and within ACTS_PER_MINUTE.",
    )


class ReactionView(ResponseModel):
    """A reaction to a message."""

    emoji: str
    sender: OptionalText = Field(alias="from", description="The phone or `lid:…`; null for the account itself.")


class WaitingView(ResponseModel):
    """What a message waits for."""

    because: str = Field(examples=["OUTSIDE_HOURS"])
    text: str
    eta: OptionalTimestamp


class ThreadMessage(ResponseModel):
    """A message of a conversation. Which fields it has depends on its kind."""

    message_id: str
    whatsapp_id: str
    direction: Literal["in", "out"]
    at: OptionalTimestamp = Field(description="When it came in, or was accepted.")
    kind: str = Field(examples=["text", "image", "voice"])
    sender: ContactNames | None = Field(alias="from", description="Who wrote it; null for the account itself.")
    text: OptionalText = Field(description="Text, caption or question, after its last edit.")
    status: MessageStatus | None = Field(description="Of a message that was sent from here.")
    reason: OptionalText
    reason_text: OptionalText
    waiting: WaitingView | None = Field(description="What it waits for, while it does.")
    elsewhere: bool = Field(description="Whether it was sent from the phone itself.")
    media: IncomingFileView | None
    has_file: bool = Field(description="Whether GET /api/v1/messages/{messageId}/media has its file.")
    has_thumbnail: bool = Field(description="Whether GET /api/v1/messages/{messageId}/thumbnail has a small picture.")
    location: EventLocation | None
    contacts: list[ContactCard]
    poll: PollView | None
    votes: dict[str, int] = Field(description="Of a poll: option → how many chose it.")
    reply_to: QuoteView | None
    forwarded: bool
    view_once: bool
    reactions: list[ReactionView]
    edited_at: OptionalTimestamp
    original_text: OptionalText = Field(description="The text before its first edit.")
    deleted_at: OptionalTimestamp = Field(description="When its sender deleted it; text and file are then not shown.")


class ThreadNotice(ResponseModel):
    """What a conversation has besides messages: a call that ended, or a message that could not be read."""

    notice_id: str
    kind: Literal["call", "undecryptable"]
    at: OptionalTimestamp
    outcome: OptionalText = Field(description="How the call ended: missed, answered or rejected.")
    video: bool = Field(description="Whether it was a video call.")
    reason: OptionalText = Field(description="Why the message could not be read: decrypt, view_once or unavailable.")


class ThreadPage(ResponseModel):
    """A page of a conversation, the newest message first."""

    messages: list[ThreadMessage]
    notices: list[ThreadNotice] = Field(description="From the time of these messages, the oldest first.")
    next: NextCursor
    complete: bool = Field(description="False where this process cannot read the archive.")


class ContactView(ResponseModel):
    """A contact, and the conversations with it."""

    contact: ContactNames
    opted_out: bool = Field(description="Whether none of the phones that spoke with the person may write to them.")
    session_id: OptionalText = Field(description="The session that answers by default: the one that spoke last.")
    conversations: list[str] = Field(description="Their ids, the one with the latest message first.")
    last_at: OptionalTimestamp = Field(description="When they last wrote or were answered.")
    last_message: Preview | None = Field(description="Null once retention has erased it.")
    tags: list[str] = Field(description="Those of all their conversations.")
    notes: list[str] = Field(description="What people noted in their conversations.")


class ContactPage(ResponseModel):
    """A page of the people with whom there is a conversation, by number."""

    contacts: list[ContactView]
    next: NextCursor


class QuickReply(ResponseModel):
    """An answer that people insert by its name."""

    name: str
    text: str


class QuickReplies(ResponseModel):
    """All of them, by name."""

    quick_replies: list[QuickReply]


class QuickReplyBody(RequestModel):
    """The text of an answer."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_REPLY)]


Fields = dict[str, Any]
