"""What the remote control takes in the bodies of its requests."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Scan(_Body):
    """What the phone's camera sees."""

    qr: str = Field(min_length=1)


class EnterCode(_Body):
    """What the person types into "link with phone number"."""

    code: str = Field(min_length=8, max_length=9)


class Say(_Body):
    """A text from a phone, to a phone or a group. It disappears after `expires` seconds; `byLid` hides the number."""

    to: str = Field(min_length=1)
    text: str = Field(min_length=1)
    expires: int | None = Field(default=None, gt=0)
    by_lid: bool = Field(default=False, alias="byLid")


class SayMedia(_Body):
    """A picture, film, sound or document from a phone; `data` is base64."""

    to: str = Field(min_length=1)
    kind: Literal["image", "video", "audio", "document", "sticker"]
    data: str
    mimetype: str = "application/octet-stream"
    caption: str | None = None
    filename: str | None = None


class Read(_Body):
    """Which messages the person looks at; all of them without `from`."""

    of: str | None = Field(default=None, alias="from")


class Unlink(_Body):
    """Which device the person removes; all of them without `device`."""

    device: int | None = Field(default=None, ge=1)


class Group(_Body):
    """A group that `phone` makes."""

    phone: str
    subject: str = Field(min_length=1, max_length=100)
    members: list[str] = Field(min_length=1)


class OnPhone(_Body):
    """A fault of one account."""

    phone: str


class OnProxy(_Body):
    """A fault of one proxy: its id, its URL or its port."""

    proxy: str | int


class Fault(BaseModel):
    """Something that goes wrong; further fields belong to the kind of fault."""

    model_config = ConfigDict(extra="allow")
    target: Literal["whatsapp", "telegram"] | OnPhone | OnProxy
    kind: str = Field(min_length=1)
    seconds: float | None = Field(default=None, gt=0)
    code: int | None = None
