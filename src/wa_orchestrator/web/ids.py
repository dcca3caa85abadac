"""Ids in paths: every one is checked by its pattern before anything is looked up under it."""

import re
from typing import Annotated, Final

from fastapi import Path

SESSION_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: What we generate ourselves: a prefix, and hexadecimal or URL-safe digits.
_OWN: Final = r"^[A-Za-z0-9_-]{1,80}$"
#: Names that people give, and phones as they write them; what they mean is checked by the route.
PRINTABLE: Final = r"^[^\x00-\x1f\x7f]{1,200}$"

MessageId = Annotated[str, Path(pattern=_OWN, description="The message's id.", examples=["m_0123456789abcdef01"])]
CommandId = Annotated[str, Path(pattern=_OWN)]
UploadId = Annotated[str, Path(pattern=_OWN)]
KeyId = Annotated[str, Path(pattern=_OWN, description="The key's id.")]
TrashId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,120}$", description="`id` in the list.")]
EventNumber = Annotated[str, Path(pattern=_OWN, description="The event's id.")]
WebhookId = Annotated[str, Path(pattern=_OWN, description="The webhook's id.")]
