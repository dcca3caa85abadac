"""A person at a terminal: a command with a pseudo-terminal of its own, what it shows, and what is typed into it."""

import os
import pty
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from tests.processes import PRODUCT, bare_environment
from tests.waiting import PATIENCE_S


def at_a_terminal(
    data_dir: Path, *arguments: str, typed: str = "", key: str = "", meanwhile: Callable[[], object] | None = None
) -> tuple[int, str]:
    """Run a command in a terminal of its own; return its exit code and everything that was shown.

    `typed` answers its question; `meanwhile` runs beside it, such as somebody who scans the code that it shows.
    """
    ours, theirs = pty.openpty()
    environment = bare_environment() | {"DATA_DIR": str(data_dir), "TERM": "xterm", "COLUMNS": "160"}
    environment |= {"WA_API_KEY": key} if key else {}
    beside = threading.Thread(target=meanwhile) if meanwhile else None
    with (
        closing(os.fdopen(ours, "r+b", buffering=0)) as screen,
        subprocess.Popen(
            (*PRODUCT, *arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        ) as command,
    ):
        os.close(theirs)
        if beside:
            beside.start()
        shown = b""
        with suppress(OSError):  # a terminal whose program has ended
            while chunk := screen.read(4096):
                shown += chunk
                if typed and b"[y/N]" in shown:
                    screen.write(typed.encode())
                    typed = ""
        code = command.wait(PATIENCE_S)
    if beside:
        beside.join(PATIENCE_S)
    return code, shown.decode()
