"""`up --simulate`: the simulated world as a process beside the server. What happens in it is in `demo`."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from pydantic import SecretStr

from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.runner import process_identity
from wa_orchestrator.settings import Settings

SLOTS = 4
#: Where the simulated world keeps its state, under the data directory. It marks a rehearsal.
_HOME = "simulator"
ALL_DAY = "00:00-00:00"
_HOURS = ("cold_hours", "warm_hours", "hot_hours")
_READY_S = 30.0
_RUN = "from wa_orchestrator.cli.main import main; main()"
log = structlog.get_logger(__name__)


def proxies_for(fleet: int) -> int:
    """Say how many proxies a fleet needs, with one to spare for failovers."""
    return max(3, -(-fleet // SLOTS) + 1)


def keep_apart(data_dir: Path, *, simulate: bool) -> None:
    """Refuse to mix a rehearsal with real data: simulated sessions would knock at the real WhatsApp."""
    home = data_dir / _HOME
    is_rehearsal, is_used = home.is_dir(), (data_dir / "redis").is_dir()
    if simulate and is_used and not is_rehearsal:
        raise Refused(
            "REAL_DATA", f"{data_dir} holds real sessions. Rehearse elsewhere: `make demo`, or another --data-dir."
        )
    if is_rehearsal and not simulate:
        raise Refused(
            "REHEARSAL_DATA", f"{data_dir} holds a rehearsal's sessions. Add --simulate, or give another --data-dir."
        )
    if simulate:  # marked before anything else is in it: a rehearsal that dies at once must not pass for real data
        home.mkdir(mode=0o700, parents=True, exist_ok=True)


@asynccontextmanager
async def simulated_world(data_dir: Path, proxies: int) -> AsyncIterator[dict[str, Any]]:
    """Run the simulated world, with its state under the data directory. One that outlived a killed server is adopted.

    It is a process of its own group: Ctrl-C in the terminal is for the server, which ends it last.
    """
    world = await asyncio.to_thread(_begin, data_dir, proxies)
    log.info("simulator.ready", control=world.ready["control"])
    try:
        yield world.ready
    finally:
        await asyncio.to_thread(_end, world)


@dataclass(frozen=True, slots=True)
class _World:
    pid: int
    note: Path
    ready: dict[str, Any]


def _begin(data_dir: Path, proxies: int) -> _World:
    home = data_dir.absolute() / _HOME
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    note = home / "running.json"
    return _adopted(note) or _started(home, note, proxies)


def _adopted(note: Path) -> _World | None:
    try:
        kept = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    lives = process_identity.start_time(kept["pid"]) == kept["start"]
    return _World(kept["pid"], note, kept["ready"]) if lives else None


def _started(home: Path, note: Path, proxies: int) -> _World:
    command = [sys.executable, "-c", _RUN, "simulate", "--json", "--data-dir", str(home), "--proxies", str(proxies)]
    with (home / "log").open("ab") as errors:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    assert child.stdout is not None  # noqa: S101 (asked for above)
    line = child.stdout.readline()
    child.stdout.close()
    if not line:
        raise Unavailable("SIMULATOR_DID_NOT_START", f"The simulated world ended at once; see {home / 'log'}.")
    ready = json.loads(line)
    note.write_text(
        json.dumps({"pid": child.pid, "start": process_identity.start_time(child.pid), "ready": ready}), "utf-8"
    )
    return _World(child.pid, note, ready)


def _end(world: _World) -> None:
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(world.pid, number)
        deadline = time.monotonic() + patience_s
        while process_identity.start_time(world.pid) is not None and time.monotonic() < deadline:
            time.sleep(0.05)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(world.pid, os.WNOHANG)
    world.note.unlink(missing_ok=True)


def point_at(settings: Settings, ready: dict[str, Any]) -> Settings:
    """Let the server use the simulated world instead of the real one. The worker is the real one, unchanged."""
    changes: dict[str, Any] = {
        "proxy_urls": tuple(SecretStr(url) for url in ready["proxies"]),
        "worker_ca_file": Path(ready["caFile"]),
        "telegram_api_url": ready["telegram"],
    }
    # Simulated people do not sleep: a demo at night shows messages too.
    changes |= {name: ALL_DAY for name in _HOURS if getattr(settings, name) is None}
    if settings.telegram_bot_token is None:
        changes |= {
            "telegram_bot_token": SecretStr("100000001:simulated-simulated-simulated"),
            "telegram_chat_id": "1",
        }
    return settings.model_copy(update=changes)
