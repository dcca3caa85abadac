"""Accounts of people: role, reach, password and second factor. Passwords and recovery codes are stored as hashes."""

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from redis.exceptions import WatchError

from wa_orchestrator.domain.access.permissions import Reach, Role, reach_of
from wa_orchestrator.errors import Refused
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: Longer than a code of an authenticator app can be valid.
_USED_S: Final = 180
_TRIES: Final = 20
_ADDRESS_KNOWN_S: Final = 90 * 86_400
_MOST_ADDRESSES: Final = 50


@dataclass(frozen=True, slots=True, repr=False)
class Account:
    """An account. `mark` changes when its logins must end; '' as password or secret: there is none."""

    id: str
    name: str
    role: Role
    labels: tuple[str, ...]
    created_at_ms: int
    mark: str
    password: str = ""
    totp: str = ""
    """The secret of the second factor, sealed with AUTH_KEY."""
    last_login_at_ms: int = 0

    @property
    def reach(self) -> Reach:
        """The sessions that the person sees."""
        return reach_of((), self.labels)


async def every(scripts: Scripts) -> list[Account]:
    """Return all accounts, by name."""
    raw: Any = await scripts.redis.hgetall(keys.PEOPLE)
    found = [_decode(name, text) for name, text in raw.items()]
    return sorted(found, key=lambda each: (each.name.casefold(), each.id))


async def find(scripts: Scripts, account_id: str) -> Account | None:
    text: Any = await scripts.redis.hget(keys.PEOPLE, account_id)
    return _decode(account_id, text) if text else None


async def find_by_name(scripts: Scripts, name: str) -> Account | None:
    """Return the account of this name, in whatever case it is typed."""
    wanted = name.casefold()
    return next((each for each in await every(scripts) if each.name.casefold() == wanted), None)


async def create(scripts: Scripts, name: str, role: Role, labels: tuple[str, ...]) -> Account:
    """Create an account without a password; raise `Refused` if the name is taken."""
    account = Account(f"a_{secrets.token_hex(6)}", name, role, labels, await scripts.now_ms(), secrets.token_hex(8))

    def add(accounts: dict[str, Account]) -> None:
        if any(each.name.casefold() == name.casefold() for each in accounts.values()):
            raise Refused("NAME_TAKEN", f"There is an account {name} already. Choose another name.", 409)
        accounts[account.id] = account

    await _change(scripts, account.id, add)
    return account


async def update(scripts: Scripts, account_id: str, **changes: Any) -> Account:
    """Change an account. A change of its role, labels, password or second factor ends its logins (`mark`)."""
    if set(changes) - {"last_login_at_ms"}:
        changes = {"mark": secrets.token_hex(8), **changes}

    changed: list[Account] = []

    def change(accounts: dict[str, Account]) -> None:
        account = _existing(accounts, account_id)
        made = replace(account, **changes)
        if account.role is Role.ADMINISTRATOR and made.role is not Role.ADMINISTRATOR:
            _require_another_administrator(accounts, account_id)
        accounts[account_id] = made
        changed[:] = [made]

    await _change(scripts, account_id, change)
    return changed[0]


async def reseal(scripts: Scripts, account: Account, totp: str) -> None:
    """Store the same second factor as it is sealed now, unless it was changed meanwhile. No login ends."""

    def change(accounts: dict[str, Account]) -> None:
        now = accounts.get(account.id)
        if now is not None and now.totp == account.totp:
            accounts[account.id] = replace(now, totp=totp)

    await _change(scripts, account.id, change)


async def remove(scripts: Scripts, account_id: str) -> Account:
    """Delete an account; raise `Refused` when there is none, or when it is the last administrator."""
    removed: list[Account] = []

    def gone(accounts: dict[str, Account]) -> None:
        account = _existing(accounts, account_id)
        if account.role is Role.ADMINISTRATOR and len(accounts) > 1:
            _require_another_administrator(accounts, account_id)
        removed[:] = [accounts.pop(account_id)]

    await _change(scripts, account_id, gone)
    await scripts.redis.delete(keys.recovery_codes(account_id), keys.known_addresses(account_id))
    return removed[0]


