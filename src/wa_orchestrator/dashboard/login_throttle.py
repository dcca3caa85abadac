"""Login throttle: how many wrong passwords a name and an address may try, and how long they then wait."""

from typing import Final

from wa_orchestrator.store.access import logins
from wa_orchestrator.store.engine.scripts import Scripts

MAX_ATTEMPTS: Final = 5
#: Several people may share an address; this stops guesses under many names.
MAX_ATTEMPTS_PER_ADDRESS: Final = 20
WINDOW_S: Final = 15 * 60


async def count(scripts: Scripts, name: str, address: str) -> int:
    """Count an attempt and return how many are left; below 0 it must be refused.

    Counted before the password is checked, so that concurrent attempts cannot exceed the limit.
    """
    of_name, of_address = _accounts(name, address)
    return min(
        MAX_ATTEMPTS - await logins.count_attempt(scripts, of_name, window_s=WINDOW_S),
        MAX_ATTEMPTS_PER_ADDRESS - await logins.count_attempt(scripts, of_address, window_s=WINDOW_S),
    )


async def seconds_left(scripts: Scripts, name: str, address: str) -> int:
    """Return after how many seconds both may try again."""
    return await logins.seconds_left(scripts, _accounts(name, address))


async def give_back(scripts: Scripts, name: str, address: str) -> None:
    for account in _accounts(name, address):
        await logins.return_attempt(scripts, account)


async def reset(scripts: Scripts, name: str, address: str) -> None:
    """Forget the attempts of a name. The address gets back one only: behind a reverse proxy others share it."""
    of_name, of_address = _accounts(name, address)
    await logins.clear_attempts(scripts, of_name)
    await logins.return_attempt(scripts, of_address)


def _accounts(name: str, address: str) -> tuple[str, str]:
    """Return the counters of a name and of an address. Without a name the address stands for it."""
    return f"name {name.casefold()}" if name else f"nameless {address}", f"address {address}"
