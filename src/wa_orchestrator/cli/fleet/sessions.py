"""`wa-orchestrator sessions …`: list, create, link, stop, delete."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from wa_orchestrator.cli.fleet import qr as linking
from wa_orchestrator.cli.messages.campaigns import read_file
from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.arguments import SessionId, Yes
from wa_orchestrator.cli.terminal.command import (
    EXIT_FAILED,
    Invocation,
    all_pages,
    command,
    confirm,
    group,
    nothing_to_change,
)
from wa_orchestrator.cli.terminal.target import installation

app = group("Sessions of a running server: list, create, link, stop, delete.")
Wait = Annotated[bool, typer.Option("--wait", help="Show every new code until the session is connected.")]

_COLUMNS = {
    "session": "sessionId", "status": "status", "phone": "phone", "label": "label", "tags": "tags",
    "proxy": "proxy", "trust": "trust", "last ping": "lastPingAt",
}  # fmt: skip
_FIELDS = {
    "session": "sessionId", "status": "status", "what to do": "reasonText", "phone": "phone", "label": "label",
    "tags": "tags", "notes": "notes", "proxy": "proxy", "trust": "trust", "device": "deviceName",
    "created": "createdAt", "connected": "connectedAt",
    "last ping": "lastPingAt", "ban ends": "banEndsAt", "worker": "worker", "worker started": "startedAt",
    "node": "node", "last move": "lastMove",
    "queue": "queue",
}  # fmt: skip

_SIGNALS = {"signal": "signal", "level": "level", "count": "count", "of": "total", "since": "since"}
_LEVELS = {"good": "good", "poor": "poor", "too_few": "too few to tell"}


def _state(session: dict[str, Any]) -> str:
    return f"{session['status']} ({session['reason']})" if session["reason"] else str(session["status"])


@command(app, "list")
def listed(
    run: Invocation,
    *,
    status: Annotated[
        str | None, typer.Option(help="Only pending, qr_ready, connected, disconnected, failed or stopped ones.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Only with this label.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None,
    proxy: Annotated[str | None, typer.Option(help="Only on the proxy with this id.")] = None,
    text: Annotated[str | None, typer.Option(help="Search in id, phone, label and tags.")] = None,
) -> None:
    """List sessions."""
    filters = {"status": status, "label": label, "tag": tag, "proxy": proxy, "text": text}
    found = all_pages(partial(run.client.sessions, **filters, limit=500), "sessions")["sessions"]
    rows = [each | {"status": _state(each)} for each in found]
    none = "There are no sessions. Create one: wa-orchestrator sessions add --wait"
    empty = "No matches." if any(filters.values()) else none
    run.output({"sessions": found}, lambda: tables.table(_COLUMNS, rows, empty=empty))


@command(app)
def show(run: Invocation, session_id: SessionId) -> None:
    """Show one session with its worker and its queue."""
    found = run.client.session(session_id)
    run.output(found, lambda: _print(found))


def _print(session: dict[str, Any]) -> None:
    worker, queue = session["worker"], session["queue"]
    values = session | {
        "status": _state(session),
        "worker": f"epoch {worker['epoch']}, {worker['rssBytes'] // 2**20} MB",
        "startedAt": worker["startedAt"],
        "node": worker["node"],
        "lastMove": _told_move(session["lastMove"]),
        "queue": f"{queue['waiting']} waiting" + (", one being sent" if queue["inFlight"] else ""),
    }
    tables.fields(_FIELDS, values)


def _told_move(move: dict[str, Any] | None) -> str | None:
    if move is None:
        return None
    away = "not back yet" if move["awayMs"] is None else f"away for {move['awayMs'] / 1000:.1f} s"
    return f"{move['fromNode'] or '?'} to {move['toNode'] or '?'} at {tables.when(move['requestedAt'])}, {away}"


@command(app)
def health(run: Invocation, session_id: SessionId) -> None:
    """Show the health of a session's number, and since when it is counted."""
    found = run.client.session_health(session_id)

    def show() -> None:
        tables.line(f"{session_id} is {_LEVELS[found['level']]}. {found['strangersInARow']} strangers in a row.")
        tables.table(_SIGNALS, [each | {"level": _LEVELS[each["level"]]} for each in found["signals"]])

    run.output(found, show)


