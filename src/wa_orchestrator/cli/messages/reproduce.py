"""`wa-orchestrator reproduce`: write the way of a message as a scenario for the simulator."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from wa_orchestrator.cli.terminal.command import Invocation
from wa_orchestrator.domain.workers import reproduction
from wa_orchestrator.domain.workers.reproduction import Omission

_WHY: Final[Mapping[str, str]] = {
    Omission.NOT_WHATSAPPS: "it ended on this side and not by an answer of WhatsApp",
    Omission.NOT_RECORDED: "several answers of WhatsApp have this reason, and which it was is not recorded",
    Omission.UNKNOWN_CODE: "the simulator has nothing that corresponds to what the worker reported",
}


def reproduce(
    run: Invocation,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id, m_…")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it here instead of printing it.")
    ] = None,
) -> None:
    """Write the shapes of a message's way as a scenario for the simulator: no text, name or number is in it."""
    made = reproduction.scenario(run.client.message(message_id))
    text = json.dumps(made, indent=2)
    if out is None:
        typer.echo(text)
    else:
        out.write_text(text + "\n", encoding="utf-8")
    for line in _not_replayed(made):
        typer.echo(line, err=True)


def _not_replayed(made: Mapping[str, Any]) -> list[str]:
    """Return what the scenario leaves out, one sentence each."""
    if not made["attempts"]:
        return ["Not replayed: no attempt to send it is recorded, so WhatsApp did nothing to it."]
    return [
        f"Not replayed: the end of attempt {gap['attempt']} ({gap['reason']}), because {_WHY[gap['why']]}."
        for gap in made["notReplayed"]
    ]
