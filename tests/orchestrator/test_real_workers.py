"""The control plane with real workers, a simulated WhatsApp and real SOCKS5 proxies, judged by what these saw."""

import functools
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.orchestrator.product import Product, running_product
from tests.waiting import PATIENCE_S, promised
from wa_orchestrator.orchestrator.workers.restart_limit import MAX_RESTARTS
from wa_orchestrator.runner import process_identity
from wa_orchestrator.runner.node_command import worker_command

FENCED = 22
#: A tenth of the watchdog's times: a ping every 1.5 s, silence proven after 6 s, a look every 2 s.
QUICK = {"time_scale": 10, "ping_timeout_ms": 60_000, "watchdog_interval_ms": 20_000, "provisioning_interval_ms": 500}
#: Pings wait with growing pauses for a server that dies, and those pauses know no time scale.
PATIENT_MS = 1_800_000


def homes(product: Product) -> dict[str, str]:
    """Phone → proxy, by WhatsApp's own list of connections."""
    return {each["phone"]: each["proxy"] for each in product.connections()}


def phones(product: Product, *ids: str) -> list[str]:
    now = product.sessions()
    return [str(now[session_id]["phone"]) for session_id in ids]


def replaced(product: Product, session_id: str, pid: int) -> bool:
    worker = product.workers().get(session_id)
    return worker is not None and worker["pid"] != pid and product.connected(session_id)


def clone_of(product: Product, session_id: str, place: Path) -> tuple[list[str], dict[str, str]]:
    """Everything a worker has, as it would lie on another machine that was cut off."""
    environment = process_identity.environment(product.workers()[session_id]["pid"]) or {}
    auth, secrets = Path(environment["AUTH_DIR"]), Path(environment["WORKER_TOKEN_FILE"]).parent
    shutil.copytree(auth, place / "auth")
    shutil.copytree(secrets, place / "secrets")
    moved = {
        name: str(place / "secrets" / Path(value).name) if name.endswith("_FILE") else value
        for name, value in environment.items()
        if name != "WA_RUNNER_HOME"
    }
    return list(worker_command(None, 256)), {**moved, "AUTH_DIR": str(place / "auth")}


def test_dead_frozen_and_cut_off_workers_are_replaced_and_a_dead_server_is_not_missed(tmp_path: Path) -> None:
    with running_product(tmp_path, proxies=3, **QUICK) as product:
        product.link("a", "b", "c")

        # kill -9: connected again within ten seconds, and what it left behind on another machine is fenced.
        command, environment = clone_of(product, "a", tmp_path / "clone")
        victim = product.workers()["a"]["pid"]
        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        product.until(lambda: replaced(product, "a", victim), "a new worker after kill -9", promised(10))
        killed_s = time.monotonic() - began
        log = (tmp_path / "clone.log").open("wb")
        revenant = subprocess.run(
            command, env=environment, cwd=tmp_path, stdout=log, stderr=log, timeout=PATIENCE_S, check=False
        )
        assert revenant.returncode == FENCED, (tmp_path / "clone.log").read_text()
        product.until(lambda: product.connected("a"), "the real worker to be connected", promised(10))

        # Frozen: replaced within the ping timeout and one round of the watchdog, with a second for the start.
        victim = product.workers()["b"]["pid"]
        began = time.monotonic()
        os.kill(victim, signal.SIGSTOP)
        product.until(
            lambda: product.workers().get("b", {}).get("pid") not in (None, victim),
            "a frozen worker's successor",
            promised(6 + 2 + 2),
        )
        frozen_s = time.monotonic() - began
        assert process_identity.start_time(victim) is None
        product.until(lambda: product.connected("b"), "the successor to be connected", promised(10))

        # The proxy dies: connected again through another within fifteen seconds, by one change of the binding.
        product.until(lambda: product.connected("a", "b", "c"), "everybody to be connected", promised(10))
        dead = homes(product)[phones(product, "c")[0]]
        began = time.monotonic()
        product.fault({"proxy": dead}, "refuse")
        product.fault({"proxy": dead}, "drop")
        product.until(lambda: has_left(product, ["a", "b", "c"], dead), "another proxy", promised(15))
        moved_s = time.monotonic() - began

        # kill -9 of the server: nobody is restarted, everybody is adopted.
        before = product.workers()
        product.end(signal.SIGKILL)
        product.change(ping_timeout_ms=PATIENT_MS)
        began = time.monotonic()
        product.start()
        product.until(
            lambda: "wa_workers 3.0" in product.api.get("/metrics").text, "all workers to be adopted", promised(5)
        )
        adopted_s = time.monotonic() - began
        assert product.workers() == before
        assert product.connected("a", "b", "c")
        assert all(each["highWater"] <= 4 for each in product.proxies().values())
        print(f"kill -9 {killed_s:.1f} s, frozen {frozen_s:.1f} s, proxy {moved_s:.1f} s, adopted {adopted_s:.1f} s")


