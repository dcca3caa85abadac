"""What people change about their own account: password, second factor, recovery codes."""

import asyncio
import secrets
from typing import Final

from wa_orchestrator.domain import passwords, second_factor
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.access import logins, people
from wa_orchestrator.store.access.api_keys import digest
from wa_orchestrator.store.access.people import Account
from wa_orchestrator.store.engine.scripts import Scripts

_RECOVERY_CODES: Final = 10
_SECRET_BYTES: Final = 20


async def use_app_code(scripts: Scripts, account: Account, code: str) -> bool:
    """Whether it is a code of the app that was not used before. It is used then."""
    step = second_factor.step_of(bytes.fromhex(account.totp), code, await scripts.now_ms())
    return step is not None and await people.use_step(scripts, account.id, step)


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


async def begin_enrolment(scripts: Scripts, token_hash: str) -> None:
    """Make a secret for a second factor. It is not asked for before it is confirmed with a code."""
    await logins.set_enrolment(scripts, token_hash, secrets.token_bytes(_SECRET_BYTES).hex())


async def confirm_enrolment(scripts: Scripts, account_id: str, enrolment: str, code: str) -> tuple[Account, list[str]]:
    """Turn the second factor on; all logins of the account end. The recovery codes cannot be read again."""
    step = second_factor.step_of(bytes.fromhex(enrolment), code, await scripts.now_ms()) if enrolment else None
    if step is None or not await people.use_step(scripts, account_id, step):
        raise Refused("CODE_WRONG", "This is not the code that the app shows now. Try the next one.", 422)
    codes = [f"{secrets.token_hex(3)}-{secrets.token_hex(3)}" for _ in range(_RECOVERY_CODES)]
    await people.set_recovery_codes(scripts, account_id, [_recovery_hash(each) for each in codes])
    return await people.update(scripts, account_id, totp=enrolment), codes


async def turn_off(scripts: Scripts, account_id: str) -> Account:
    """Turn the second factor off; all logins of the account end."""
    await people.set_recovery_codes(scripts, account_id, [])
    return await people.update(scripts, account_id, totp="")


def _recovery_hash(code: str) -> str:
    """Return the stored hash of a recovery code; it has 48 random bits."""
    return digest("recovery " + "".join(code.split()).lower())
