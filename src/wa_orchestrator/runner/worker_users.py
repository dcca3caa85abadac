"""A user id for every worker, from a range that no account of the machine uses.

The number is stored as the group of the worker's directory, so it survives restarts and there is no second record that
could disagree. The directory itself is closed to that group.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from wa_orchestrator.runner.contract import StartFailed


class WorkerUsers:
    """The users of one installation, whose places are the directories in `home`. Only root can use them."""

    def __init__(self, home: Path, numbers: range) -> None:
        self._home = home
        self._numbers = numbers
        #: Two sessions that start at once must not get the same number.
        self._assignment = threading.Lock()

    def assign(self, session_id: str, auth_dir: Path) -> int:
        """Return the session's user; a new session gets the lowest free number. Its place must exist."""
        place = self._home / session_id
        with self._assignment:
            if (number := _group(place)) in self._numbers:
                return number
            number = self._free(auth_dir.parent)
            os.chown(place, -1, number)
            return number

    def session_of(self, number: int | None) -> str | None:
        """Return whose user this is; None if it is none of ours."""
        if number not in self._numbers:
            return None
        return next((place.name for place in self._places() if _group(place) == number), None)

    def _free(self, sessions_dir: Path) -> int:
        taken = {_group(place): place for place in self._places()}
        for number in self._numbers:
            if number not in taken:
                return number
        for number in self._numbers:  # all are used up: take one of a session whose credentials are gone
            if not (sessions_dir / taken[number].name).exists():
                os.chown(taken[number], -1, os.getegid())
                return number
        raise StartFailed(f"All {len(self._numbers)} users of WORKER_USERS are taken; set a larger range.")

    def _places(self) -> Iterator[Path]:
        return (Path(entry.path) for entry in os.scandir(self._home) if entry.is_dir(follow_symlinks=False))


def _group(place: Path) -> int:
    return place.stat().st_gid
