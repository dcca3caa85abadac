"""The whole product on one machine: the simulated world, a server in a process of its own, real workers."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx

from wa_orchestrator.runner import proc
from wa_orchestrator.runner.process import MARK

API_KEY = "wao_5vR8kq2LxZt7mB1nWd9s"
RUN = "from wa_orchestrator.cli import main; main()"
T = TypeVar("T")


def free_port() -> int:
    """A port nobody has just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(look: Callable[[], T], timeout_s: float, what: str) -> T:
    """Look until there is something; the deadline says what was missing."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.05)


class Stage:
    """One installation with its outside world."""

    def __init__(self, home: Path, proxies: int, **settings: object) -> None:
        self.home = home
        self._proxies = proxies
        self._port, self._gateway_port = free_port(), free_port()
        self._settings = {name.upper(): str(value) for name, value in settings.items()}
        self._world: subprocess.Popen[bytes] | None = None
        self.server: subprocess.Popen[bytes] | None = None
        self.ready: dict[str, Any] = {}
        self.api = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", headers={"X-API-Key": API_KEY}, timeout=30)

    def __enter__(self) -> "Stage":
        self._world = subprocess.Popen(
            [sys.executable, "-c", RUN, "simulate", "--json", "--data-dir", str(self.home / "world"),
             "--proxies", str(self._proxies)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._world.stdout is not None
        self.ready = json.loads(self._world.stdout.readline())
        self.world = httpx.Client(base_url=self.ready["control"], timeout=30)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self.end(signal.SIGINT)
        for worker in self.workers().values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker["pid"], signal.SIGKILL)
        assert self._world is not None
        self._world.terminate()
        self._world.wait(10)
        self.api.close()
        self.world.close()

    # -- the server ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server and wait until it answers."""
        environment = {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")},
            "DATA_DIR": str(self.home / "data"),
            "ORCH_PORT": str(self._port),
            "GATEWAY_PORT": str(self._gateway_port),
            "API_KEY": API_KEY,
            "WORKER_CA_FILE": self.ready["caFile"],
            "TELEGRAM_API_URL": self.ready["telegram"],
            **{f"PROXY_URL_{n}": url for n, url in enumerate(self.ready["proxies"], start=1)},
            **self._settings,
        }
        log = (self.home / "server.log").open("ab")
        self.server = subprocess.Popen(
            [sys.executable, "-c", RUN, "up"], cwd=self.home, env=environment, stdout=log, stderr=log
        )
        log.close()
        until(self._answers, 30, f"the server to answer\n{self.log()}")

    def _answers(self) -> bool:
        assert self.server is not None
        assert self.server.poll() is None, self.log()
        try:
            return self.api.get("/ready").status_code == 200
        except httpx.TransportError:
            return False

    def end(self, number: signal.Signals) -> None:
        """Send a signal to the server and wait until it is gone."""
        if self.server is not None and self.server.poll() is None:
            self.server.send_signal(number)
            self.server.wait(30)

    def log(self) -> str:
        """What the server said last."""
        return (self.home / "server.log").read_text("utf-8", "replace")[-4000:]

    # -- sessions -----------------------------------------------------------------------------------------------------

    def sessions(self) -> dict[str, dict[str, Any]]:
        """All sessions by id."""
        listed = self.api.get("/api/sessions", params={"limit": 500}).json()["sessions"]
        return {session["sessionId"]: session for session in listed}

    def link(self, *ids: str, first_phone: int = 972501000001) -> None:
        """Provision sessions and let simulated phones scan their codes."""
        phones = {session_id: str(first_phone + n) for n, session_id in enumerate(ids)}
        for session_id in ids:
            answer = self.api.post("/api/sessions/provision", json={"sessionId": session_id})
            assert answer.status_code == 201, answer.text
        scanned: set[str] = set()

        def step() -> bool:
            now = self.sessions()
            for session_id in ids:
                if now[session_id]["status"] == "qr_ready":
                    shown = self.api.get(f"/api/sessions/{session_id}/qr")
                    code = shown.json().get("qr") if shown.status_code == 200 else None
                    if code and code not in scanned:
                        scanned.add(code)
                        self.world.post(f"/phones/{phones[session_id]}/scan", json={"qr": code})
            return all(now[session_id]["status"] == "connected" for session_id in ids)

        until(step, 20 + 8 * len(ids), f"{ids} to be linked\n{self.log()}")

    def connected(self, *ids: str) -> bool:
        """Whether WhatsApp itself sees these sessions' phones, and the server says so too."""
        now = self.sessions()
        online = {each["phone"] for each in self.connections()}
        return all(now[each]["status"] == "connected" and now[each]["phone"] in online for each in ids)

    # -- what the outside world saw -----------------------------------------------------------------------------------

    def connections(self) -> list[dict[str, Any]]:
        """Who is connected through what, by WhatsApp's own list."""
        answer = self.world.get("/connections").json()
        found = answer if isinstance(answer, list) else answer["connections"]
        return [each for each in found if each.get("phone")]

    def proxies(self) -> dict[str, dict[str, Any]]:
        """What each proxy counted, by its simulator id."""
        return {each["id"]: each for each in self.world.get("/proxies").json()}

    def fault(self, target: object, kind: str, **more: object) -> None:
        """Let something go wrong."""
        answer = self.world.post("/faults", json={"target": target, "kind": kind, **more})
        assert answer.status_code < 300, answer.text

    def heal(self) -> None:
        """End all faults."""
        self.world.delete("/faults")

    # -- workers ------------------------------------------------------------------------------------------------------

    def workers(self) -> dict[str, dict[str, int]]:
        """The worker processes that run, by session."""
        home = str((self.home / "data" / "workers").absolute())
        found: dict[str, dict[str, int]] = {}
        for pid in proc.pids():
            environment = proc.environment(pid)
            if environment and environment.get(MARK) == home and proc.start_time(pid) is not None:
                found[environment["SESSION_ID"]] = {"pid": pid, "epoch": int(environment["EPOCH"])}
        return found


@contextlib.contextmanager
def staged(home: Path, proxies: int, **settings: object) -> Iterator[Stage]:
    """A stage that cleans up after itself."""
    with Stage(home, proxies, **settings) as stage:
        yield stage
