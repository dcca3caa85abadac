"""Drops the zeros that a power cut leaves at the end of Redis' append-only file.

A file system may have recorded the new length of a file whose last bytes never reached the disk; they read as zeros.
Redis loads a file that ends within a command, but refuses to start with such an end
(https://github.com/valkey-io/valkey/issues/1148). Nothing in it was ever synced, so with `appendfsync always` nothing
in it was acknowledged; and a file that is whole ends with the end of a line.

`python -m wa_orchestrator.store.engine.append_only_file <directory> <command> …` does that and becomes the command.
"""

import os
import sys
from pathlib import Path
from typing import Final

_BLOCK_BYTES: Final = 65536


def drop_zeros(home: Path) -> int:
    """Cut the zeros off the file that the Redis in `home` appends to, and return their number. It must not run."""
    parts = sorted((home / "appendonlydir").glob("*.incr.aof"), key=_number)
    if not parts:
        return 0
    with parts[-1].open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        end = size
        while end:
            begin = max(0, end - _BLOCK_BYTES)
            file.seek(begin)
            if block := file.read(end - begin).rstrip(b"\0"):
                end = begin + len(block)
                break
            end = begin
        if end < size:
            file.truncate(end)
            os.fsync(file.fileno())
    return size - end


def _number(part: Path) -> int:
    """Return the place of a part in its sequence: `appendonly.aof.<number>.incr.aof`."""
    number = part.name.split(".")[-3]
    return int(number) if number.isdigit() else 0


if __name__ == "__main__":
    if dropped := drop_zeros(Path(sys.argv[1])):
        print(f"dropped {dropped} zeros that a power cut left at the end of the append-only file", file=sys.stderr)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 (the command line is the caller's own)
