"""`wa-orchestrator reproduce`: write the way of a message as a scenario for the simulator."""

import json
from pathlib import Path
from typing import Annotated

import typer

from wa_orchestrator.cli.terminal.command import Invocation
from wa_orchestrator.domain.workers import reproduction


def reproduce(
    run: Invocation,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id, m_…")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it here instead of printing it.")
    ] = None,
) -> None:
    """Write the shapes of a message's way as a scenario for the simulator: no text, name or number is in it."""
    text = json.dumps(reproduction.scenario(run.client.message(message_id)), indent=2)
    if out is None:
        typer.echo(text)
    else:
        out.write_text(text + "\n", encoding="utf-8")
