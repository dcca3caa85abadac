"""The whole product on one machine: the simulated world, a server in a process of its own, real workers."""

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.processes import PRODUCT, Program, bare_environment, free_port
from tests.waiting import PATIENCE_S, until_blocking
from wa_orchestrator.runner import process_identity
from wa_orchestrator.runner.process import MARKER

API_KEY = "wao_5vR8kq2LxZt7mB1nWd9s"
T = TypeVar("T")


class Product:
    """One installation with its outside world."""

    def __init__(self, home: Path, proxies: int, **settings: object) -> None:
        self.home = home
        self._proxies = proxies
        self._port, self._gateway_port, self._worker_port = free_port(), free_port(), free_port()
        self._settings: dict[str, str] = {}
        self.change(**settings)
        self._outside: Program | None = None
        self.server: Program | None = None
        self.ready: dict[str, Any] = {}
        self.api = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", headers={"X-API-Key": API_KEY}, timeout=30)

    def __enter__(self) -> "Product":
        world = ("simulate", "--json", "--data-dir", str(self.home / "world"), "--proxies", str(self._proxies))
        self._outside = Program((*PRODUCT, *world), log=self.home / "world.log")
        self.ready = json.loads(self._outside.said(r'^{"control".*')[0])
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
        assert self._outside is not None
        self._outside.end()
        self.api.close()
        self.world.close()

    # -- the server ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server and wait until it answers."""
        environment = {
            **bare_environment(),
            "DATA_DIR": str(self.home / "data"),
            "ORCH_PORT": str(self._port),
            "GATEWAY_PORT": str(self._gateway_port),
            "WORKER_PORT": str(self._worker_port),
            "API_KEY": API_KEY,
            "WORKER_CA_FILE": self.ready["caFile"],
            "TELEGRAM_API_URL": self.ready["telegram"],
            **{f"PROXY_URL_{n}": url for n, url in enumerate(self.ready["proxies"], start=1)},
            **self._settings,
        }
        self.server = Program((*PRODUCT, "up"), cwd=self.home, env=environment, log=self.home / "server.log")
        self.server.said("is ready: ")
        self.until(lambda: self.api.get("/ready").status_code == 200, "the server to be ready")

    def change(self, **settings: object) -> None:
        """Change settings, for the next start."""
        self._settings |= {name.upper(): str(value) for name, value in settings.items()}

    def end(self, number: signal.Signals) -> None:
        """Send a signal to the server and wait until it is gone."""
        if self.server is not None:
            self.server.end(number)

    def until(self, look: Callable[[], T | None], what: str, within_s: float = PATIENCE_S) -> T:
        """Wait for something; if it does not happen, the error has what the server said last."""
        return until_blocking(look, lambda: f"{what}\n{self.server.tail() if self.server else ''}", within_s)

    # -- sessions -----------------------------------------------------------------------------------------------------

    def sessions(self) -> dict[str, dict[str, Any]]:
        """All sessions by id."""
        listed = self.api.get("/api/sessions", params={"limit": 500}).json()["sessions"]
        return {session["sessionId"]: session for session in listed}

    def link(self, *ids: str, first_phone: int = 972501000001, labels: Mapping[str, str] | None = None) -> None:
        """Provision sessions and let simulated phones scan their codes."""
        phones = {session_id: str(first_phone + n) for n, session_id in enumerate(ids)}
        for session_id in ids:
            label = {"label": labels[session_id]} if labels else {}
            answer = self.api.post("/api/sessions/provision", json={"sessionId": session_id, **label})
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

        self.until(step, f"{ids} to be linked", PATIENCE_S + 10 * len(ids))

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
        for pid in process_identity.pids():
            environment = process_identity.environment(pid)
            if environment and environment.get(MARKER) == home and process_identity.start_time(pid) is not None:
                found[environment["SESSION_ID"]] = {"pid": pid, "epoch": int(environment["EPOCH"])}
        return found


@contextlib.contextmanager
def running_product(home: Path, proxies: int, **settings: object) -> Iterator[Product]:
    """A product that cleans up after itself."""
    with Product(home, proxies, **settings) as product:
        yield product
