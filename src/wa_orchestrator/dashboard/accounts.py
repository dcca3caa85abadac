"""What people change about their own account: password, second factor, recovery codes."""

import asyncio
import secrets
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import second_factor_seal
from wa_orchestrator.domain.access import passwords, second_factor
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.store.access import logins, people
from wa_orchestrator.store.access.api_keys import digest
from wa_orchestrator.store.access.people import Account
from wa_orchestrator.store.engine.scripts import Scripts

_RECOVERY_CODES: Final = 10
_SECRET_BYTES: Final = 20

log = structlog.get_logger(__name__)


async def use_app_code(context: Context, account: Account, code: str) -> bool:
    """Whether it is a code of the app that was not used before. It is used then."""
    secret = second_factor_seal.open_secret(context.settings, account.id, account.totp)
    step = second_factor.step_of(secret, code, await context.scripts.now_ms())
    return step is not None and await people.use_step(context.scripts, account.id, step)


class SecondFactorSealing:
    """Seals second factors once, at the start: AUTH_KEY may be new. The supervisor repeats it if it fails."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        await seal_again(self._context)
        await asyncio.Event().wait()


async def seal_again(context: Context) -> None:
    """Seal all second factors with the present AUTH_KEY: those of an earlier version, or of the key before it."""
    for account in await people.every(context.scripts):
        if not account.totp or second_factor_seal.is_current(context.settings, account.id, account.totp):
            continue
        try:
            secret = second_factor_seal.open_secret(context.settings, account.id, account.totp)
        except Unavailable:
            log.error("account.second_factor_sealed", account=account.id)
            continue
        sealed = second_factor_seal.close(context.settings, account.id, secret)
        await people.reseal(context.scripts, account, sealed)


async def use_recovery_code(scripts: Scripts, account: Account, code: str) -> bool:
    """Whether it is a recovery code that was not used before. It is used then."""
    return await people.use_recovery_code(scripts, account.id, _recovery_hash(code))


async def set_password(scripts: Scripts, account_id: str, password: str) -> Account:
    """Set a password; all logins of the account end."""
    if not passwords.SHORTEST <= len(password) <= passwords.LONGEST:
        text = f"A password has at least {passwords.SHORTEST} characters."
        raise Refused("PASSWORD_TOO_SHORT", text, 422)
    hashed = await asyncio.to_thread(passwords.hashed, password, secrets.token_bytes(16))
    return await people.update(scripts, account_id, password=hashed)


async def begin_enrolment(context: Context, token_hash: str) -> None:
    """Make a secret for a second factor. It is not asked for before it is confirmed with a code."""
    made = second_factor_seal.close(context.settings, token_hash, secrets.token_bytes(_SECRET_BYTES))
    await logins.set_enrolment(context.scripts, token_hash, made)


def enrolment_secret(context: Context, token_hash: str, enrolment: str) -> bytes:
    """Return the secret that waits to be confirmed in a login; empty for none."""
    return second_factor_seal.open_secret(context.settings, token_hash, enrolment) if enrolment else b""


async def confirm_enrolment(context: Context, account_id: str, secret: bytes, code: str) -> tuple[Account, list[str]]:
    """Turn the second factor on; all logins of the account end. The recovery codes cannot be read again."""
    scripts = context.scripts
    step = second_factor.step_of(secret, code, await scripts.now_ms()) if secret else None
    if step is None or not await people.use_step(scripts, account_id, step):
        raise Refused("CODE_WRONG", "This is not the code that the app shows now. Try the next one.", 422)
    codes = [f"{secrets.token_hex(3)}-{secrets.token_hex(3)}" for _ in range(_RECOVERY_CODES)]
    await people.set_recovery_codes(scripts, account_id, [_recovery_hash(each) for each in codes])
    sealed = second_factor_seal.close(context.settings, account_id, secret)
    return await people.update(scripts, account_id, totp=sealed), codes


async def turn_off(scripts: Scripts, account_id: str) -> Account:
    """Turn the second factor off; all logins of the account end."""
    await people.set_recovery_codes(scripts, account_id, [])
    return await people.update(scripts, account_id, totp="")


def _recovery_hash(code: str) -> str:
    """Return the stored hash of a recovery code; it has 48 random bits."""
    return digest("recovery " + "".join(code.split()).lower())
