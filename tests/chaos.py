"""The fault campaign: `make chaos`. Runs the tests that kill and cut, with one seed, and reports per invariant.

The tests are those of `make test`; in full they are larger, and the aimed faults come along. A test that fails is a
violation of its invariants; the seed repeats the same choices of who dies when.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from bench import _results

ROOT: Final = Path(__file__).parents[1]
INVARIANTS: Final = 31
#: What a test of the campaign calls with its figures: pytest's `record_property`.
Record = Callable[[str, object], None]
#: The ledger takes as long as all others together, so in full they run beside it.
BESIDE: Final = ("-n", "2", "--dist", "worksteal")
#: Sizes of the long form.
FULL: Final = {"LEDGER": "chaos", "INCOMING": "full", "LONG_RUN": "full", "BACKUP_KILLS": "100", "ARCHIVE_KILLS": "100",
               "WORKER_KILLS": "200"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """A test of the campaign, and the invariants that it judges."""

    test: str
    judges: tuple[int, ...]
    is_aimed: bool = False
    """A fault at one step rather than at random; in the long form only, because `make test` has it in this size."""


CAMPAIGN: Final = (
    Part("tests/e2e/test_ledger.py", (1, 2, 4, 5, 6, 8, 9, 12)),
    Part("tests/messages/test_ledger.py", (1, 2, 3, 4, 5, 6, 10, 12)),
    Part("tests/worker/test_kills.py", (2, 17)),
    Part("tests/worker/test_incoming_run.py", (22,)),
    Part("tests/backups/test_kill.py", (18,)),
    Part("tests/archive/test_kill.py", (1,)),
    Part("tests/orchestrator/test_long_run.py", (8, 9, 28), is_aimed=True),
    Part("tests/orchestrator/test_real_workers.py", (8, 9, 15), is_aimed=True),
    Part("tests/orchestrator/test_leader_lease.py", (15, 16), is_aimed=True),
    Part("tests/orchestrator/test_worker_events.py", (13, 14), is_aimed=True),
    Part("tests/gateway/test_idempotency.py", (3,), is_aimed=True),
    Part("tests/gateway/test_outage.py", (19,), is_aimed=True),
    Part("tests/dispatcher/test_fortnight.py", (6, 7), is_aimed=True),
    Part("tests/worker/test_ends.py", (11,), is_aimed=True),
    Part("tests/worker/test_crash.py", (2, 17), is_aimed=True),
    Part("tests/backups/test_refused_archives.py", (18,), is_aimed=True),
    Part("tests/orchestrator/test_alerts.py", (20,), is_aimed=True),
    Part("tests/test_logs.py", (21,), is_aimed=True),
    Part("tests/e2e/test_aimed_faults.py", (10, 20), is_aimed=True),
    Part("tests/e2e/test_frozen_worker.py", (23,), is_aimed=True),
    Part("tests/e2e/test_full_disk.py", (24,), is_aimed=True),
    Part("tests/e2e/test_slow_worker_end.py", (25,), is_aimed=True),
    Part("tests/e2e/test_lifted_hold.py", (26,), is_aimed=True),
    Part("tests/e2e/test_clock_steps.py", (27,), is_aimed=True),
    Part("tests/e2e/test_our_outage.py", (28,), is_aimed=True),
    Part("tests/e2e/test_refusing_whatsapp.py", (29, 30), is_aimed=True),
    Part("tests/server/test_redis_check.py", (31,), is_aimed=True),
    Part("tests/e2e/test_emptied_redis.py", (31,), is_aimed=True),
)


@dataclass
class Tally:
    """What was tried for an invariant, and how often it did not hold."""

    tests: int = 0
    failed: int = 0
    skipped: int = 0
    figures: dict[str, int] = field(default_factory=dict)

    def add(self, case: ElementTree.Element) -> None:
        """Count one test of a JUnit report."""
        self.tests += 1
        self.failed += case.find("failure") is not None or case.find("error") is not None
        self.skipped += case.find("skipped") is not None
        for each in case.iter("property"):
            name = each.get("name", "")
            self.figures[name] = self.figures.get(name, 0) + int(each.get("value", "0"))


def tallies(report: Path, parts: Iterable[Part]) -> dict[int, Tally]:
    """Return what a JUnit report says about each invariant."""
    found: dict[int, Tally] = {}
    judged = {part.test.removesuffix(".py").replace("/", "."): part.judges for part in parts}
    for case in ElementTree.parse(report).iter("testcase"):
        for invariant in judged.get(case.get("classname", ""), ()):
            found.setdefault(invariant, Tally()).add(case)
    return dict(sorted(found.items()))


def lines(found: dict[int, Tally]) -> Iterator[str]:
    """Yield a line per invariant: how often it was violated, by what it was tried."""
    for invariant, tally in found.items():
        figures = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in tally.figures.items())
        skipped = f", {tally.skipped} skipped" if tally.skipped else ""
        yield f"I{invariant:<3} {tally.failed} violated   {tally.tests} tests{skipped}   {figures}".rstrip()


def main() -> int:
    """Run the campaign; in full, keep its report."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    asked = parser.parse_args()
    parts = [part for part in CAMPAIGN if asked.full or not part.is_aimed]
    seeds = dict.fromkeys(("CHAOS_SEED", "BACKUP_SEED", "ARCHIVE_SEED", "INCOMING_SEED"), str(asked.seed))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        report = Path(home) / "report.xml"
        command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "-o",
                   "junit_family=xunit1", *(BESIDE if asked.full else ()), *(part.test for part in parts))  # fmt: skip
        environment = os.environ | seeds | (FULL if asked.full else {})
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        found = tallies(report, parts)
    seconds = round(time.monotonic() - began)
    print(f"seed {asked.seed}, {seconds} s", *lines(found), sep="\n")
    if asked.full:
        told = {
            f"I{invariant}": {"violated": tally.failed, "tests": tally.tests, "skipped": tally.skipped, "kills": 0}
            | tally.figures
            for invariant, tally in found.items()
        }
        machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
        about = {"command": f"make chaos SEED={asked.seed} (python -m tests.chaos --full)", "machine": machine}
        _results.keep("chaos", {**about, "seed": asked.seed, "seconds": seconds, "invariants": told})
    return code


if __name__ == "__main__":
    sys.exit(main())
