"""`wa-orchestrator sessions …`: list, create, link, stop, delete."""

from typing import Annotated, Any, Literal

import typer

from wa_orchestrator.cli import qr as linking
from wa_orchestrator.cli import tables
from wa_orchestrator.cli.command import Invocation, command, confirm, group
from wa_orchestrator.cli.target import installation

app = group("Sessions of a running server: list, create, link, stop, delete.")
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Wait = Annotated[bool, typer.Option("--wait", help="Show every new code until the session is connected.")]

_COLUMNS = {
    "session": "sessionId", "status": "status", "phone": "phone", "label": "label", "proxy": "proxy", "trust": "trust",
    "last ping": "lastPingAt",
}  # fmt: skip
_FIELDS = {
    "session": "sessionId", "status": "status", "what to do": "reasonText", "phone": "phone", "label": "label",
    "proxy": "proxy", "trust": "trust", "device": "deviceName", "created": "createdAt", "connected": "connectedAt",
    "last ping": "lastPingAt", "ban ends": "banEndsAt", "worker": "worker", "worker started": "startedAt",
    "queue": "queue",
}  # fmt: skip


def _state(session: dict[str, Any]) -> str:
    return f"{session['status']} ({session['reason']})" if session["reason"] else str(session["status"])


@command(app, "list")
def listed(
    run: Invocation,
    status: Annotated[
        str | None, typer.Option(help="Only pending, qr_ready, connected, disconnected, failed or stopped ones.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Only with this label.")] = None,
    proxy: Annotated[str | None, typer.Option(help="Only on the proxy with this id.")] = None,
    text: Annotated[str | None, typer.Option(help="Only with this in id, phone or label.")] = None,
) -> None:
    """List sessions."""
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = run.client.sessions(status=status, label=label, proxy=proxy, text=text, cursor=cursor or None, limit=500)
        found += page["sessions"]
        cursor = page["next"]
    rows = [each | {"status": _state(each)} for each in found]
    is_all = not (status or label or proxy or text)
    empty = "There are no sessions. Create one: wa-orchestrator sessions add --wait" if is_all else "No matches."
    run.output({"sessions": found}, lambda: tables.table(_COLUMNS, rows, empty=empty))


@command(app)
def show(run: Invocation, session_id: SessionId) -> None:
    """Show one session with its worker and its queue."""
    found = run.client.session(session_id)
    worker, queue = found["worker"], found["queue"]
    values = found | {
        "status": _state(found),
        "worker": f"epoch {worker['epoch']}, {worker['rssBytes'] // 2**20} MB",
        "startedAt": worker["startedAt"],
        "queue": f"{queue['waiting']} waiting" + (", one being sent" if queue["inFlight"] else ""),
    }
    run.output(found, lambda: tables.fields(_FIELDS, values))


@command(app, alias="provision")
def add(
    run: Invocation,
    phone: Annotated[str | None, typer.Option(help="The phone that will be linked, with its country code.")] = None,
    proxy: Annotated[
        str | None, typer.Option(help="socks5h://user:password@host:port; `-` reads it from stdin.")
    ] = None,
    session_id: Annotated[str | None, typer.Option("--id", help="Default: worker_1, worker_2, …")] = None,
    label: Annotated[str | None, typer.Option(help="Display name; sessions with the same label form a group.")] = None,
    *,
    code: Annotated[bool, typer.Option("--code", help="Link with a pairing code instead of a QR code.")] = False,
    wait: Wait = False,
) -> None:
    """Create a session; `--wait` shows its QR code until it is linked."""
    proxy = linking.from_stdin(proxy)
    pairing = "code" if code else None
    made = run.client.provision(phone=phone, proxy=proxy, session_id=session_id, label=label, pairing=pairing)
    name = made["sessionId"]
    run.output(made, lambda: tables.line(f"{name} is {made['status']} on {made['proxy'] or 'no proxy'}."))
    if wait:
        linking.follow(run, name)
    elif not run.options.as_json:
        tables.line(f"Link it: wa-orchestrator sessions qr {name} --wait")


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


@command(app, "worker-env")
def worker_env(run: Invocation, session_id: SessionId) -> None:
    """Print the environment of a session's worker, with its secrets, to start one by hand beside the server.

    As a file it fits `docker run --env-file`.
    """
    import asyncio

    from wa_orchestrator.cli.worker_env import worker_environment

    variables, has_worker = asyncio.run(worker_environment(installation(run.options.data_dir), session_id))
    run.output(variables, lambda: tables.line("\n".join(map("=".join, variables.items()))))
    if has_worker:
        text = f"The server runs a worker of {session_id}. Stop it first: wa-orchestrator sessions stop {session_id}"
        typer.echo(text, err=True)


Confirm = Annotated[Literal["BANNED"] | None, typer.Option(help="Needed when WhatsApp banned the account.")]


def _act(run: Invocation, session_id: str, act: str, confirm: str | None = None) -> None:
    result = run.client.session_act(session_id, act, confirm=confirm)
    run.output(result, lambda: tables.line(f"{result['sessionId']} is {_state(result)}."))


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
    run.output(result, lambda: tables.line(f"{session_id} {outcome}."))
