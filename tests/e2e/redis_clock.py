"""Redis' clock and the server's own, which a test can set while the product runs.

The clock of a machine cannot be set for one process. So the services are started by `PROGRAM`, whose scripts add to
Redis' time what the test has stored; and because keys expire by Redis' own clock, their ends are moved by as much.
"""

import os
import sys
import time
from pathlib import Path
from typing import Final

from redis.asyncio import Redis

from wa_orchestrator.cli.main import main
from wa_orchestrator.store.engine.scripts import FILES, Scripts

#: Starts the product; its scripts have a clock that can be set.
PROGRAM: Final = (sys.executable, "-c", f"from {__name__} import start; start()")
_OFFSET: Final = "test:clock-offset"
_CLOCK: Final = f"""{FILES["_clock"].read_text(encoding="utf-8")}
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
    offset, true_time = _server_offset(Path(os.environ["DATA_DIR"])), time.time
    time.time = lambda: true_time() + (float(offset.read_text()) if offset.exists() else 0)
    main()


def _server_offset(data: Path) -> Path:
    return data / "server-clock-offset"


async def set_clock(redis: Redis, by_ms: int) -> None:
    """Set Redis' clock forward, or back by a negative number."""
    await redis.eval(_SET, 1, _OFFSET, by_ms)


def set_server_clock(data: Path, ahead_ms: int) -> None:
    """Set the clock of the services with this data directory ahead of the true time, or behind it."""
    new = _server_offset(data).with_suffix(".new")
    new.write_text(str(ahead_ms / 1000))
    new.rename(_server_offset(data))