async def set_recovery_codes(scripts: Scripts, account_id: str, hashes: list[str]) -> None:
    """Replace the recovery codes of an account; none deletes them."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.delete(keys.recovery_codes(account_id))
        if hashes:
            pipe.sadd(keys.recovery_codes(account_id), *hashes)
        await pipe.execute()


async def use_recovery_code(scripts: Scripts, account_id: str, hashed: str) -> bool:
    """Whether this was an unused recovery code; it is used then. One command, so that only one login gets it."""
    return bool(await scripts.redis.srem(keys.recovery_codes(account_id), hashed))


async def count_recovery_codes(scripts: Scripts, account_id: str) -> int:
    return int(await scripts.redis.scard(keys.recovery_codes(account_id)))


async def remember_address(scripts: Scripts, account_id: str, address: str, now_ms: int) -> None:
    """Remember an address from which somebody has completed a login of the account."""
    key = keys.known_addresses(account_id)
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.zadd(key, {address: now_ms})
        pipe.zremrangebyscore(key, "-inf", now_ms - _ADDRESS_KNOWN_S * 1000)
        pipe.zremrangebyrank(key, 0, -_MOST_ADDRESSES - 1)
        pipe.expire(key, _ADDRESS_KNOWN_S)
        await pipe.execute()


async def knows_address(scripts: Scripts, account_id: str, address: str) -> bool:
    """Whether somebody has completed a login of the account from this address."""
    return await scripts.redis.zscore(keys.known_addresses(account_id), address) is not None


async def use_step(scripts: Scripts, account_id: str, step: int) -> bool:
    """Whether the code of this step was not used before; it is used then."""
    return bool(await scripts.redis.set(keys.used_code(account_id, str(step)), "1", nx=True, ex=_USED_S))


async def _change(scripts: Scripts, account_id: str, change: Callable[[dict[str, Account]], None]) -> None:
    """Write what `change` makes of this account, given all. Done again when somebody else was faster."""
    for _ in range(_TRIES):
        async with scripts.redis.pipeline(transaction=True) as pipe:
            await pipe.watch(keys.PEOPLE)
            accounts = {each.id: each for each in await every(scripts)}
            change(accounts)
            made = accounts.get(account_id)
            pipe.multi()  # type: ignore[no-untyped-call]
            if made is None:
                pipe.hdel(keys.PEOPLE, account_id)
            else:
                pipe.hset(keys.PEOPLE, account_id, _encode(made))
            try:
                await pipe.execute()
            except WatchError:
                continue
            return
    raise Refused("TRY_AGAIN", "Somebody else changes accounts at the same moment. Try again.", 409)


def _existing(accounts: dict[str, Account], account_id: str) -> Account:
    if account_id not in accounts:
        raise Refused("NO_SUCH_PERSON", f"There is no person {account_id}. GET /api/v1/people lists them.", 404)
    return accounts[account_id]


def _require_another_administrator(accounts: dict[str, Account], account_id: str) -> None:
    others = [each for each in accounts.values() if each.id != account_id]
    if not any(each.role is Role.ADMINISTRATOR for each in others):
        text = "This is the last administrator. Make somebody else one first."
        raise Refused("LAST_ADMINISTRATOR", text, 409)


def _encode(account: Account) -> str:
    raw = asdict(account)
    del raw["id"]
    return json.dumps(raw)


def _decode(account_id: str, text: str) -> Account:
    raw = json.loads(text)
    known = {name: raw[name] for name in Account.__slots__ if name in raw}
    return Account(**known | {"id": account_id, "role": Role(raw["role"]), "labels": tuple(raw["labels"])})
