"""Who sits in front of the dashboard: passwords, one-time links, and the sessions of people.

A person's session is a random token in a cookie; Redis knows its hash only. It ends when it is idle for too long, when
it is too old, when the password of its role is changed, and at logout. A new one is made at every login, so a token
that was planted before is worth nothing.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import audit, keys
from wa_orchestrator.store.api_keys import Scope, digest
from wa_orchestrator.web.auth import Caller

IDLE_S: Final = 12 * 3600
ABSOLUTE_S: Final = 7 * 24 * 3600
LINK_S: Final = 3600
MOST_TRIES: Final = 5
#: Several people may come from one address; who guesses under many names is stopped here.
MOST_FROM_ADDRESS: Final = 20
TRIES_S: Final = 15 * 60
#: 16 MiB and about 50 ms a try: nothing for a person, much for somebody who guesses.
_COST: Final = {"n": 2**14, "r": 8, "p": 1}
_LONGEST_PASSWORD: Final = 1024
_LONGEST_NAME: Final = 40
#: Who tried a wrong password, as the audit log knows them.
_NOBODY: Final = Caller("dashboard:nobody", frozenset())


class Role(StrEnum):
    """What a person may do."""

    ADMINISTRATOR = "administrator"
    """Everything, and sees QR codes."""
    VIEWER = "viewer"
    """Sees everything but QR codes and secrets; changes nothing."""


SCOPES: Final = {Role.ADMINISTRATOR: frozenset({Scope.ADMIN}), Role.VIEWER: frozenset({Scope.READ})}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who has logged in."""

    role: Role
    name: str
    csrf: str
    token_hash: str

    @property
    def is_administrator(self) -> bool:
        """Whether this person may change things."""
        return self.role is Role.ADMINISTRATOR

    @property
    def caller(self) -> Caller:
        """The same person as the API and the audit log know them."""
        return Caller(f"dashboard:{self.name}" if self.name else f"dashboard:{self.role}", SCOPES[self.role])


class Passwords:
    """The passwords of the settings, kept as scrypt hashes with a salt of this process.

    `marks` tell one password of a role from the next, for sessions that must not outlive it.
    """

    def __init__(self, settings: Settings) -> None:
        self._salt = secrets.token_bytes(16)
        given = {Role.ADMINISTRATOR: settings.dashboard_password, Role.VIEWER: settings.viewer_password}
        self._hashes = {
            role: self._hash(secret.get_secret_value())
            for role, secret in given.items()
            if secret is not None and secret.get_secret_value()
        }
        self.marks = {
            role: _mark(settings, secret.get_secret_value() if secret else "") for role, secret in given.items()
        }
        self._one_at_a_time = asyncio.Lock()

    def _hash(self, password: str) -> bytes:
        return hashlib.scrypt(password.encode(), salt=self._salt, dklen=32, **_COST)

    async def role_of(self, password: str) -> Role | None:
        """Say whose password this is, or None. All hashes are compared, so that time tells nothing."""
        async with self._one_at_a_time:
            hashed = await asyncio.to_thread(self._hash, password[:_LONGEST_PASSWORD])
        same = [role for role, known in self._hashes.items() if hmac.compare_digest(known, hashed)]
        return same[0] if same else None


