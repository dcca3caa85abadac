"""Linking a phone from the terminal: the code on the screen, renewed until it is scanned."""

import sys
import time
from typing import Any, Final

import typer

from wa_orchestrator.cli import tables
from wa_orchestrator.cli.command import EXIT_FAILED, Desk, print_json

_LOOK_S: Final = 0.5


def draw(shown: dict[str, Any]) -> None:
    """Draw a QR in the terminal, or write the code that is typed."""
    until = tables.when(shown.get("expiresAt"))
    if "qr" not in shown:
        tables.line(f"Type this code on the phone under Linked devices: {shown['code']}   (until {until})")
        return
    import segno

    segno.make(shown["qr"], error="l", micro=False).terminal(out=sys.stdout, compact=True, border=2)
    tables.line(f"Scan it with WhatsApp, Linked devices. Good until {until}.")


def follow(desk: Desk, session_id: str) -> None:
    """Show every new code until the session is connected. Ends with an error when a person is needed."""
    from wa_orchestrator.client import NotFound

    before = ""
    while True:
        session = desk.client.session(session_id)
        if session["status"] == "connected":
            break
        if session["status"] in ("failed", "stopped"):
            told = f"{session_id} is {session['status']}: {session['reasonText'] or 'start it first.'}"
            typer.echo(told, err=True)
            raise typer.Exit(EXIT_FAILED)
        try:
            shown = desk.client.qr(session_id)
        except NotFound as none_yet:
            if none_yet.code != "NO_QR":
                raise
            shown = {}
        code = shown.get("qr") or shown.get("code") or before
        if code != before:
            before = code
            _show(desk, shown)
        time.sleep(_LOOK_S)
    desk.answer(session, lambda: tables.line(f"{session_id} is connected as {session['phone']}."))


def _show(desk: Desk, shown: dict[str, Any]) -> None:
    if desk.given.as_json:
        print_json(shown)
    else:
        draw(shown)


def from_stdin(value: str | None) -> str | None:
    """Read a value from stdin for `-`: what is typed as an argument is seen by others on the machine."""
    return sys.stdin.readline().strip() if value == "-" else value
