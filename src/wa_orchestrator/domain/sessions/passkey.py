"""The answer of a person whom WhatsApp asked for the passkey: checked here before the attempt is spent on it."""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

#: The site on which the browser signs, and the name under which it keeps the passkey.
ORIGIN, RP_ID = "https://web.whatsapp.com", "whatsapp.com"
LONGEST_ANSWER: Final = 16_384
_RP_HASH: Final = hashlib.sha256(RP_ID.encode()).digest()
_PRESENT, _VERIFIED = 0x01, 0x04
_BINARY: Final = ("clientDataJSON", "authenticatorData", "signature")


class Problem(StrEnum):
    """Why an answer is not sent to WhatsApp; it is not used up."""

    MALFORMED = "PASSKEY_MALFORMED"
    OTHER_SITE = "PASSKEY_OTHER_SITE"
    OLD_REQUEST = "PASSKEY_OLD_REQUEST"
    NOT_VERIFIED = "PASSKEY_NOT_VERIFIED"


@dataclass(frozen=True, slots=True, repr=False)
class Assertion:
    """What WhatsApp is sent, rebuilt from the answer: nothing else that was pasted goes along."""

    text: str
    """JSON."""


def challenge_of(options: str) -> str:
    """Return the challenge in WhatsApp's request; '' if there is none."""
    try:
        found = json.loads(options).get("challenge", "")
    except (ValueError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def check(answer: str, challenge: str) -> Assertion | Problem:
    """Check an answer, as JSON or as base64url of it, to the request with this challenge."""
    try:
        credential = json.loads(answer if answer.lstrip().startswith("{") else _decode(answer.strip()))
        response: Mapping[str, Any] = credential["response"]
        client_data, data, signature = (_decode(response[name]) for name in _BINARY)
        client = json.loads(client_data)
        _decode(credential["rawId"])
        is_key = credential["type"] == "public-key" and client["type"] == "webauthn.get" and bool(signature)
        origin, signed = client["origin"], client["challenge"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return Problem.MALFORMED
    if not is_key or len(data) < 37:
        return Problem.MALFORMED
    if origin != ORIGIN or data[:32] != _RP_HASH:
        return Problem.OTHER_SITE
    if not challenge or signed != challenge:
        return Problem.OLD_REQUEST
    if not data[32] & _PRESENT or not data[32] & _VERIFIED:
        return Problem.NOT_VERIFIED
    return Assertion(_rebuilt(credential, response))


def _rebuilt(credential: Mapping[str, Any], response: Mapping[str, Any]) -> str:
    handle = response.get("userHandle")
    raw_id = _plain(credential["rawId"])
    answer = {name: _plain(response[name]) for name in _BINARY}
    answer["userHandle"] = _plain(handle) if isinstance(handle, str) and handle else None  # type: ignore[assignment]
    return json.dumps({"id": raw_id, "rawId": raw_id, "type": "public-key", "response": answer})


def _plain(text: str) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(_decode(text)).rstrip(b"=").decode()


def _decode(text: object) -> bytes:
    if not isinstance(text, str) or len(text) > LONGEST_ANSWER:
        raise ValueError("no base64url")
    try:
        padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("no base64url") from error