def _mark(settings: Settings, password: str) -> str:
    """Make a mark that tells nothing of the password to who has Redis, but not this installation's secret."""
    root = settings.webhook_secret.get_secret_value().encode()
    return hmac.new(root, f"dashboard password {password}".encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Entered:
    """The way is open: this token goes into the cookie."""

    token: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """That was not it; so many tries are left."""

    tries_left: int


@dataclass(frozen=True, slots=True)
class Shut:
    """Too many tries under this name or from this address; it opens again after this time."""

    seconds: int


class Door:
    """Lets people in and out."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._redis = context.redis
        self._passwords = Passwords(context.settings)

    async def enter(self, password: str, *, name: str, address: str) -> Entered | Wrong | Shut:
        """Try a password. A wrong one costs a try of this name, and one of this address."""
        tries = _limits(_tidy(name), address)
        left = [most - await self._count_try(key) for key, most in tries.items()]
        if min(left) < 0:
            return Shut(max([1, *[int(await self._redis.ttl(key)) for key in tries]]))
        role = await self._passwords.role_of(password)
        if role is None:
            await audit.record(
                self._context.scripts, _NOBODY.key_id, "dashboard.login_failed", address, name=_tidy(name)
            )
            return Wrong(min(left))
        await self._give_back(tries, role)
        return Entered(await self._begin(role, name, how=address))

    async def _give_back(self, tries: Mapping[str, int], role: Role) -> None:
        """Forget the wrong tries of an administrator's name; a viewer could else guess the other password for ever.

        An address gets back this one try only: behind a reverse proxy, others come from it as well.
        """
        of_name, of_address = tries
        if role is Role.ADMINISTRATOR:
            await self._redis.delete(of_name)
        else:
            await self._redis.decr(of_name)
        await self._redis.decr(of_address)

    async def _count_try(self, key: str) -> int:
        """Count before looking, so that many tries at once cannot slip through."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.expire(key, TRIES_S, nx=True)
            made, _ = await pipe.execute()
        return int(made)

    async def enter_by_link(self, token: str) -> Entered | None:
        """Use a one-time link; None when it was used, is too old or never was."""
        role: Any = await self._redis.getdel(keys.login_link(digest(token)))
        return Entered(await self._begin(Role(role), "", how="link")) if role else None

    async def _begin(self, role: Role, name: str, *, how: str) -> str:
        """Begin a person's session and write it down; `how` is the address they came from, or `link`."""
        token = secrets.token_urlsafe(32)
        now = await self._context.scripts.now_ms()
        fields: dict[Any, Any] = {
            "role": str(role),
            "name": _tidy(name),
            "csrf": secrets.token_urlsafe(24),
            "since": str(now),
            "mark": self._passwords.marks[role],
        }
        key = keys.person(digest(token))
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields)
            pipe.expire(key, IDLE_S)
            await pipe.execute()
        person = Person(role, fields["name"], fields["csrf"], digest(token))
        await audit.record(self._context.scripts, person.caller.key_id, "dashboard.login", how)
        return token

    async def recognize(self, token: str | None) -> Person | None:
        """Say who holds this token now, and keep their session from becoming idle."""
        found = await self._find(token)
        if found is None:
            return None
        person, left_s = found
        await self._redis.expire(keys.person(person.token_hash), min(IDLE_S, left_s))
        return person

    async def is_inside(self, token: str | None) -> bool:
        """Say whether this token still opens the door. A page that is only left open does not keep a session alive."""
        return await self._find(token) is not None

    async def _find(self, token: str | None) -> tuple[Person, int] | None:
        """Give whose token this is, and for how many seconds it can last at most."""
        if not token or len(token) > 100:
            return None
        token_hash = digest(token)
        key = keys.person(token_hash)
        raw: Any = await self._redis.hgetall(key)
        if not raw:
            return None
        now = await self._context.scripts.now_ms()
        left_s = ABSOLUTE_S - (now - int(raw["since"])) // 1000
        if left_s <= 0 or raw.get("mark") != self._passwords.marks[Role(raw["role"])]:
            await self._redis.delete(key)
            return None
        return Person(Role(raw["role"]), raw["name"], raw["csrf"], token_hash), left_s

    async def leave(self, person: Person) -> None:
        """End a person's session everywhere its token is known."""
        await self._redis.delete(keys.person(person.token_hash))
        await audit.record(self._context.scripts, person.caller.key_id, "dashboard.logout", str(person.role))


def _limits(name: str, address: str) -> dict[str, int]:
    """Give what a try is counted under, and how many there may be: the name, from wherever; then the address.

    Who gives no name has the address for one. People behind one reverse proxy have one address, but own names.
    """
    account = keys.login_tries(f"name {name.casefold()}" if name else f"nameless {address}")
    return {account: MOST_TRIES, keys.login_tries(f"address {address}"): MOST_FROM_ADDRESS}


def _tidy(name: str) -> str:
    """Make a name fit for an audit log: printable, one line, not too long."""
    return " ".join("".join(each for each in name if each.isprintable()).split())[:_LONGEST_NAME]


async def first_link(context: Context, role: Role = Role.ADMINISTRATOR) -> str:
    """Make a link that lets its first user in, once, within an hour. The token is behind `#`: no server logs it."""
    token = secrets.token_urlsafe(32)
    await context.redis.set(keys.login_link(digest(token)), str(role), ex=LINK_S)
    return f"{context.settings.public_base_url}/enter#{token}"


def administrators_only(person: Person) -> None:
    """Refuse viewers."""
    if not person.is_administrator:
        raise Refused("VIEWERS_ONLY_LOOK", "You may look, and change nothing. Ask an administrator.", 403)
