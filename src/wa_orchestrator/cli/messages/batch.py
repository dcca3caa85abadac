"""`wa-orchestrator send-batch`: messages from a file, of every kind that the API takes."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.messages.campaigns import read_file
from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, Invocation
from wa_orchestrator.errors import Refused


def send_batch(
    run: Invocation,
    file: Annotated[Path, typer.Argument(help="A message as JSON on each line, or a list of them; `-` reads stdin.")],
    *,
    spread_minutes: Annotated[
        float | None, typer.Option(min=0, help="Spread them evenly over so many minutes.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key sends the same messages only once.")
    ] = None,
) -> None:
    """Send up to 1,000 messages of a file, with the fields of `POST /api/v1/send`. Exit code 1 when one was refused."""
    numbered = messages_in(read_file(file), str(file))
    sent = run.client.send_batch(
        [message for _, message in numbered], spread_minutes=spread_minutes, idempotency_key=key
    )
    refused = [
        (line, item["error"]) for (line, _), item in zip(numbered, sent["items"], strict=True) if "error" in item
    ]

    def show() -> None:
        leaves = f" The last one leaves at {tables.when(sent['lastEta'])}." if sent["lastEta"] else ""
        tables.line(f"{sent['accepted']} of {len(numbered)} messages are queued as {sent['batchId']}.{leaves}")
        for line, error in refused:
            problems = "; ".join(f"{each['path']}: {each['message']}" for each in error.get("errors") or ())
            typer.echo(f"line {line}: {error['code']}: {problems or error['message']}", err=True)

    run.output(sent, show)
    if refused:
        raise typer.Exit(EXIT_FAILED)


def messages_in(text: str, name: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the messages of a file with their lines; in a list, their places. Raises `Refused` if it has others."""
    if text.lstrip().startswith("["):
        found = list(enumerate(_parsed(text, name), 1))
    else:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        found = [(number, _parsed(line, f"{name}, line {number}")) for number, line in lines]
    if not found:
        raise Refused("NOTHING_TO_SEND", f"{name}: has no messages.")
    if bad := next((number for number, message in found if not isinstance(message, dict)), None):
        raise Refused(
            "BAD_FILE", f'{name}, line {bad}: is no message. Example: {{"to": "972501234567", "message": "Hi"}}'
        )
    return found


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("BAD_FILE", f"{place}: is not JSON.") from None
