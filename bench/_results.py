"""Where benchmarks keep their results, and the page that `scripts/bench_report.py` makes of them."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from scripts import bench_report

FOLDER: Final = Path(__file__).parent / "results"


def keep(name: str, result: Mapping[str, Any]) -> str:
    """Write a result to `bench/results` with the date of the run, and the page anew; return what was written."""
    text = json.dumps({"date": time.strftime("%Y-%m-%d"), "command": f"python -m bench.{name}", **result}, indent=2)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")
    bench_report.write(FOLDER)
    return text
