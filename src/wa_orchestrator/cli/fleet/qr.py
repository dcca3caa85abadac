"""QR and pairing codes in the terminal, renewed until the session is linked."""

import sys
import time
from functools import partial
from typing import Any, Final

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, Invocation

_POLL_S: Final = 0.5


def draw(shown: dict[str, Any]) -> None:
    until = tables.when(shown.get("expiresAt"))
    if "qr" not in shown:
        tables.line(f"Type this code in WhatsApp under Linked devices: {shown['code']}   (valid until {until})")
        return
    import segno

    segno.make(shown["qr"], error="l", micro=False).terminal(out=sys.stdout, compact=True, border=2)
    tables.line(f"Scan it in WhatsApp under Linked devices. Valid until {until}.")


def follow(run: Invocation, session_id: str) -> None:
    """Print every new code until the session is connected. Exits with an error if it failed or is stopped."""
    from wa_orchestrator.client.errors import NotFoundError

    before = ""
    while True:
        session = run.client.session(session_id)
        if session["status"] == "connected":
            break
        if session["status"] in ("failed", "stopped"):
            reason = session["reasonText"] or "start it first."
            typer.echo(f"{session_id} is {session['status']}: {reason}", err=True)
            raise typer.Exit(EXIT_FAILED)
        try:
            shown = run.client.qr(session_id)
        except NotFoundError as none_yet:
            if none_yet.code != "NO_QR":
                raise
            shown = {}
        code = shown.get("qr") or shown.get("code") or before
        if code != before:
            before = code
            run.output(shown, partial(draw, shown))
        time.sleep(_POLL_S)
    run.say(session, f"{session_id} is connected as {session['phone']}.")


def from_stdin(value: str | None) -> str | None:
    """Read a value from stdin for `-`: other users of the machine can see arguments."""
    return sys.stdin.readline().strip() if value == "-" else value
