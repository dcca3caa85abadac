"""Runs what failed in `make test` once more, alone: in CI a machine that others load must not decide about a change.

Only a few may fail for such a reason, and whoever passes now is named, because its limits or its order want mending.
"""

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
#: More than these is not the machine.
MOST = 3


def judge(failed: list[str], passes_alone: dict[str, bool]) -> tuple[int, list[str]]:
    """Return the exit code, and what to say of tests that failed in the whole run."""
    if not failed or len(failed) > MOST:
        return 1, [f"{len(failed)} failed: a second look is for 1 to {MOST}"]
    says = {True: "unstable, passes alone", False: "fails alone too"}
    return int(not all(passes_alone.values())), [f"{says[passes_alone[test]]}: {test}" for test in failed]


def main() -> int:
    """Judge the failures that pytest noted in its cache."""
    failed = sorted(json.loads(FAILED.read_text(encoding="utf-8"))) if FAILED.exists() else []
    looked_at = failed if len(failed) <= MOST else []
    pytest = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q")
    passes_alone = {test: subprocess.run((*pytest, test), check=False).returncode == 0 for test in looked_at}
    code, lines = judge(failed, passes_alone)
    print("Second look:", *lines, sep="\n  ")
    return code


if __name__ == "__main__":
    sys.exit(main())
