"""Encrypts the secrets of second factors in Redis, with keys derived from AUTH_KEY.

Access to Redis, its files or a backup is not enough to make codes: that takes AUTH_KEY too.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.settings import Settings

_SEALED: Final = "sealed:"
_NONCE_BYTES: Final = 12


def close(settings: Settings, owner: str, secret: bytes) -> str:
    """Return what is stored of a secret; it can be opened only as this owner's. Without AUTH_KEY it is in plain hex."""
    root = settings.auth_key
    if not root.get_secret_value():
        return secret.hex()
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return _SEALED + b64encode(nonce + _cipher(root, owner).encrypt(nonce, secret, owner.encode())).decode()


def open_secret(settings: Settings, owner: str, stored: str) -> bytes:
    """Return a stored secret, also of an earlier version, which did not seal; raise `Unavailable` without its key."""
    if not stored.startswith(_SEALED):
        return bytes.fromhex(stored)
    for root in (settings.auth_key, settings.auth_key_previous):
        if root is not None and root.get_secret_value() and (secret := _opened(root, owner, stored)) is not None:
            return secret
    text = "The second factor is sealed with another AUTH_KEY. Log in with a recovery code."
    raise Unavailable("SECOND_FACTOR_SEALED", text)


def is_current(settings: Settings, owner: str, stored: str) -> bool:
    """Whether a stored secret is sealed with the present AUTH_KEY, or there is none to seal it with."""
    root = settings.auth_key
    return not root.get_secret_value() or (stored.startswith(_SEALED) and _opened(root, owner, stored) is not None)


def _opened(root: SecretStr, owner: str, stored: str) -> bytes | None:
    raw = b64decode(stored.removeprefix(_SEALED))
    try:
        return _cipher(root, owner).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], owner.encode())
    except InvalidTag:
        return None


def _cipher(root: SecretStr, owner: str) -> AESGCM:
    key = hmac.new(root.get_secret_value().encode(), f"second factor {owner}".encode(), hashlib.sha256).digest()
    return AESGCM(key)
