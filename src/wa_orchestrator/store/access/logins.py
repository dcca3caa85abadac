"""Logins to the dashboard: counted attempts, one-time links, and the sessions of people."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.record_codec import decode

#: Tries of a second factor without a pause: a person mistypes.
FREE_CODES: Final = 5
#: Then each pause is twice the one before. At this length about 100 codes a day can be tried, of a million.
LONGEST_PAUSE_MS: Final = 15 * 60_000
_CODES_COUNTED_MS: Final = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Login:
    """A person's session: who it is, the token of their forms, since when, and the mark of the password they used."""

    role: str
    name: str
    csrf: str
    since: int
    mark: str
    person: str = ""
    """The id of their account; '' for a login with the installation's own password."""
    address: str = ""
    browser: str = ""
    via: str = ""
    """`link` if they came by a one-time link: then they may set a password without the old one."""
    enrolment: str = ""
    """The secret of a second factor that is not confirmed yet, in hex."""
    pending: str = ""
    """`code` until the second factor was given: then nothing but that is allowed."""


@dataclass(frozen=True, slots=True)
class ListedLogin:
    """A login with the hash of its token; `id` is how people end it."""

    token_hash: str
    login: Login

    @property
    def id(self) -> str:
        """A name for it that does not open anything."""
        return self.token_hash[:16]


async def count_attempt(scripts: Scripts, account: str, *, window_s: int) -> int:
    """Count an attempt under this account and return how many there were; the count ends after `window_s`."""
    key = keys.login_tries(account)
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.incr(key)
        pipe.expire(key, window_s, nx=True)
        made, _ = await pipe.execute()
    return int(made)


async def attempts(scripts: Scripts, account: str) -> int:
    """Return how many attempts are counted under this account."""
    return int(await scripts.redis.get(keys.login_tries(account)) or 0)


async def clear_attempts(scripts: Scripts, account: str) -> None:
    await scripts.redis.delete(keys.login_tries(account))


@dataclass(frozen=True, slots=True)
class CodeAdmitted:
    """The code may be checked; it is counted until `clear_codes`."""


@dataclass(frozen=True, slots=True)
class CodeMustWait:
    """Too many wrong codes: none is checked for this time."""

    wait_ms: int


async def admit_code(scripts: Scripts, who: str) -> CodeAdmitted | CodeMustWait:
    """Ask before a second factor is checked. `who` is an account, or an account and an address that it knows."""
    return await scripts.ask(
        "admit_code",
        [keys.code_tries(who), keys.code_pause(who)],
        [FREE_CODES, LONGEST_PAUSE_MS, _CODES_COUNTED_MS],
        admitted=CodeAdmitted,
        wait=CodeMustWait,
    )


async def clear_codes(scripts: Scripts, who: str) -> None:
    """Forget the wrong codes: a right one was given."""
    await scripts.redis.delete(keys.code_tries(who), keys.code_pause(who))


async def add_link(scripts: Scripts, token_hash: str, role: str, *, ttl_s: int) -> None:
    await scripts.redis.set(keys.login_link(token_hash), role, ex=ttl_s)


async def use_link(scripts: Scripts, token_hash: str) -> str | None:
    """Return the role of a one-time link and delete it; None when it was used, expired or never existed."""
    role: Any = await scripts.redis.getdel(keys.login_link(token_hash))
    return str(role) if role else None


async def add(scripts: Scripts, token_hash: str, login: Login, *, ttl_s: int) -> None:
    fields: dict[Any, Any] = {name: str(value) for name, value in asdict(login).items()}
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.delete(keys.person(token_hash))
        pipe.hset(keys.person(token_hash), mapping=fields)
        pipe.expire(keys.person(token_hash), ttl_s)
        pipe.sadd(keys.LOGINS, token_hash)
        await pipe.execute()


async def find(scripts: Scripts, token_hash: str) -> Login | None:
    raw: Any = await scripts.redis.hgetall(keys.person(token_hash))
    return decode(Login, raw) if raw else None


async def every(scripts: Scripts) -> list[ListedLogin]:
    """Return all logins that are complete, the newest first, and forget those that have ended."""
    hashes: Any = sorted(await scripts.redis.smembers(keys.LOGINS))
    raws = await scripts.each(lambda pipe, key: pipe.hgetall(key), map(keys.person, hashes))
    if ended := [name for name, raw in zip(hashes, raws, strict=True) if not raw]:
        await scripts.redis.srem(keys.LOGINS, *ended)
    found = [ListedLogin(name, decode(Login, raw)) for name, raw in zip(hashes, raws, strict=True) if raw]
    return sorted((each for each in found if not each.login.pending), key=lambda each: -each.login.since)


async def set_enrolment(scripts: Scripts, token_hash: str, secret: str) -> None:
    """Remember the secret of a second factor until it is confirmed."""
    await scripts.redis.hset(keys.person(token_hash), "enrolment", secret)


async def extend(scripts: Scripts, token_hash: str, *, ttl_s: int) -> None:
    await scripts.redis.expire(keys.person(token_hash), ttl_s)


async def remove(scripts: Scripts, token_hash: str) -> None:
    await scripts.redis.delete(keys.person(token_hash))
    await scripts.redis.srem(keys.LOGINS, token_hash)
