"""The whole product with a simulated WhatsApp and real workers: its cost at rest, per sent message, and its way back.

`python -m bench.whole_product --fleet 500` links so many sessions, lets them rest, sends, ends everything by `kill -9`
(server, Redis, workers), starts the server again, waits until WhatsApp sees all of them, and lets them rest again. CPU
time is that of the server and of Redis; workers and the simulator are counted apart. `BENCH_BEFORE=<another checkout>`
measures that one too, in the same run; it needs a worker's bundle of its own. The result goes to
`bench/results/whole_product.json`. Limits with 500 workers: 9 GB and 30 % of a core at rest, 8 ms for a sent message,
all back within 120 s.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from tests.orchestrator.product import API_KEY, Product, running_product

from bench._paired import cpu_s, keep, trees

#: No limit in the way of the load but the pause itself; links and restarts as quick as the machine allows.
SETTINGS = {
    "COLD_PER_DAY": 100_000, "COLD_PER_MINUTE": 60, "COLD_HOURS": "00:00-00:00", "COLD_PAUSE_MIN_MS": 1000,
    "COLD_PAUSE_MAX_MS": 2000, "QUEUE_LIMIT": 100_000, "PROVISIONING_INTERVAL_MS": 250,
    "RATE_LIMIT_PER_MINUTE": 600_000, "LOG_LEVEL": "info",
}  # fmt: skip
PER_PROXY = 4
SENDERS = 8
_LONG_S = 3600.0
_LOOK_S = 1.0
#: A worker collects garbage a minute after it has connected, which is no rest yet.
_SETTLED_AFTER_S = 75.0


class Cpu(NamedTuple):
    """CPU time so far, in seconds."""

    server: float
    redis: float
    workers: float


class Fleet:
    """The linked sessions of one product, and the processes that run for them."""

    def __init__(self, product: Product, size: int) -> None:
        self.product = product
        self.ids = [f"w{number:03d}" for number in range(size)]
        self._data = str(product.home / "data")

    def redis_pid(self) -> int:
        """Return the process of the embedded Redis: it is not a child of a server that found it running."""
        found = [pid for pid in _pids() if "-server" in (said := _command(pid)) and self._data in said]
        assert len(found) == 1, found
        return found[0]

    def server_pids(self) -> list[int]:
        """Return the server's own process and its children, without Redis and workers."""
        assert self.product.server is not None
        others = {self.redis_pid(), *(each["pid"] for each in self.product.workers().values())}
        return [pid for pid in _family(self.product.server.process.pid, others) if pid not in others]

    def cpu(self) -> Cpu:
        workers = [each["pid"] for each in self.product.workers().values()]
        return Cpu(_sum(self.server_pids()), cpu_s(self.redis_pid()), _sum(workers))

    def memory_gb(self) -> float:
        """Return the memory of everything but the simulator, shared pages once (PSS)."""
        workers = [each["pid"] for each in self.product.workers().values()]
        return round(sum(map(_pss_kb, [*self.server_pids(), self.redis_pid(), *workers])) / 1e6, 3)

    def rest(self, seconds: float) -> dict[str, float]:
        """Measure the fleet while nothing is sent and nobody has just connected."""
        time.sleep(_SETTLED_AFTER_S)
        before, begun = self.cpu(), time.monotonic()
        time.sleep(seconds)
        after, took = self.cpu(), time.monotonic() - begun
        shares = {name: round(100 * (getattr(after, name) - getattr(before, name)) / took, 2) for name in Cpu._fields}
        return {
            **{f"{name}_percent": share for name, share in shares.items()},
            "all_percent": round(sum(shares.values()), 2),
            "memory_gb": self.memory_gb(),
        }

    def send(self, each: int, rest: dict[str, float]) -> dict[str, float]:
        """Send so many messages from every session, and measure until their recipients have all of them."""
        before, begun = self.cpu(), time.monotonic()
        bodies = [
            {"to": f"97255{number:07d}", "message": f"Your order {number} is ready.", "sessionId": session}
            for turn in range(each)
            for number, session in enumerate(self.ids, turn * len(self.ids))
        ]
        key = {"X-API-Key": API_KEY}
        with ThreadPoolExecutor(SENDERS) as pool, httpx.Client(headers=key, timeout=60) as client:
            url = f"{self.product.api.base_url}/api/v1/send"
            for answer in pool.map(lambda body: client.post(url, json=body), bodies):
                assert answer.status_code == 202, answer.text
        while self._arrived() < len(bodies):
            time.sleep(_LOOK_S)  # the server is asked, so not often
        after, took = self.cpu(), time.monotonic() - begun
        server, redis = (1000 * (getattr(after, name) - getattr(before, name)) for name in ("server", "redis"))
        idle = 10 * took * (rest["server_percent"] + rest["redis_percent"])
        return {
            "messages": len(bodies),
            "seconds": round(took, 1),
            "messages_per_second": round(len(bodies) / took, 2),
            "server_ms_each": round(server / len(bodies), 2),
            "redis_ms_each": round(redis / len(bodies), 2),
            "ms_each": round((server + redis) / len(bodies), 2),
            "ms_each_without_rest": round((server + redis - idle) / len(bodies), 2),
        }

    def _arrived(self) -> int:
        counts = self.product.api.get("/api/v1/stats", params={"days": 2}).json()["total"]
        return int(counts["delivered"])

    def come_back(self, look_s: float = 0.0) -> dict[str, float]:
        """End everything at once, start the server again, and wait until WhatsApp sees every phone.

        `look_s` is a pause between two looks: the list of many sessions costs the server time that starts need.
        """
        pids = [*self.server_pids(), self.redis_pid(), *(each["pid"] for each in self.product.workers().values())]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.product.end(signal.SIGKILL)
        begun = time.monotonic()
        self.product.start()
        ready = time.monotonic() - begun
        half = len(self.ids) // 2

        def are_back(look: Callable[[], bool]) -> bool:
            time.sleep(look_s)
            return look()

        self.product.until(lambda: are_back(lambda: self._online() > half), "half of the phones to be back", _LONG_S)
        half_s = time.monotonic() - begun
        everybody = lambda: self._online() >= len(self.ids) and self.product.connected(*self.ids)  # noqa: E731
        self.product.until(lambda: are_back(everybody), "all phones to be back", _LONG_S)
        seconds = {"server_ready": ready, "half_back": half_s, "all_back": time.monotonic() - begun}
        return {f"{name}_s": round(value, 1) for name, value in seconds.items()}

    def _online(self) -> int:
        return len({each["phone"] for each in self.product.connections()})


