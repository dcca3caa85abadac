"""All benchmarks in turn: `make bench`. Each also runs alone, as `python -m bench.<name>`, and renews the page."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    """Return every runnable module and package of this folder."""
    modules = [path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_")]
    packages = [path.parent.name for path in HERE.glob("*/__main__.py")]
    return sorted(modules + packages)


def main() -> int:
    """Run each in its own process, so that none measures the leftovers of another."""
    failed = [
        name for name in names() if subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode
    ]
    print("failed:", ", ".join(failed) or "none")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
