"""`wa-orchestrator export …`: lists as files."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from wa_orchestrator.cli.terminal.command import Invocation
from wa_orchestrator.cli.terminal.download import print_stream, save


class Exported(StrEnum):
    """What can be exported."""

    MESSAGES = "messages"
    SESSIONS = "sessions"
    OPT_OUTS = "opt-outs"
    AUDIT = "audit"


class ExportFormat(StrEnum):
    """The form of the file."""

    CSV = "csv"
    JSONL = "jsonl"


def export(
    run: Invocation,
    what: Annotated[Exported, typer.Argument(help="What to export.")],
    *,
    form: Annotated[ExportFormat, typer.Option("--format", help="For spreadsheets, or JSON lines.")] = ExportFormat.CSV,
    output: Annotated[Path | None, typer.Option(help="The file to write; default: stdout.")] = None,
    session: Annotated[str | None, typer.Option(help="Messages of this session only.")] = None,
    status: Annotated[str | None, typer.Option(help="Messages with this status only.")] = None,
    reference: Annotated[str | None, typer.Option(help="Messages with this reference only.")] = None,
    batch: Annotated[str | None, typer.Option(help="Messages of this batch or campaign only: b_…")] = None,
) -> None:
    """Export messages, sessions, opt-outs or the audit log as CSV or JSON lines."""
    given = {"format": str(form), "sessionId": session, "status": status, "batchId": batch}
    given["reference"] = reference
    path = f"/api/v1/exports/{what}?{urlencode({name: value for name, value in given.items() if value})}"
    if output is None:
        print_stream(run, path)
    else:
        typer.echo(f"{output} is written: {save(run, path, output)} bytes.", err=True)