def _pids() -> Iterable[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").replace("\0", " ")
    except OSError:
        return ""


def _family(pid: int, without: set[int]) -> list[int]:
    """Return a process and its descendants, without those of these processes."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [child for child in map(int, task.read_text().split()) if child not in without]
    return found


def _sum(pids: Iterable[int]) -> float:
    return sum(map(cpu_s, pids))


def _pss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def measure(tree: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the product of one checkout."""
    with tempfile.TemporaryDirectory() as home:
        paths = {"PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
        with running_product(Path(home), -(-options.fleet // PER_PROXY) + 2, **SETTINGS, **paths) as product:
            fleet, begun = Fleet(product, options.fleet), time.monotonic()
            product.link(*fleet.ids)
            linked_s = round(time.monotonic() - begun, 1)
            rest = fleet.rest(options.rest)
            sent = fleet.send(options.messages, rest)
            back = fleet.come_back()
            return {
                "linked_s": linked_s,
                "rest": rest,
                "send": sent,
                "after_kill_9": back,
                "rest_after_kill_9": fleet.rest(options.rest),
            }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fleet", type=int, default=100, help="sessions, each with a real worker")
    parser.add_argument("--messages", type=int, default=10, help="messages of each session")
    parser.add_argument("--rest", type=float, default=60, help="seconds at rest")
    options = parser.parse_args()
    result = {name: measure(tree, options) for name, tree in trees().items()}
    arguments = f"--fleet {options.fleet} --messages {options.messages} --rest {options.rest:g}"
    keep("whole_product", {"fleet": options.fleet, "result": result}, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
