"""Keys that seal credentials at rest: one per session, derived from AUTH_KEY, which no worker ever gets."""

import base64
import hashlib
import hmac
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from wa_orchestrator.settings import Settings

_NONCE_BYTES: Final = 12


def worker_secrets(settings: Settings, session_id: str) -> dict[str, str]:
    """Return the variables with which a session's worker seals its credentials; none where no AUTH_KEY is set."""
    roots = {"AUTH_KEY": settings.auth_key, "AUTH_KEY_PREVIOUS": settings.auth_key_previous}
    return {
        name: base64.b64encode(derive(root, session_id)).decode()
        for name, root in roots.items()
        if root is not None and root.get_secret_value()
    }


def derive(root: SecretStr, session_id: str) -> bytes:
    """Return the key of one session: 32 bytes, always the same."""
    return hmac.new(root.get_secret_value().encode(), f"credentials {session_id}".encode(), hashlib.sha256).digest()


def opens(root: SecretStr, session_id: str, name: str, sealed: bytes) -> bool:
    """Whether the key of `root` opens what a session's worker sealed under a name (`encryption-at-rest.ts`)."""
    nonce, rest = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
    try:
        AESGCM(derive(root, session_id)).decrypt(nonce, rest, f"{session_id}\0{name}".encode())
    except (InvalidTag, ValueError):
        return False
    return True


def key_id(key: bytes) -> str:
    """Return what tells keys apart without giving them away; the worker writes the same into its file."""
    return hashlib.sha256(key).hexdigest()[:16]
