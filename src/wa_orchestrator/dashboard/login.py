"""Login to the dashboard: passwords, one-time links and login sessions.

A login session is a random token in a cookie; Redis has only its hash. It ends when it is idle for too long, when it is
too old, when the password of its role changes, and at logout. Every login makes a new token, so a planted one is
worthless (session fixation).
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from wa_orchestrator import audit_log
from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import accounts, browser_name, login_throttle
from wa_orchestrator.dashboard.login_throttle import LoginThrottle
from wa_orchestrator.domain.access import passwords, second_factor
from wa_orchestrator.domain.access.permissions import EVERYTHING, SCOPES, Reach, Role, Scope
from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.access import logins, people
from wa_orchestrator.store.access.api_keys import digest
from wa_orchestrator.store.access.logins import CodeMustWait, Login
from wa_orchestrator.store.access.people import Account
from wa_orchestrator.web.auth import Caller
from wa_orchestrator.web.connections import client_of

IDLE_S: Final = 12 * 3600
ABSOLUTE_S: Final = 7 * 24 * 3600
LINK_S: Final = 3600
#: How long a login waits for the second factor.
CODE_S: Final = 300
PERSON: Final = "person:"
"""How a link to an account begins, and who it is in the audit log."""
#: 16 MiB and about 50 ms per attempt: nothing for a person, much for an attacker.
_COST: Final = {"n": 2**14, "r": 8, "p": 1}
_MAX_PASSWORD_LENGTH: Final = 1024
_MAX_NAME_LENGTH: Final = 40
#: The audit log's actor for a wrong password.
_NOBODY: Final = "dashboard:nobody"


@dataclass(frozen=True, slots=True)
class Person:
    role: Role
    name: str
    csrf: str
    token_hash: str
    account: str = ""
    """The id of their account; '' for a login with the installation's own password."""
    reach: Reach = EVERYTHING
    via: str = ""
    enrolment: str = ""

    @property
    def is_administrator(self) -> bool:
        return self.role is Role.ADMINISTRATOR

    @property
    def may_operate(self) -> bool:
        """Whether the person may change anything at all."""
        return self.role is not Role.VIEWER

    @property
    def caller(self) -> Caller:
        by = f"dashboard:{self.name}" if self.name else f"dashboard:{self.role}"
        if self.account:
            by = f"person:{self.account}"
        return Caller(by, SCOPES[self.role], self.reach, self.name)


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

    async def is_password_of(self, password: str, account: Account | None) -> bool:
        """Whether it is the password of this account; for none it takes as long."""
        stored = account.password if account else passwords.NOBODY
        async with self._lock:  # one at a time: each takes 32 MiB
            return await asyncio.to_thread(passwords.matches, password, stored)

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
    """Too many attempts of this address, or codes for this account; retry after this time."""

    seconds: int


@dataclass(frozen=True, slots=True)
class NeedsCode:
    """The password is right, and the second factor is missing; the token is good for nothing else."""

    token: str


@dataclass(frozen=True, slots=True)
class LoginClient:
    """Where a login comes from."""

    address: str
    browser: str = ""


