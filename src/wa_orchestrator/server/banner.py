"""What the server says to the person who started it: where it is and how to come in, in a block that stays readable."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wa_orchestrator.settings import Settings

_PROGRAM = "wa-orchestrator"


def block(settings: Settings, link: str, *, world: Mapping[str, Any] | None = None, told: str = "") -> str:
    """Write the block. `link` lets one person in; `told` is what a rehearsal has to say."""
    facts = {
        "HTTP API": f"{settings.local_url}/docs",
        "Secrets": typed("secrets", settings.data_dir),
    }
    if world is not None:
        facts["Simulated world"] = str(world["control"])
    lines = [
        f"WhatsApp Orchestrator is ready: {settings.local_url}",
        *([told] if told else []),
        "",
        "Come in with this link (it works once, within an hour):",
        f"  {link}",
        "",
        *(f"{name:16} {fact}" for name, fact in facts.items()),
        "",
        "Ctrl-C stops the server and its workers.",
    ]
    width = max(60, *map(len, lines))
    return "\n".join(["", "─" * width, *lines, "─" * width, "", ""])


def typed(command: str, data_dir: Path, program: str | None = None, here: Path | None = None) -> str:
    """Write a command as it can be typed where the server was started: with its path, and its directory if need be."""
    here = here or Path.cwd()
    called = Path(program or sys.argv[0])
    name = str(called) if called.name == _PROGRAM and not called.is_absolute() and len(called.parts) > 1 else _PROGRAM
    directory = data_dir.relative_to(here) if data_dir.is_relative_to(here) else data_dir
    option = "" if directory == Path("data") else f" --data-dir {shlex.quote(str(directory))}"
    return f"{name} {command}{option}"
