"""Memory of the product with 1 to 500 real workers; times of a link, a failover and a power cut.

One fleet grows from size to size; at each the memory of workers, server and Redis is read (PSS, shared pages once), and
the last session is linked alone and timed. At the largest a proxy dies, then everything by `kill -9` at once (server,
Redis, workers). Run as `python -m bench.fleet_sizes`; the result goes to `bench/results/fleet_sizes.json`. Alone on two
cores about a second per worker.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.orchestrator.product import Product, running_product

from bench import _results
from bench.whole_product import PER_PROXY, SETTINGS, Fleet, _pss_kb

SIZES = (1, 30, 100, 300, 500)
#: Linked together: a code that waits for more starts is no longer valid when it is scanned.
_AT_ONCE = 12
_FIRST_PHONE = 972501000001
_SETTLE_S = 15.0
#: The list of all sessions costs the server time that workers need to start.
_LOOK_S = 0.5
_LONG_S = 1800.0


class Growth:
    """A fleet that becomes larger, and what it takes at each size."""

    def __init__(self, product: Product, largest: int) -> None:
        self._product = product
        self._fleet = Fleet(product, largest)
        self._size = 0

    def grow(self, size: int) -> dict[str, float]:
        """Link sessions until there are `size`; return the times of the last one, which was linked alone."""
        while self._size < size - 1:
            self._link(min(size - 1, self._size + _AT_ONCE))
        began = time.monotonic()
        [name] = self._provision(size)
        code = self._product.until(lambda: self._code(name), f"{name} to show a code", _LONG_S)
        shown = time.monotonic()
        self._scan(name, code)
        self._product.until(lambda: self._product.connected(name), f"{name} to be linked", _LONG_S)
        return {"qr_s": round(shown - began, 2), "scan_to_connected_s": round(time.monotonic() - shown, 2)}

    def _link(self, size: int) -> None:
        names, scanned = self._provision(size), set[str]()

        def step() -> bool:
            now = self._product.sessions()
            for name in names:
                if now[name]["status"] == "qr_ready" and (code := self._code(name)) and code not in scanned:
                    scanned.add(code)
                    self._scan(name, code)
            return all(now[name]["status"] == "connected" for name in names)

        _patiently(step, f"{names} to be linked")

    def _provision(self, size: int) -> list[str]:
        names = self._fleet.ids[self._size : size]
        for name in names:
            answer = self._product.api.post("/api/sessions/provision", json={"sessionId": name})
            assert answer.status_code == 201, answer.text
        self._size = size
        return names

    def _code(self, name: str) -> str:
        shown = self._product.api.get(f"/api/sessions/{name}/qr")
        return str(shown.json().get("qr") or "") if shown.status_code == 200 else ""

    def _scan(self, name: str, code: str) -> None:
        phone = _FIRST_PHONE + self._fleet.ids.index(name)
        self._product.world.post(f"/phones/{phone}/scan", json={"qr": code})

    def memory(self) -> dict[str, float]:
        """Let the fleet settle; return megabytes: of a worker, of server and Redis, and of everything per session."""
        time.sleep(_SETTLE_S)
        workers = [_pss_kb(each["pid"]) for each in self._product.workers().values()]
        assert len(workers) == self._size, f"{len(workers)} workers of {self._size} sessions"
        server = sum(map(_pss_kb, self._fleet.server_pids()))
        redis = _pss_kb(self._fleet.redis_pid())
        megabytes = {
            "worker_mb": sum(workers) / self._size,
            "server_mb": server,
            "redis_mb": redis,
            "per_session_mb": (sum(workers) + server + redis) / self._size,
        }
        return {name: round(kilobytes / 1000, 2) for name, kilobytes in megabytes.items()}

    def failover(self) -> dict[str, float]:
        """Let the proxy of the first session die; return when all of its sessions are connected by another."""
        phone = str(_FIRST_PHONE)
        dead = next(each["proxy"] for each in self._product.connections() if each["phone"] == phone)
        phones = {each["phone"] for each in self._product.connections() if each["proxy"] == dead}
        began = time.monotonic()
        for kind in ("refuse", "drop"):
            self._product.fault({"proxy": dead}, kind)

        def moved() -> bool:
            homes = {each["phone"]: each["proxy"] for each in self._product.connections()}
            return all(homes.get(each, dead) != dead for each in phones)

        _patiently(moved, "another proxy")
        return {"sessions": len(phones), "all_connected_elsewhere_s": round(time.monotonic() - began, 1)}

    def power_cut(self) -> dict[str, float]:
        """End everything at once and start the server again."""
        return self._fleet.come_back(_LOOK_S)


def _patiently(look: Callable[[], bool], what: str) -> None:
    """Look now and then until it is so."""
    deadline = time.monotonic() + _LONG_S
    while not look():
        assert time.monotonic() < deadline, f"not within {_LONG_S:g} s: {what}"
        time.sleep(_LOOK_S)


def measure(sizes: list[int]) -> dict[str, Any]:
    largest = sizes[-1]
    proxies = -(-largest // PER_PROXY) + 2  # room for one that dies
    with tempfile.TemporaryDirectory() as home, running_product(Path(home), proxies, **SETTINGS) as product:
        growth, found, began = Growth(product, largest), {}, time.monotonic()
        for size in sizes:
            found[str(size)] = growth.grow(size) | growth.memory() | {"at_s": round(time.monotonic() - began, 1)}
            print(size, found[str(size)], file=sys.stderr, flush=True)
        return {"sizes": found, "failover": growth.failover(), "power_cut": growth.power_cut()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    sizes = sorted(int(each) for each in parser.parse_args().sizes.split(","))
    load = round(os.getloadavg()[0], 1)
    found = measure(sizes)
    # What a session costs where server and Redis are shared by some, in the same run.
    found["few"] = {size: found["sizes"][str(sizes[min(1, len(sizes) - 1)])] for size in found["sizes"]}
    machine = {"cores": os.cpu_count(), "load": load, "python": platform.python_version()}
    command = " ".join(["python", "-m", "bench.fleet_sizes", *sys.argv[1:]])
    print(_results.keep("fleet_sizes", {"command": command, "machine": machine, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
