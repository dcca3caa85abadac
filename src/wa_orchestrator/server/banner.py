"""The banner that `up` prints: the URL, a login link, and where to find the rest."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wa_orchestrator.settings import Settings

_PROGRAM = "wa-orchestrator"


def render(settings: Settings, link: str | None, *, world: Mapping[str, Any] | None = None, note: str = "") -> str:
    """Return the banner. `link` logs one person in, None where the output is kept; `note` stands below the URL."""
    rows = {"HTTP API": f"{settings.local_url}/docs", "Secrets": command_line("secrets", settings.data_dir)}
    if world is not None:
        rows["Simulator"] = str(world["control"])
    lines = [
        f"WhatsApp Orchestrator is ready: {settings.local_url}",
        *([note] if note else []),
        "",
        *_login(settings, link),
        "",
        *(f"{name:16} {value}" for name, value in rows.items()),
        "",
        "Ctrl-C stops the server and its workers.",
    ]
    width = max(60, *map(len, lines))
    return "\n".join(["", "─" * width, *lines, "─" * width, "", ""])


def _login(settings: Settings, link: str | None) -> list[str]:
    if link is None:
        return [
            "To log in, have a link printed (valid once, for one hour):",
            f"  {command_line('login-link', settings.data_dir)}",
        ]
    return ["Log in with this link (valid once, for one hour):", f"  {link}"]


def command_line(command: str, data_dir: Path, program: str | None = None, here: Path | None = None) -> str:
    """Return a command that works in the directory where the server was started, with `--data-dir` if needed."""
    here = here or Path.cwd()
    called = Path(program or sys.argv[0])
    name = str(called) if called.name == _PROGRAM and not called.is_absolute() and len(called.parts) > 1 else _PROGRAM
    directory = data_dir.relative_to(here) if data_dir.is_relative_to(here) else data_dir
    option = "" if directory == Path("data") else f" --data-dir {shlex.quote(str(directory))}"
    return f"{name} {command}{option}"
