"""Redis' clock, which a test can set while the product runs.

The clock of a machine cannot be set for one process. So the services are started by `PROGRAM`, whose scripts add to
Redis' time what the test has stored; and because keys expire by Redis' own clock, their ends are moved by as much.
"""

import sys
from typing import Final

from redis.asyncio import Redis

from wa_orchestrator.cli.main import main
from wa_orchestrator.store.engine.scripts import LUA, Scripts

#: Starts the product; its scripts have a clock that can be set.
PROGRAM: Final = (sys.executable, "-c", f"from {__name__} import start; start()")
_OFFSET: Final = "test:clock-offset"
_CLOCK: Final = f"""{(LUA / "_clock.lua").read_text(encoding="utf-8")}
local redis_now_ms = now_ms
local function now_ms() return redis_now_ms() + tonumber(redis.call('GET', '{_OFFSET}') or 0) end
"""
#: Sets the clock: what was to expire in a minute has expired an hour later, and expires in 61 minutes an hour earlier.
_SET: Final = """
for _, key in ipairs(redis.call('KEYS', '*')) do
  local ends = redis.call('PEXPIRETIME', key)
  if ends > 0 then redis.call('PEXPIREAT', key, ends - ARGV[1]) end
end
return redis.call('INCRBY', KEYS[1], ARGV[1])
"""


def start() -> None:
    """Run the command line of the product."""
    defaults = Scripts.__init__.__kwdefaults__
    assert defaults == {"clock": None, "sources": None}
    defaults["clock"] = _CLOCK
    main()


async def set_clock(redis: Redis, by_ms: int) -> None:
    """Set Redis' clock forward, or back by a negative number."""
    await redis.eval(_SET, 1, _OFFSET, by_ms)
