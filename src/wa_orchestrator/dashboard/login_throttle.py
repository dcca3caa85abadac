"""Login throttle: wrong passwords slow their address down. Other people's wrong guesses lock nobody out."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from wa_orchestrator.store.access import logins
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.web.connections import client_of

#: A person mistypes.
FREE_TRIES: Final = 3
#: Then each try takes twice as long as the one before, up to this: six a minute find no password of 16 characters.
LONGEST_S: Final = 10
WINDOW_S: Final = 15 * 60
#: Tries of one address that wait for their turn; more at once are no person's.
MOST_WAITING: Final = 8


def delay_s(wrong: int) -> int:
    """Return how long a try takes after so many wrong ones."""
    return 0 if wrong < FREE_TRIES else int(min(2.0 ** min(wrong - FREE_TRIES, 10), LONGEST_S))


class LoginThrottle:
    """Lets one try of an address through after the other, each after its delay. `sleep` is for tests."""

    def __init__(self, scripts: Scripts, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._scripts = scripts
        self._sleep = sleep
        self._waiting: Counter[str] = Counter()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_crowded(self, address: str) -> bool:
        """Whether too many tries of an address wait already."""
        return self._waiting[client_of(address)] >= MOST_WAITING

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for the turn of a try, and for its delay."""
        client = client_of(address)
        lock = self._locks.setdefault(client, asyncio.Lock())
        self._waiting[client] += 1
        try:
            async with lock:
                await self._sleep(delay_s(await logins.attempts(self._scripts, client)))
                yield
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]

    async def count_wrong(self, address: str) -> int:
        """Count a wrong password. Returns how many seconds the next try of the address takes."""
        return delay_s(await logins.count_attempt(self._scripts, client_of(address), window_s=WINDOW_S))

    async def forgive(self, address: str) -> None:
        """Forget the wrong passwords of an address."""
        await logins.clear_attempts(self._scripts, client_of(address))
