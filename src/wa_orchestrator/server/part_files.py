"""Files that the parts of a compose installation share: directories with their owners, settings, the password of Redis.

Containers get settings as files, because inspecting a container shows its environment. The operator's `.env` may belong
to anybody and be closed to others, so the parts get a copy. Everything here may be repeated at any time.
"""

import io
import os
import secrets as random_values
from dataclasses import dataclass
from pathlib import Path

from dotenv.parser import parse_stream

from wa_orchestrator.runner.worker_files import hand_over
from wa_orchestrator.server import secrets
from wa_orchestrator.settings import build, read
from wa_orchestrator.settings.compose_variables import COMPOSE
from wa_orchestrator.store.engine import embedded_redis

#: The user of every part but the runner, and of workers.
USER = 10001
#: Not for the parts: what the compose file alone reads, and its own Redis, whose password nobody has to think of.
_NOT_FOR_PARTS = frozenset({*COMPOSE, "REDIS_URL", "REDIS_URL_FILE"})
_REDIS_CONF, _REDIS_URL = "redis.conf", "redis_url"


@dataclass(frozen=True, slots=True)
class Places:
    """The directories of an installation, as this process sees them."""

    data: Path
    backups: Path
    runner: Path
    """The directory of the runner's socket."""

    @property
    def of_parts(self) -> tuple[Path, ...]:
        """Directories that belong to the parts' user."""
        return (
            *(self.data / name for name in ("config", "redis", "server", "sessions", "simulator", "tls")),
            self.backups,
        )


def prepare(places: Places, env_file: Path, user: int = USER) -> tuple[str, ...]:
    """Make everything that is missing, and copy the settings. Returns the names of new secrets.

    Raises BadSettings for settings that no part could be started with, before anything was changed.
    """
    server = places.data / "server"
    settings = build(read(env_file), data_dir=server, sessions_dir=places.data / "sessions", redis_url=None)
    text = env_file.read_text("utf-8")
    for directory in places.of_parts:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
    # Secrets of workers, each in a directory that is mounted into its container. Nobody but the runner looks in here.
    (places.data / "workers").mkdir(mode=0o700, exist_ok=True)
    _, generated = secrets.ensure(settings)
    password = _redis_password(places.data / "redis" / _REDIS_CONF)
    _write(places.data / "redis" / _REDIS_CONF, _redis_conf(password))
    _write(places.data / "config" / _REDIS_URL, f"redis://:{password}@redis:6379/0\n")
    _write(places.data / "config" / ".env", without(text, _NOT_FOR_PARTS))
    for directory in places.of_parts:
        _give(directory, user)
    os.chown(places.runner, -1, user if os.geteuid() == 0 else -1)
    places.runner.chmod(0o750)
    return generated


def without(text: str, names: frozenset[str]) -> str:
    """Return a file of settings without some of them, and otherwise letter by letter as it was."""
    kept = (each for each in parse_stream(io.StringIO(text)) if each.key not in names)
    return "".join(each.original.string for each in kept)


def _redis_conf(password: str) -> str:
    """Return the settings of Redis: the embedded one's, which keep what it has acknowledged, on a port."""
    options = zip(embedded_redis.DURABLE[::2], embedded_redis.DURABLE[1::2], strict=True)
    own = {name.removeprefix("--"): value for name, value in options} | {"port": "6379"}
    own = {name: value for name, value in own.items() if name != "unixsocketperm"}
    lines = [f'{name} "{value}"' for name, value in own.items()]
    return "\n".join([*lines, "bind 0.0.0.0", f"requirepass {password}", ""])


def _redis_password(conf: Path) -> str:
    """Return the password that Redis has had until now, or a new one."""
    try:
        lines = conf.read_text("utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    known = next((line.split()[1] for line in lines if line.startswith("requirepass ")), None)
    return known or random_values.token_urlsafe(32)


def _write(path: Path, text: str) -> None:
    """Replace a file, which only its owner can read; after a crash there is the old one or the new one."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def _give(directory: Path, user: int) -> None:
    """Give a directory to the parts' user; all that is in it only if somebody else had it, which may be a lot."""
    if directory.stat().st_uid != user:
        hand_over(directory, user, user)
        return
    for path in directory.iterdir():  # what was just written
        if path.lstat().st_uid != user:
            hand_over(path, user, user)
