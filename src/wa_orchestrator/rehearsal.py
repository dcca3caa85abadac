"""`up --simulate`: the simulated world as a process beside the server, and a fleet that links itself."""

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

import httpx
import structlog
from pydantic import SecretStr

from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.runner import proc
from wa_orchestrator.settings import Settings

SEATS = 4
#: Where the simulated world keeps its state, under the data directory. It marks a rehearsal.
_HOME = "simulator"
ALL_DAY = "00:00-00:00"
_HOURS = ("cold_hours", "warm_hours", "hot_hours")
FIRST_PHONE = 972500000001
_READY_S = 30.0
_LINKED_S = 110.0
_RUN = "from wa_orchestrator.cli import main; main()"
log = structlog.get_logger(__name__)


def proxies_for(fleet: int) -> int:
    """Say how many proxies a fleet needs, with one to spare for failovers."""
    return max(3, -(-fleet // SEATS) + 1)


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
    lives = proc.start_time(kept["pid"]) == kept["start"]
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
    note.write_text(json.dumps({"pid": child.pid, "start": proc.start_time(child.pid), "ready": ready}), "utf-8")
    return _World(child.pid, note, ready)


def _end(world: _World) -> None:
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(world.pid, number)
        deadline = time.monotonic() + patience_s
        while proc.start_time(world.pid) is not None and time.monotonic() < deadline:
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


class LinkedFleet:
    """Provisions and links sessions through the public API and the simulated phones, then lets them talk."""

    def __init__(self, base_url: str, api_key: str, control_url: str, size: int) -> None:
        self._api = httpx.AsyncClient(base_url=base_url, headers={"X-API-Key": api_key}, timeout=30)
        self._world = httpx.AsyncClient(base_url=control_url, timeout=30)
        self._size = size

    async def run(self) -> None:
        """Do it once. A fleet that is there already is left as it is."""
        async with self._api, self._world:
            sessions = await self._provisioned()
            await asyncio.gather(*(self._link(session_id, phone) for session_id, phone in sessions.items()))
            log.info("fleet.linked", sessions=len(sessions))
            await self._talk(list(sessions.values()))

    async def _provisioned(self) -> dict[str, str]:
        wanted = {f"demo-{n + 1}": str(FIRST_PHONE + n) for n in range(self._size)}
        listed = (await self._api.get("/api/sessions", params={"limit": 500})).raise_for_status().json()
        known = {session["sessionId"] for session in listed["sessions"]}
        for session_id, phone in wanted.items():
            if session_id not in known:
                body = {"sessionId": session_id, "phone": phone, "label": "demo"}
                (await self._api.post("/api/sessions/provision", json=body)).raise_for_status()
        return wanted

    async def _link(self, session_id: str, phone: str) -> None:
        """Scan each new code until the session is connected."""
        scanned = ""
        deadline = time.monotonic() + _LINKED_S
        while time.monotonic() < deadline:
            status = (await self._api.get(f"/api/sessions/{session_id}/status")).json()
            if status.get("status") == "connected":
                return
            shown = await self._api.get(f"/api/sessions/{session_id}/qr", headers={"Accept": "application/json"})
            code = shown.json().get("qr", "") if shown.status_code == httpx.codes.OK else ""
            if code and code != scanned:
                scanned = code
                answer = await self._world.post(f"/phones/{phone}/scan", json={"qr": code})
                log.info("fleet.scanned", session=session_id, status=answer.status_code)
            await asyncio.sleep(0.2)
        log.error("fleet.not_linked", session=session_id)

    async def _talk(self, phones: list[str]) -> None:
        """Let each session write to the next one's phone, once per start of the demo."""
        for number, phone in enumerate(phones):
            to = phones[(number + 1) % len(phones)]
            body = {"to": to, "message": f"Hello from the demo, {number + 1}.", "phone": phone}
            answer = await self._api.post("/api/v1/send", json=body)
            log.info("fleet.sent", status=answer.status_code)
