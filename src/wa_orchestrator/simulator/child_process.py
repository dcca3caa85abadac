"""The simulator beside a server: as a child process of `up --simulate`, or in a container of its own."""

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
#: Directory of the simulator's state. It marks the data directory as simulated.
HOME = "simulator"
#: In that directory: where everything is, for servers that share it.
READY_FILE = "ready.json"
ALL_DAY = "00:00-00:00"
_HOURS = ("cold_hours", "warm_hours", "hot_hours")
_RUN = "from wa_orchestrator.cli.main import main; main()"
log = structlog.get_logger(__name__)


def proxies_for(fleet: int) -> int:
    """Return how many proxies a fleet needs, with a spare one for failovers."""
    return max(3, -(-fleet // SLOTS) + 1)


def check_data_dir(data_dir: Path, *, simulate: bool) -> None:
    """Refuse to mix simulated and real data: simulated sessions would connect to the real WhatsApp."""
    home = data_dir / HOME
    is_simulated, is_used = home.is_dir(), (data_dir / "redis").is_dir()
    if simulate and is_used and not is_simulated:
        raise Refused(
            "REAL_DATA", f"{data_dir} has real sessions. Use another directory: `make demo`, or another --data-dir."
        )
    if is_simulated and not simulate:
        raise Refused(
            "REHEARSAL_DATA", f"{data_dir} has simulated sessions. Add --simulate, or use another --data-dir."
        )
    if simulate:  # marked first: after a crash the directory must not look like real data
        home.mkdir(mode=0o700, parents=True, exist_ok=True)


def join_world(settings: Settings) -> tuple[Settings, dict[str, Any] | None]:
    """Use the simulator that runs beside this service and shares its directory, if there is one.

    A data directory stays with what it began with, as in `check_data_dir`: this one knows by a file, because the
    directory of the simulator is a mount that is always there.
    """
    try:
        ready = json.loads((settings.data_dir / HOME / READY_FILE).read_text("utf-8"))
    except FileNotFoundError:
        ready = None
    mine = "simulated" if ready else "real"
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = settings.data_dir / "world"
    with contextlib.suppress(FileExistsError):
        handle = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(handle, mine.encode())
        os.close(handle)
    if (before := kept.read_text("utf-8")) and before != mine:
        raise Refused(
            "REAL_DATA" if ready else "REHEARSAL_DATA",
            f"{settings.data_dir} has {before} sessions, and this start is for {mine} ones. Move the data away first.",
        )
    return (use_simulator(settings, ready), ready) if ready else (settings, None)


@asynccontextmanager
async def simulated_world(data_dir: Path, proxies: int) -> AsyncIterator[dict[str, Any]]:
    """Run the simulator with its state in the data directory. One that outlived a killed server is adopted.

    It has its own process group: Ctrl-C in the terminal is for the server, which stops it last.
    """
    world = await asyncio.to_thread(_start_or_adopt, data_dir, proxies)
    log.info("simulator.ready", control=world.ready["control"])
    try:
        yield world.ready
    finally:
        await asyncio.to_thread(_stop, world)


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    pid_file: Path
    ready: dict[str, Any]


def _start_or_adopt(data_dir: Path, proxies: int) -> _Process:
    home = data_dir.absolute() / HOME
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    pid_file = home / "running.json"
    return _adopt(pid_file) or _start(home, pid_file, proxies)


def _adopt(pid_file: Path) -> _Process | None:
    try:
        kept = json.loads(pid_file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    lives = process_identity.start_time(kept["pid"]) == kept["start"]
    return _Process(kept["pid"], pid_file, kept["ready"]) if lives else None


def _start(home: Path, pid_file: Path, proxies: int) -> _Process:
    command = [sys.executable, "-c", _RUN, "simulate", "--json", "--data-dir", str(home), "--proxies", str(proxies)]
    with (home / "log").open("ab") as errors:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    assert child.stdout is not None  # noqa: S101 (requested above)
    line = child.stdout.readline()
    child.stdout.close()
    if not line:
        raise Unavailable("SIMULATOR_DID_NOT_START", f"The simulator exited at once; see {home / 'log'}.")
    ready = json.loads(line)
    pid_file.write_text(
        json.dumps({"pid": child.pid, "start": process_identity.start_time(child.pid), "ready": ready}), "utf-8"
    )
    return _Process(child.pid, pid_file, ready)


def _stop(world: _Process) -> None:
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(world.pid, number)
        deadline = time.monotonic() + patience_s
        while process_identity.start_time(world.pid) is not None and time.monotonic() < deadline:
            time.sleep(0.05)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(world.pid, os.WNOHANG)
    world.pid_file.unlink(missing_ok=True)


def use_simulator(settings: Settings, ready: dict[str, Any]) -> Settings:
    """Return settings that point the server at the simulator. The worker is the real one, unchanged."""
    changes: dict[str, Any] = {
        "proxy_urls": tuple(SecretStr(url) for url in ready["proxies"]),
        "worker_ca_file": Path(ready["caFile"]),
        "telegram_api_url": ready["telegram"],
    }
    # No quiet hours: a demo at night must send messages too.
    changes |= {name: ALL_DAY for name in _HOURS if getattr(settings, name) is None}
    if settings.telegram_bot_token is None:
        changes |= {
            "telegram_bot_token": SecretStr("100000001:simulated-simulated-simulated"),
            "telegram_chat_id": "1",
        }
    return settings.model_copy(update=changes)
