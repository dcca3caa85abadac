"""Request bodies of the control API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from wa_orchestrator.simulator.phones.content import Content


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Scan(_Body):
    """The content of the scanned QR code."""

    qr: str = Field(min_length=1)


class EnterCode(_Body):
    """The code entered under "Link with phone number"."""

    code: str = Field(min_length=8, max_length=9)


class Say(_Body):
    """A text from a phone, to a phone or a group. It disappears after `expires` seconds.

    `byLid` names the sender by LID or by number; without it by the kind of the receiver's account.
    """

    to: str = Field(min_length=1)
    text: str = Field(min_length=1)
    expires: int | None = Field(default=None, gt=0)
    by_lid: bool | None = Field(default=None, alias="byLid")


class SayMedia(_Body):
    """An image, video, audio or document from a phone; `data` and the JPEG that is shown before it are base64."""

    to: str = Field(min_length=1)
    kind: Literal["image", "video", "audio", "document", "sticker"]
    data: str
    mimetype: str = "application/octet-stream"
    caption: str | None = None
    filename: str | None = None
    form: Literal["plain", "voice", "view_once"] = "plain"
    album: str | None = None
    thumbnail: str = ""


class SayContent(_Body):
    """Anything else that a person sends: a reply, a place, a poll, a vote, a reaction, an edit, …"""

    to: str = Field(min_length=1)
    content: Annotated[Content, Field(discriminator="kind")]


class Album(_Body):
    """The head of an album, and how many files follow."""

    to: str = Field(min_length=1)
    images: int = Field(default=0, ge=0)
    videos: int = Field(default=0, ge=0)


class Call(_Body):
    """A call, with or without video."""

    to: str = Field(min_length=1)
    video: bool = False


class EndCall(_Body):
    """How a call ends; `accept` is the callee who takes it on another device."""

    to: str = Field(min_length=1)
    how: Literal["hang_up", "timeout", "reject", "accept"] = "hang_up"


class Join(_Body):
    """The link of a group, or its end."""

    link: str = Field(min_length=1, max_length=200)


class Read(_Body):
    """The sender whose messages are read; all without `from`."""

    of: str | None = Field(default=None, alias="from")


class Unlink(_Body):
    """The device to unlink; all without `device`."""

    device: int | None = Field(default=None, ge=1)


class Account(_Body):
    """What an account is: `migrated` is whether its chats go by LIDs, `hidesNumber` whether others see its LID only.

    Without its `usernameKey`, where it has one, nobody learns whose a username is.
    """

    migrated: bool | None = None
    username: str | None = Field(default=None, max_length=40)
    username_key: str | None = Field(default=None, alias="usernameKey", pattern=r"^([0-9]{4})?$")
    hides_number: bool | None = Field(default=None, alias="hidesNumber")


class GroupRequest(_Body):
    """A group that `phone` creates."""

    phone: str
    subject: str = Field(min_length=1, max_length=100)
    members: list[str] = Field(min_length=1)
    mode: Literal["lid", "pn"] | None = None


class AttemptOfScenario(_Body):
    """What WhatsApp did to one attempt: faults as `POST /faults` has them, and whether the message was read."""

    faults: list[dict[str, Any]] = Field(default_factory=list, max_length=10)
    read: bool = False


class ScenarioRequest(BaseModel):
    """A scenario of `wa-orchestrator reproduce`, and the phones to play it on."""

    model_config = ConfigDict(extra="ignore")
    format: Literal[2]
    sender: str
    recipient: str
    attempts: list[AttemptOfScenario] = Field(max_length=100)


class Revision(_Body):
    """The client revision that the page for the version check names."""

    revision: int = Field(gt=0)


class OnPhone(_Body):
    """A fault of one account."""

    phone: str


class OnProxy(_Body):
    """A fault of one proxy: its id, its URL or its port."""

    proxy: str | int


class FaultRequest(BaseModel):
    """A fault; further fields depend on its kind."""

    model_config = ConfigDict(extra="allow")
    target: Literal["whatsapp", "telegram"] | OnPhone | OnProxy
    kind: str = Field(min_length=1)
    seconds: float | None = Field(default=None, gt=0)
    code: int | None = None
