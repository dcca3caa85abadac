"""The container that this program runs in: its image, and where its files are on the engine's machine."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiodocker import Docker

from wa_orchestrator.errors import Broken

#: The engine mounts a file with the host name from the container's own directory. Outside of containers nobody does.
_ID = re.compile(r"/containers/([0-9a-f]{64})/hostname /etc/hostname ")
_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class OwnContainer:
    """The container that we run in."""

    image: str
    mounts: tuple[tuple[Path, Path], ...]
    """Inside and on the host, the longest first."""

    def on_host(self, path: Path) -> Path:
        """Return where the engine finds a file of ours."""
        path = path.absolute()
        for inside, outside in self.mounts:
            if path.is_relative_to(inside):
                return outside / path.relative_to(inside)
        raise Broken(f"{path} is on no volume, so that no other container could have it")


async def find_own_container(docker: Docker) -> OwnContainer | None:
    """Return the container that this process runs in; None outside of one."""
    own_id = _own_id()
    return described(await docker.containers.container(own_id).show()) if own_id else None


def _own_id() -> str | None:
    named = _ID.search(_MOUNTS.read_text("utf-8")) if _MOUNTS.exists() else None
    return named[1] if named else None


def described(shown: dict[str, Any]) -> OwnContainer:
    """Return what matters of an inspection."""
    mounts = [(Path(each["Destination"]), Path(each["Source"])) for each in shown["Mounts"]]
    return OwnContainer(shown["Image"], tuple(sorted(mounts, key=lambda each: -len(each[0].parts))))
