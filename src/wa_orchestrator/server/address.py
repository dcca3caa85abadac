"""The address of a running server, written to its data directory so that commands on the same machine find it."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from wa_orchestrator.settings import Settings

FILE_NAME = "server.json"


@contextlib.contextmanager
def published(settings: Settings) -> Iterator[None]:
    """Publish the address while the block runs: the port may come from an option, or be any free one."""
    path = settings.data_dir / FILE_NAME
    text = json.dumps({"url": settings.local_url, "workers": settings.worker_base_url, "pid": os.getpid()})
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(text + "\n", "utf-8")
    draft.replace(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if path.read_text("utf-8").strip() == text:  # a newer server's file stays
                path.unlink()


def find(data_dir: Path, what: str = "url") -> str | None:
    """Return the published address, or that of the listener for `workers`, or None. After a kill it may be stale."""
    try:
        return str(json.loads((data_dir / FILE_NAME).read_text("utf-8"))[what])
    except (OSError, ValueError, KeyError, TypeError):
        return None
