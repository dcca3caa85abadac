"""Second factor of a login: codes of an authenticator app (TOTP, RFC 6238), and recovery codes."""

import base64
import hashlib
import hmac
from typing import Final
from urllib.parse import quote, urlencode

STEP_S: Final = 30
#: Clocks of phones are wrong by this many steps at most.
_DRIFT: Final = 1
_DIGITS: Final = 6


def uri(secret: bytes, name: str, issuer: str = "WhatsApp Orchestrator") -> str:
    """Return what the QR code of the enrolment says."""
    label = f"{quote(issuer)}:{quote(name)}"
    return f"otpauth://totp/{label}?{urlencode({'secret': spelled(secret), 'issuer': issuer})}"


def spelled(secret: bytes) -> str:
    """Return the secret as apps take it when it is typed."""
    return base64.b32encode(secret).decode().rstrip("=")


def code_at(secret: bytes, step: int) -> str:
    """Return the code of a step of 30 seconds since 1970."""
    mac = hmac.digest(secret, step.to_bytes(8, "big"), hashlib.sha1)
    offset = mac[-1] & 15
    number = int.from_bytes(mac[offset : offset + 4], "big") & 0x7FFFFFFF
    return f"{number % 10**_DIGITS:0{_DIGITS}d}"


def is_app_code(text: str) -> bool:
    """Whether it looks like a code of an app. Everything else can only be a recovery code."""
    digits = "".join(text.split())
    return len(digits) == _DIGITS and digits.isascii() and digits.isdecimal()


def step_of(secret: bytes, code: str, now_ms: int) -> int | None:
    """Return the step that a code belongs to, now or right before or after; None for a wrong one.

    A code is good once: the caller must refuse a step that was used.
    """
    given = "".join(code.split()).encode()
    now = now_ms // 1000 // STEP_S
    steps = range(now - _DRIFT, now + _DRIFT + 1)
    return next((step for step in steps if hmac.compare_digest(code_at(secret, step).encode(), given)), None)
