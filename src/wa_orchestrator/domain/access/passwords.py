"""Stored passwords: scrypt, with a salt of its own for each."""

import hashlib
import hmac
from typing import Final

SHORTEST: Final = 10
LONGEST: Final = 1024
#: 32 MiB and about 100 ms per attempt: nothing for a person, much for an attacker.
_N, _R, _P = 2**15, 8, 1
_MOST_BYTES: Final = 64 * 1024 * 1024
#: Compared with when there is no such account: a missing one must take as long as a wrong password.
NOBODY: Final = f"scrypt${_N}${_R}${_P}${'00' * 16}${'00' * 32}"


def hashed(password: str, salt: bytes) -> str:
    """Return a password as it is stored."""
    return f"scrypt${_N}${_R}${_P}${salt.hex()}${_scrypt(password, salt, _N, _R, _P).hex()}"


def matches(password: str, stored: str) -> bool:
    """Whether it is the password that was stored. '' is no password."""
    _, n, r, p, salt, known = (stored or NOBODY).split("$")
    made = _scrypt(password[:LONGEST], bytes.fromhex(salt), int(n), int(r), int(p))
    return hmac.compare_digest(made, bytes.fromhex(known)) and bool(stored) and stored != NOBODY


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MOST_BYTES, dklen=32)
