"""Becomes an ordinary user and runs a module: `python -m tests.security.ordinary_user <module> <argument>…`, as root.

The interpreter may lie in root's home directory, which an ordinary user cannot enter. Then that directory gets another
content, with the interpreter alone, in a mount namespace of this process.
"""

import os
import sys
from pathlib import Path

from wa_orchestrator.runner.confinement import kernel

NOBODY = 65534


def show_interpreter() -> None:
    prefix = Path(sys.base_prefix)
    closed = next((each for each in reversed(prefix.parents) if not each.stat().st_mode & 0o001), None)
    if closed is None:
        return
    kernel.unshare(kernel.NEW_MOUNTS)
    handle = os.open(prefix, os.O_PATH)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", str(closed), "tmpfs", 0, "mode=0755")
    prefix.mkdir(parents=True)
    kernel.mount(f"/proc/self/fd/{handle}", str(prefix), None, kernel.MS_BIND)
    os.close(handle)


if __name__ == "__main__":
    show_interpreter()
    os.chown(sys.argv[2], NOBODY, NOBODY)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.environ["HOME"] = sys.argv[2]
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])  # as its own program its memory is an ordinary one