class Authenticator:
    def __init__(self, context: Context) -> None:
        self._context, self._scripts = context, context.scripts
        self._passwords = Passwords(context.settings)
        self._throttle = LoginThrottle(context.scripts)

    async def log_in(
        self, password: str, *, name: str, address: str, browser: str = ""
    ) -> str | NeedsCode | WrongPassword | TooManyAttempts:
        """Check a password and return a token for the cookie. A wrong one slows this address down.

        The name of an account takes its own password only: nobody can act under it with a shared one.
        """
        if self._throttle.is_crowded(address):
            return TooManyAttempts(login_throttle.LONGEST_S)
        async with self._throttle.turn(address):
            return await self._check(password, _clean_name(name), LoginClient(address, browser))

    async def _check(self, password: str, name: str, client: LoginClient) -> str | NeedsCode | WrongPassword:
        account = await people.find_by_name(self._scripts, name) if name else None
        # Both are always checked: how long it takes must not tell which names have an account.
        is_theirs = await self._passwords.is_password_of(password, account)
        role = await self._passwords.role_of(password)
        if account is not None and is_theirs:
            return await self._start_account_session(account, client)
        if role is None or account is not None or not self._context.settings.shared_passwords:
            await audit_log.record(self._context, _NOBODY, "", "dashboard.login_failed", client.address, tried=name)
            return WrongPassword(await self._throttle.count_wrong(client.address))
        if role is Role.ADMINISTRATOR:  # a viewer could otherwise guess the administrator's password without delay
            await self._throttle.forgive(client.address)
        return await self._start_session(role, name, client)

    async def log_in_by_link(self, token: str, client: LoginClient | None = None) -> str | NeedsCode | None:
        """Use a one-time link and return a token for the cookie; None if it was used, expired or never existed."""
        opens = await logins.use_link(self._scripts, digest(token))
        if opens is None:
            return None
        client = client or LoginClient("link")
        if opens.startswith(PERSON):
            account = await people.find(self._scripts, opens.removeprefix(PERSON))
            return None if account is None else await self._start_account_session(account, client, via="link")
        return await self._start_session(Role(opens), "", client, via="link")

    async def confirm(
        self, token: str | None, code: str, client: LoginClient
    ) -> str | WrongPassword | TooManyAttempts | None:
        """Check the second factor of a login that waits for it; None when there is none. A code is good once."""
        login = await self._pending(token)
        account = await people.find(self._scripts, login.person) if login else None
        if login is None or account is None or token is None or login.mark != account.mark:
            return None
        refusal = await self.refuse_code(account, code, client.address)
        if isinstance(refusal, WrongPassword):
            by = f"{PERSON}{account.id}"
            await audit_log.record(self._context, by, account.name, "dashboard.code_failed", client.address)
        if refusal is not None:
            return refusal
        await logins.remove(self._scripts, digest(token))
        return await self.start_complete(account, client, via=login.via)

    async def refuse_code(self, account: Account, code: str, address: str) -> WrongPassword | TooManyAttempts | None:
        """Check a second factor; None when it is right. Wrong codes slow down the next ones for the account.

        By account, because whoever tries codes has shown the password and may have many addresses. An address from
        which the account has logged in before is counted by itself, and recovery codes only by their address: who
        guesses shuts nobody out.
        """
        if not second_factor.is_app_code(code):
            return await self.refuse_proof(address, partial(accounts.use_recovery_code, self._scripts, account, code))
        is_known = await people.knows_address(self._scripts, account.id, client_of(address))
        who = f"{account.id} {client_of(address)}" if is_known else account.id
        admission = await logins.admit_code(self._scripts, who)
        if isinstance(admission, CodeMustWait):
            return TooManyAttempts(-(-admission.wait_ms // 1000))
        if not await accounts.use_app_code(self._context, account, code):
            return WrongPassword(0)
        await logins.clear_codes(self._scripts, who)
        return None

    async def refuse_proof(
        self, tries: str, proof: Callable[[], Awaitable[bool]]
    ) -> WrongPassword | TooManyAttempts | None:
        """Check a proof; None when it is right. Wrong ones slow the next ones of the same name down."""
        if self._throttle.is_crowded(tries):
            return TooManyAttempts(login_throttle.LONGEST_S)
        async with self._throttle.turn(tries):
            if not await proof():
                return WrongPassword(await self._throttle.count_wrong(tries))
            await self._throttle.forgive(tries)
            return None

    async def is_pending(self, token: str | None) -> bool:
        """Whether this token waits for a second factor."""
        return await self._pending(token) is not None

    async def _pending(self, token: str | None) -> Login | None:
        login = await logins.find(self._scripts, digest(token)) if token and len(token) <= 100 else None
        return login if login is not None and login.pending else None

    async def _start_account_session(self, account: Account, client: LoginClient, via: str = "") -> str | NeedsCode:
        if not account.totp:
            return await self.start_complete(account, client, via=via)
        token, now_ms = secrets.token_urlsafe(32), await self._scripts.now_ms()
        login = Login(
            account.role, account.name, "", now_ms, account.mark, account.id, client.address, via=via, pending="code"
        )
        await logins.add(self._scripts, digest(token), login, ttl_s=CODE_S)
        return NeedsCode(token)

    async def start_complete(self, account: Account, client: LoginClient, *, via: str = "") -> str:
        """Start the session of somebody who has shown everything that their account asks for."""
        now_ms = await self._scripts.now_ms()
        account = await people.update(self._scripts, account.id, last_login_at_ms=now_ms)
        await people.remember_address(self._scripts, account.id, client_of(client.address), now_ms)
        return await self._start_session(account.role, account.name, client, via=via, account=account)

    async def _start_session(
        self, role: Role, name: str, client: LoginClient, *, via: str = "", account: Account | None = None
    ) -> str:
        """Create a login session and record it."""
        token = secrets.token_urlsafe(32)
        now = await self._scripts.now_ms()
        mark = self._passwords.marks[role] if account is None else account.mark
        person_id = account.id if account else ""
        browser = browser_name.of(client.browser)
        login = Login(
            role, name, secrets.token_urlsafe(24), now, mark, person_id, client.address, browser=browser, via=via
        )
        await logins.add(self._scripts, digest(token), login, ttl_s=IDLE_S)
        person = Person(role, name, login.csrf, digest(token), person_id)
        via = via or client.address
        await audit_log.record(self._context, person.caller.key_id, name, "dashboard.login", via)
        return token

    async def is_password_of(self, password: str, account: Account) -> bool:
        """Whether it is the password of this account."""
        return await self._passwords.is_password_of(password, account)

    async def recognize(self, token: str | None) -> Person | None:
        """Return the person with this token, and restart the idle timeout."""
        if (found := await self._find(token)) is None:
            return None
        person, left_s = found
        await logins.extend(self._scripts, person.token_hash, ttl_s=min(IDLE_S, left_s))
        return person

    async def look(self, token: str | None) -> Person | None:
        """Return the person with this token. Does not restart the idle timeout: an open page keeps no session alive."""
        found = await self._find(token)
        return found[0] if found else None

    async def _find(self, token: str | None) -> tuple[Person, int] | None:
        """Return the person with this token, and the seconds until its absolute end."""
        if not token or len(token) > 100:
            return None
        token_hash = digest(token)
        if (login := await logins.find(self._scripts, token_hash)) is None:
            return None
        if login.pending:
            return None
        account = await people.find(self._scripts, login.person) if login.person else None
        role = Role(login.role) if account is None else account.role
        mark = self._passwords.marks.get(role) if not login.person else account and account.mark
        left_s = ABSOLUTE_S - (await self._scripts.now_ms() - login.since) // 1000
        if left_s <= 0 or login.mark != mark:
            await logins.remove(self._scripts, token_hash)
            return None
        reach = EVERYTHING if account is None else account.reach
        person = Person(role, login.name, login.csrf, token_hash, login.person, reach, login.via, login.enrolment)
        return person, left_s

    async def log_out(self, person: Person) -> None:
        await logins.remove(self._scripts, person.token_hash)
        by = person.caller.key_id
        await audit_log.record(self._context, by, person.name, "dashboard.logout", str(person.role))


def _clean_name(name: str) -> str:
    """Return a name for the audit log: printable, one line, limited length."""
    return " ".join("".join(each for each in name if each.isprintable()).split())[:_MAX_NAME_LENGTH]


async def create_login_link(context: Context, role: Role = Role.ADMINISTRATOR) -> str:
    """Create a login link: valid once, for an hour. The token is in the fragment, which servers never log."""
    token = secrets.token_urlsafe(32)
    await logins.add_link(context.scripts, digest(token), role, ttl_s=LINK_S)
    return f"{context.settings.public_base_url}/enter#{token}"


def require_administrator(person: Person) -> None:
    """Refuse everybody else."""
    require_operator(person)
    if not person.is_administrator:
        raise Refused("SCOPE_MISSING", "Only administrators can do this. Ask one.", 403, needed=str(Scope.ADMIN))


def require_operator(person: Person) -> None:
    """Refuse somebody who only looks. What operators may do is decided by the API."""
    if not person.may_operate:
        raise Refused("VIEWERS_ONLY_LOOK", "You have read-only access. Ask an administrator.", 403)