def shake(product: Product, ids: list[str], times: int, dice: random.Random) -> None:
    """Restart workers and the server at random; after each, everybody is connected as before.

    Nobody is killed more often than the server forgives: on a fast machine that would be within its quarter of an hour.
    """
    killed = Counter[str]()
    for name in ids:
        product.api.post(f"/api/sessions/{name}/start")  # forgives what was before
    for _ in range(times):
        victim = None
        lines = line_numbers(product)
        match dice.choice(["kill", "kill", "restart", "restart", "server term", "server kill"]):
            case "kill":
                workers = {name: each for name, each in product.workers().items() if killed[name] < MAX_RESTARTS}
                if workers:
                    victim = dice.choice(sorted(workers))
                    killed[victim] += 1
                    os.kill(workers[victim]["pid"], signal.SIGKILL)
            case "restart":
                victim = dice.choice(ids)
                killed[victim] = 0
                product.api.post(f"/api/sessions/{victim}/restart")
            case "server term":
                product.end(signal.SIGTERM)
                product.start()
            case "server kill":
                product.end(signal.SIGKILL)
                product.start()
        product.until(functools.partial(back, product, ids, victim, lines), "everybody", promised(40))


def line_numbers(product: Product) -> dict[str, int]:
    """Phone → the number of its connection, by which WhatsApp tells a new one from the one before."""
    return {each["phone"]: each["connection"] for each in product.connections()}


def back(product: Product, ids: list[str], victim: str | None, lines: dict[str, int]) -> bool:
    """Whether everybody is connected, and the victim by a new connection: its old one may be listed for a moment."""
    if len(product.workers()) != len(ids) or not product.connected(*ids):
        return False
    if victim is None:
        return True
    phone = phones(product, victim)[0]
    return line_numbers(product).get(phone) not in (None, lines[phone])


def has_left(product: Product, ids: list[str], proxy: str) -> bool:
    """Whether everybody is connected elsewhere; a session is called connected until its worker has told of the cut."""
    found = homes(product)
    return product.connected(*ids) and len(found) == len(ids) and proxy not in found.values()


def restarts_change_no_proxy(home: Path, sessions: int, times: int) -> None:
    """Phone → proxy stays through restarts and changes once when a proxy dies."""
    patient = {"ping_timeout_ms": PATIENT_MS, "time_scale": 10}
    with running_product(home, proxies=3, provisioning_interval_ms=200, **patient) as product:
        ids = [f"s{number}" for number in range(sessions)]
        product.link(*ids)
        before = homes(product)
        shake(product, ids, times, random.Random(7))
        assert homes(product) == before
        dead = before[phones(product, "s0")[0]]
        product.fault({"proxy": dead}, "refuse")
        product.fault({"proxy": dead}, "drop")
        product.until(lambda: has_left(product, ids, dead), "failover", promised(40))
        after = homes(product)
        product.heal()
        shake(product, ids, max(2, times // 10), random.Random(8))
        assert homes(product) == after
        assert {phone for phone in before if before[phone] != after[phone]} == {
            phone for phone in before if before[phone] == dead
        }
        assert all(each["highWater"] <= 4 for each in product.proxies().values())


def test_restarts_change_no_proxy_and_a_dead_proxy_changes_it_once(tmp_path: Path) -> None:
    restarts_change_no_proxy(tmp_path, sessions=3, times=5)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # fifty restarts one after another, each within its own limit
def test_fifty_restarts_change_no_proxy_and_a_dead_proxy_changes_it_once(tmp_path: Path) -> None:
    restarts_change_no_proxy(tmp_path, sessions=6, times=50)


@pytest.mark.slow
def test_with_a_full_pool_and_half_of_it_dying_nobody_is_a_fifth_and_all_come_back(tmp_path: Path) -> None:
    with running_product(
        tmp_path, proxies=4, time_scale=10, provisioning_interval_ms=300, monitor_interval_ms=2000
    ) as product:
        ids = [f"s{number:02}" for number in range(16)]
        product.link(*ids)
        dead = sorted({*homes(product).values()})[:2]
        for proxy in dead:
            product.fault({"proxy": proxy}, "refuse")
            product.fault({"proxy": proxy}, "drop")

        def waiting() -> list[str]:
            return [name for name, each in product.sessions().items() if each["reason"] == "WAITING_FOR_PROXY"]

        product.until(lambda: len(waiting()) == 8, "eight to wait", promised(60))
        new = product.world.post("/proxies").json()
        product.api.post("/api/v1/proxies", json={"url": new["url"]})
        product.until(lambda: len(waiting()) == 4 and len(homes(product)) == 12, "four to go on", promised(60))
        product.heal()
        product.until(lambda: product.connected(*ids), "all to come back", promised(120))
        counted = {name: each["highWater"] for name, each in product.proxies().items()}
        assert max(counted.values()) <= 4, counted


@pytest.mark.slow
def test_twenty_workers_outlive_a_killed_server_and_are_adopted_within_five_seconds(tmp_path: Path) -> None:
    with running_product(tmp_path, proxies=5, provisioning_interval_ms=500) as product:
        ids = [f"s{number:02}" for number in range(20)]
        product.link(*ids)
        before = product.workers()
        product.end(signal.SIGKILL)
        product.start()
        began = time.monotonic()
        product.until(lambda: "wa_workers 20.0" in product.api.get("/metrics").text, "all twenty", promised(5))
        assert product.workers() == before
        assert len(before) == 20
        print(f"twenty adopted {time.monotonic() - began:.1f} s after the server answered")
