"""CPU time of looking after many workers: a survey, a look at each of them, a start, and the stop of all.

The workers are `sleep`, so that only the driver is measured. Run as `python -m bench.runner`; the result goes to
`bench/results/runner.json`. `--tree DIR` measures the code of another checkout too, in alternating rounds.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import _results

WORKERS = 100
ROUNDS = 3
SURVEYS = 5


def _spec(home: Path, number: int) -> Any:
    from wa_orchestrator.runner.contract import WorkerSpec

    return WorkerSpec(f"s{number}", 1, home / "sessions" / f"s{number}", {}, {})


async def _round() -> dict[str, float]:
    """Measure once; CPU time of this process in milliseconds."""
    from wa_orchestrator.runner.process import ProcessRunner

    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        runner = ProcessRunner(home / "workers", ("/bin/sleep", "600"))
        found: dict[str, float] = {}

        async def measure(name: str, times: int, act: Any) -> None:
            begun = time.process_time()
            for _ in range(times):
                await act()
            found[name] = (time.process_time() - begun) * 1000 / times

        handles = [await runner.start(_spec(home, number)) for number in range(WORKERS)]

        async def poll_all() -> None:
            for handle in handles:
                await runner.poll(handle)

        async def start_one() -> None:
            handles.append(await runner.start(_spec(home, len(handles))))

        async def stop_all() -> None:
            await asyncio.gather(*(runner.stop(handle) for handle in handles))

        await measure("survey_ms", SURVEYS, runner.survey)
        await measure("poll_all_ms", SURVEYS, poll_all)
        await measure("start_ms", SURVEYS, start_one)
        await measure("stop_all_ms", 1, stop_all)
        return found


def _measured(tree: Path) -> dict[str, float]:
    """Run a round with the code of a checkout, in a process of its own."""
    paths = os.pathsep.join([str(tree / "src"), str(Path(__file__).parents[1])])
    command = [sys.executable, "-m", "bench.runner", "--once"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, check=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> int:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--tree", type=Path)
    chosen = parser.parse_args()
    if chosen.once:
        sys.stdout.write(json.dumps(asyncio.run(_round())) + "\n")
        return 0
    trees = {"now": Path(__file__).parents[1]} | ({"before": chosen.tree} if chosen.tree else {})
    rounds = [{name: _measured(tree) for name, tree in trees.items()} for _ in range(ROUNDS)]
    medians = {
        name: {what: round(statistics.median(each[name][what] for each in rounds), 2) for what in rounds[0][name]}
        for name in trees
    }
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "python": platform.python_version()}
    told = {"command": "python -m bench.runner", "workers": WORKERS, "cpu": medians, "machine": machine}
    _results.keep("runner", told)
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
