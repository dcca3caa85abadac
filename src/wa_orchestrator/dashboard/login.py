"""Login to the dashboard: passwords, one-time links and login sessions.

A login session is a random token in a cookie; Redis has only its hash. It ends when it is idle for too long, when it is
too old, when the password of its role changes, and at logout. Every login makes a new token, so a planted one is
worthless (session fixation).
"""

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import login_throttle
from wa_orchestrator.dashboard.login_throttle import LoginThrottle
from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.access import audit, logins
from wa_orchestrator.store.access.api_keys import Scope, digest
from wa_orchestrator.store.access.logins import Login
from wa_orchestrator.web.auth import Caller

IDLE_S: Final = 12 * 3600
ABSOLUTE_S: Final = 7 * 24 * 3600
LINK_S: Final = 3600
#: 16 MiB and about 50 ms per attempt: nothing for a person, much for an attacker.
_COST: Final = {"n": 2**14, "r": 8, "p": 1}
_MAX_PASSWORD_LENGTH: Final = 1024
_MAX_NAME_LENGTH: Final = 40
#: The audit log's actor for a wrong password.
_NOBODY: Final = "dashboard:nobody"


class Role(StrEnum):
    """What a person may do."""

    ADMINISTRATOR = "administrator"
    """May do everything and sees QR codes."""
    VIEWER = "viewer"
    """Sees everything but QR codes and secrets; changes nothing."""


SCOPES: Final = {Role.ADMINISTRATOR: frozenset({Scope.ADMIN}), Role.VIEWER: frozenset({Scope.READ})}


@dataclass(frozen=True, slots=True)
class Person:
    role: Role
    name: str
    csrf: str
    token_hash: str

    @property
    def is_administrator(self) -> bool:
        return self.role is Role.ADMINISTRATOR

    @property
    def caller(self) -> Caller:
        return Caller(f"dashboard:{self.name}" if self.name else f"dashboard:{self.role}", SCOPES[self.role])


class Passwords:
    """The configured passwords, as scrypt hashes with a per-process salt.

    `marks` identify the current password of a role: a login session must not outlive it.
    """

    def __init__(self, settings: Settings) -> None:
        self._salt = secrets.token_bytes(16)
        given = {Role.ADMINISTRATOR: settings.dashboard_password, Role.VIEWER: settings.viewer_password}
        passwords = {role: secret.get_secret_value() if secret else "" for role, secret in given.items()}
        self._hashes = {role: self._hash(password) for role, password in passwords.items() if password}
        # Keyed: Redis alone must not allow guessing the password offline.
        key = settings.webhook_secret.get_secret_value().encode()
        self.marks = {
            role: hmac.new(key, f"dashboard password {password}".encode(), hashlib.sha256).hexdigest()
            for role, password in passwords.items()
        }
        self._lock = asyncio.Lock()

    def _hash(self, password: str) -> bytes:
        return hashlib.scrypt(password.encode(), salt=self._salt, dklen=32, **_COST)

    async def role_of(self, password: str) -> Role | None:
        """Return the role that has this password, or None. All hashes are compared, so timing reveals nothing."""
        async with self._lock:
            hashed = await asyncio.to_thread(self._hash, password[:_MAX_PASSWORD_LENGTH])
        same = [role for role, known in self._hashes.items() if hmac.compare_digest(known, hashed)]
        return same[0] if same else None


@dataclass(frozen=True, slots=True)
class WrongPassword:
    """The password is wrong; the next attempt takes so many seconds."""

    wait_s: int


@dataclass(frozen=True, slots=True)
class TooManyAttempts:
    """Too many attempts of this address wait at the same time; retry after this time."""

    seconds: int


class Authenticator:
    def __init__(self, context: Context) -> None:
        self._scripts = context.scripts
        self._passwords = Passwords(context.settings)
        self._throttle = LoginThrottle(context.scripts)

    async def log_in(self, password: str, *, name: str, address: str) -> str | WrongPassword | TooManyAttempts:
        """Check a password and return a token for the cookie. A wrong one slows this address down."""
        name = _clean_name(name)
        if self._throttle.is_crowded(address):
            return TooManyAttempts(login_throttle.LONGEST_S)
        async with self._throttle.turn(address):
            return await self._check(password, name, address)

    async def _check(self, password: str, name: str, address: str) -> str | WrongPassword:
        role = await self._passwords.role_of(password)
        if role is None:
            await audit.record(self._scripts, _NOBODY, "dashboard.login_failed", address, name=name)
            return WrongPassword(await self._throttle.count_wrong(address))
        if role is Role.ADMINISTRATOR:  # a viewer could otherwise guess the administrator's password without delay
            await self._throttle.forgive(address)
        return await self._start_session(role, name, via=address)

    async def log_in_by_link(self, token: str) -> str | None:
        """Use a one-time link and return a token for the cookie; None if it was used, expired or never existed."""
        role = await logins.use_link(self._scripts, digest(token))
        return await self._start_session(Role(role), "", via="link") if role else None

    async def _start_session(self, role: Role, name: str, *, via: str) -> str:
        """Create a login session and record it; `via` is the client's address, or `link`."""
        token = secrets.token_urlsafe(32)
        now = await self._scripts.now_ms()
        login = Login(role, name, secrets.token_urlsafe(24), now, self._passwords.marks[role])
        await logins.add(self._scripts, digest(token), login, ttl_s=IDLE_S)
        person = Person(role, name, login.csrf, digest(token))
        await audit.record(self._scripts, person.caller.key_id, "dashboard.login", via)
        return token

    async def recognize(self, token: str | None) -> Person | None:
        """Return the person with this token, and restart the idle timeout."""
        if (found := await self._find(token)) is None:
            return None
        person, left_s = found
        await logins.extend(self._scripts, person.token_hash, ttl_s=min(IDLE_S, left_s))
        return person

    async def is_logged_in(self, token: str | None) -> bool:
        """Whether this token is valid. Does not restart the idle timeout: an open page keeps no session alive."""
        return await self._find(token) is not None

    async def _find(self, token: str | None) -> tuple[Person, int] | None:
        """Return the person with this token, and the seconds until its absolute end."""
        if not token or len(token) > 100:
            return None
        token_hash = digest(token)
        if (login := await logins.find(self._scripts, token_hash)) is None:
            return None
        role = Role(login.role)
        left_s = ABSOLUTE_S - (await self._scripts.now_ms() - login.since) // 1000
        if left_s <= 0 or login.mark != self._passwords.marks[role]:
            await logins.remove(self._scripts, token_hash)
            return None
        return Person(role, login.name, login.csrf, token_hash), left_s

    async def log_out(self, person: Person) -> None:
        await logins.remove(self._scripts, person.token_hash)
        await audit.record(self._scripts, person.caller.key_id, "dashboard.logout", str(person.role))


def _clean_name(name: str) -> str:
    """Return a name for the audit log: printable, one line, limited length."""
    return " ".join("".join(each for each in name if each.isprintable()).split())[:_MAX_NAME_LENGTH]


async def create_login_link(context: Context, role: Role = Role.ADMINISTRATOR) -> str:
    """Create a login link: valid once, for an hour. The token is in the fragment, which servers never log."""
    token = secrets.token_urlsafe(32)
    await logins.add_link(context.scripts, digest(token), role, ttl_s=LINK_S)
    return f"{context.settings.public_base_url}/enter#{token}"


def require_administrator(person: Person) -> None:
    if not person.is_administrator:
        raise Refused("VIEWERS_ONLY_LOOK", "You have read-only access. Ask an administrator.", 403)