@command(app, alias="provision")
def add(
    run: Invocation,
    *,
    phone: Annotated[str | None, typer.Option(help="The phone that will be linked, with its country code.")] = None,
    proxy: Annotated[
        str | None, typer.Option(help="socks5h://user:password@host:port; `-` reads it from stdin.")
    ] = None,
    session_id: Annotated[str | None, typer.Option("--id", help="Default: worker_1, worker_2, …")] = None,
    label: Annotated[str | None, typer.Option(help="Display name; sessions with the same label form a group.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A group it belongs to; may be repeated.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="A profile of `inventory`: its name under linked devices. It never changes.")
    ] = None,
    code: Annotated[bool, typer.Option("--code", help="Link with a pairing code instead of a QR code.")] = False,
    wait: Wait = False,
) -> None:
    """Create a session; `--wait` shows its QR code until it is linked."""
    proxy = linking.from_stdin(proxy)
    pairing = "code" if code else None
    made = run.client.provision(
        phone=phone, proxy=proxy, session_id=session_id, label=label, pairing=pairing, tags=tag, profile=profile
    )
    name = made["sessionId"]
    run.say(made, f"{name} is {made['status']} on {made['proxy'] or 'no proxy'}.")
    if wait:
        linking.follow(run, name)
    elif not run.options.as_json:
        tables.line(f"Link it: wa-orchestrator sessions qr {name} --wait")


@command(app, "import")
def import_list(
    run: Invocation,
    file: Annotated[Path, typer.Argument(help="CSV: id, phone, label, tags (by |), proxy, pairing, timezone.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the lines; create nothing.")] = False,
) -> None:
    """Create the sessions of a file; `-` is stdin. Exit code 1 when a line was refused."""
    result = run.client.import_sessions(read_file(file), dry_run=dry_run)

    def show() -> None:
        done = "checked" if dry_run else "created"
        tables.line(f"{result['lines'] - len(result['errors'])} of {result['lines']} sessions are {done}.")
        for error in result["errors"]:
            typer.echo(f"line {error['line']}: {error['message']}", err=True)

    run.output(result, show)
    if result["errors"]:
        raise typer.Exit(EXIT_FAILED)


@command(app)
def change(
    run: Invocation,
    session_id: SessionId,
    *,
    label: Annotated[str | None, typer.Option(help="Display name; '' removes it.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Replaces all tags; '' removes them.")] = None,
    notes: Annotated[str | None, typer.Option(help="Notes for people; '' removes them.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Time zone of its hours and days; '' is the server's.")] = None,
    presence: Annotated[str | None, typer.Option(help="always, while_sending or never; '' is the server's.")] = None,
    proxy: Annotated[str | None, typer.Option(help="Another proxy, by id or URL; `-` reads it from stdin.")] = None,
    at_restart: Annotated[bool, typer.Option("--at-restart", help="Use the proxy from the next restart on.")] = False,
) -> None:
    """Change a session's names, zone, presence or proxy. No new scan is needed."""
    given = {"label": label, "notes": notes, "timezone": timezone, "presence": presence}
    changes: dict[str, Any] = {name: value or None for name, value in given.items() if value is not None}
    if tag is not None:
        changes["tags"] = [each for each in tag if each]
    if proxy is not None:
        changes |= {"proxy": linking.from_stdin(proxy), "proxy_move": "restart" if at_restart else "now"}
    if not changes:
        raise nothing_to_change("--label", "--tag", "--notes", "--timezone", "--presence", "--proxy")
    changed = run.client.change_session(session_id, **changes)
    run.output(changed, lambda: _print(changed))


@command(app)
def qr(run: Invocation, session_id: SessionId, *, wait: Wait = False) -> None:
    """Show the QR code (or the pairing code) in the terminal."""
    if wait:
        linking.follow(run, session_id)
        return
    shown = run.client.qr(session_id)
    run.output(shown, lambda: linking.draw(shown))


@command(app, "pairing-code")
def pairing_code(
    run: Invocation,
    session_id: SessionId,
    phone: Annotated[str | None, typer.Option(help="The phone to link, if the session has none yet.")] = None,
) -> None:
    """Request a pairing code of 8 characters instead of a QR code."""
    shown = run.client.pairing_code(session_id, phone=phone)
    run.output(shown, lambda: linking.draw(shown))


@command(app, "scan-link")
def scan_link(
    run: Invocation,
    session_id: SessionId,
    *,
    minutes: Annotated[int | None, typer.Option(help="Minutes until it expires unopened; default: 10.")] = None,
    language: Annotated[str | None, typer.Option(help="Language of the page; default: the visitor's.")] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw the link instead.")] = False,
) -> None:
    """Print a one-time link to the session's code, for the owner of a phone that is elsewhere."""
    if withdraw:
        run.say(run.client.withdraw_scan_link(session_id), f"The link of {session_id} no longer works.")
        return
    made = run.client.scan_link(session_id, minutes=minutes, language=language)
    run.say(made, made["link"])


@command(app)
def history(
    run: Invocation, session_id: SessionId, *, limit: Annotated[int, typer.Option(min=1, max=500)] = 50
) -> None:
    """List a session's latest events."""
    found = run.client.session_history(session_id, limit=limit)
    columns = {"when": "at", "event": "type", "reason": "reason"}
    rows = [{"reason": None} | each for each in found["events"]]
    run.output(found, lambda: tables.table(columns, rows, empty="Nothing has happened yet."))


@command(app, "confirm-phone")
def confirm_phone(
    run: Invocation,
    session_id: SessionId,
    phone: Annotated[str, typer.Argument(metavar="PHONE", help="The phone that it reported.")],
) -> None:
    """Confirm that a session with PHONE_CHANGED is linked to the right phone."""
    result = run.client.confirm_phone(session_id, phone)
    run.say(result, f"{result['sessionId']} is {_state(result)}.")


@command(app, "restore-credentials")
def restore_credentials(run: Invocation, session_id: SessionId, *, yes: Yes = False) -> None:
    """Give a session the newest credentials that the trash has of it: its link of then, without a scan."""
    confirm(f"Replace the credentials of {session_id} by the newest of the trash? Those of now go there.", yes=yes)
    result = run.client.restore_credentials(session_id)
    run.say(result, f"{result['sessionId']} is {_state(result)}.")


@command(app, "worker-env")
def worker_env(run: Invocation, session_id: SessionId) -> None:
    """Print the environment of a session's worker, with its secrets, to start one by hand beside the server.

    As a file it fits `docker run --env-file`.
    """
    import asyncio

    from wa_orchestrator.cli.worker_env import worker_environment

    variables, has_worker = asyncio.run(worker_environment(installation(run.options.data_dir), session_id))
    run.say(variables, "\n".join(map("=".join, variables.items())))
    if has_worker:
        text = f"The server runs a worker of {session_id}. Stop it first: wa-orchestrator sessions stop {session_id}"
        typer.echo(text, err=True)


Confirm = Annotated[Literal["BANNED"] | None, typer.Option(help="Needed when WhatsApp banned the account.")]


def _act(run: Invocation, session_id: str, act: str, confirm: str | None = None) -> None:
    result = run.client.session_act(session_id, act, confirm=confirm)
    run.say(result, f"{result['sessionId']} is {_state(result)}.")


@command(app)
def restart(run: Invocation, session_id: SessionId, *, confirm: Confirm = None) -> None:
    """Replace the worker; the session stays linked."""
    _act(run, session_id, "restart", confirm)


@command(app)
def stop(run: Invocation, session_id: SessionId) -> None:
    """Stop the worker; messages stay queued."""
    _act(run, session_id, "stop")


@command(app)
def start(run: Invocation, session_id: SessionId, *, confirm: Confirm = None) -> None:
    """Start the worker again."""
    _act(run, session_id, "start", confirm)


@command(app)
def move(
    run: Invocation,
    session_id: SessionId,
    *,
    to: Annotated[str, typer.Option(help="The node; `wa-orchestrator nodes list` lists them.")],
    wait: Annotated[int, typer.Option(min=0, max=60, help="Seconds to wait until it is connected again.")] = 25,
) -> None:
    """Move a session to another node; it stays linked."""
    moved = run.client.move_session(session_id, to, wait=wait)

    def show() -> None:
        if moved["awayMs"] is None:
            tables.line(f"{session_id} moves to {to}. To check: wa-orchestrator sessions show {session_id}")
        else:
            tables.line(f"{session_id} runs on {moved['toNode']}; it was away for {moved['awayMs'] / 1000:.1f} s.")

    run.output(moved, show)


@command(app)
def logout(run: Invocation, session_id: SessionId, *, yes: Yes = False) -> None:
    """Unlink the device from its phone; it must be linked again afterwards."""
    confirm(f"Log out {session_id}? It must be linked again afterwards.", yes=yes)
    _act(run, session_id, "logout")


@command(app)
def delete(
    run: Invocation,
    session_id: SessionId,
    *,
    forget: Annotated[bool, typer.Option("--forget", help="Also forget the phone's own proxy.")] = False,
    queued: Annotated[
        Literal["cancel", "reroute"], typer.Option(help="What happens to its queued messages.")
    ] = "cancel",
    yes: Yes = False,
) -> None:
    """Delete a session; its credentials stay in the trash for TRASH_DAYS."""
    confirm(f"Delete {session_id}? Its queued messages: {queued}.", yes=yes)
    result = run.client.delete_session(session_id, forget=forget, queued=queued)
    outcome = "was deleted" if result["deleted"] else "will be deleted when its worker has stopped"
    run.say(result, f"{session_id} {outcome}.")
