"""`wa-orchestrator sessions …`: the linked devices."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from wa_orchestrator.cli import qr as linking
from wa_orchestrator.cli import tables
from wa_orchestrator.cli.command import Desk, command, confirm, group

app = typer.Typer(help="Sessions of a running server: list, make, link, stop, delete.", invoke_without_command=True)
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Wait = Annotated[bool, typer.Option("--wait", help="Show every new code until the session is connected.")]


class Queued(StrEnum):
    """What becomes of the messages that wait for a session that is deleted."""

    CANCEL = "cancel"
    REROUTE = "reroute"


def _all(desk: Desk, **filters: str | None) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while True:
        page = desk.client.sessions(**filters, cursor=cursor, limit=500)
        yield from page["sessions"]
        cursor = page["next"]
        if cursor is None:
            return


def _print(desk: Desk, **filters: str | None) -> None:
    found = list(_all(desk, **filters))
    columns = ("session", "status", "phone", "label", "proxy", "trust", "last ping")
    rows = [
        (
            each["sessionId"], _state(each), each["phone"], each["label"], each["proxy"], each["trust"],
            tables.when(each["lastPingAt"]),
        )
        for each in found
    ]  # fmt: skip
    is_all = not any(filters.values())
    empty = "There are no sessions. Make one: wa-orchestrator sessions add --wait" if is_all else "There are none such."
    desk.answer({"sessions": found}, lambda: tables.table(columns, rows, empty=empty))


def _state(session: dict[str, Any]) -> str:
    return f"{session['status']} ({session['reason']})" if session["reason"] else str(session["status"])


@app.callback()
@group
def index(desk: Desk) -> None:
    """Sessions of a running server. Without a subcommand: list them."""
    _print(desk)


@app.command("list")
@command
def listed(
    desk: Desk,
    status: Annotated[
        str | None,
        typer.Option(help="Only pending, qr_ready, connected, disconnected, failed or stopped ones."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Only with this label.")] = None,
    proxy: Annotated[str | None, typer.Option(help="Only on the proxy with this id.")] = None,
    text: Annotated[str | None, typer.Option(help="Only with this in id, phone or label.")] = None,
) -> None:
    """List sessions."""
    _print(desk, status=status, label=label, proxy=proxy, text=text)


@app.command()
@command
def show(desk: Desk, session_id: SessionId) -> None:
    """Show one session with its worker and its queue."""
    found = desk.client.session_status(session_id)
    worker, queue = found["worker"], found["queue"]
    told = {
        "session": found["sessionId"],
        "status": _state(found),
        "what to do": found["reasonText"],
        "phone": found["phone"],
        "label": found["label"],
        "proxy": found["proxy"],
        "trust": found["trust"],
        "device": found["deviceName"],
        "created": tables.when(found["createdAt"]),
        "connected": tables.when(found["connectedAt"]),
        "last ping": tables.when(found["lastPingAt"]),
        "ban ends": tables.when(found["banEndsAt"]),
        "worker": f"epoch {worker['epoch']}, {worker['rssBytes'] // 2**20} MB",
        "worker started": tables.when(worker["startedAt"]),
        "queue": f"{queue['waiting']} waiting" + (", one on its way" if queue["inFlight"] else ""),
    }
    desk.answer(found, lambda: tables.facts(told))


@app.command()
@command
def add(
    desk: Desk,
    phone: Annotated[str | None, typer.Option(help="The phone that will be linked, with its country code.")] = None,
    proxy: Annotated[
        str | None, typer.Option(help="socks5h://user:password@host:port; `-` reads it from stdin.")
    ] = None,
    session_id: Annotated[str | None, typer.Option("--id", help="Default: worker_1, worker_2, …")] = None,
    label: Annotated[
        str | None, typer.Option(help="Its name for people; sessions with the same one are a group.")
    ] = None,
    *,
    code: Annotated[bool, typer.Option("--code", help="Link by a code that is typed instead of a QR.")] = False,
    wait: Wait = False,
) -> None:
    """Make a session; `--wait` goes on to show its code until it is scanned."""
    secret = linking.from_stdin(proxy)
    pairing = "code" if code else None
    made = desk.client.provision(phone=phone, proxy=secret, session_id=session_id, label=label, pairing=pairing)
    name = made["sessionId"]
    desk.answer(made, lambda: tables.line(f"{name} is {made['status']} on {made['proxy'] or 'no proxy'}."))
    if wait:
        linking.follow(desk, name)
    elif not desk.given.as_json:
        tables.line(f"Link it: wa-orchestrator sessions qr {name} --wait")


app.command("provision", hidden=True)(add)


@app.command()
@command
def qr(desk: Desk, session_id: SessionId, *, wait: Wait = False) -> None:
    """Show the QR to scan (or the code to type) in the terminal."""
    if wait:
        linking.follow(desk, session_id)
        return
    shown = desk.client.qr(session_id)
    desk.answer(shown, lambda: linking.draw(shown))


@app.command("pairing-code")
@command
def pairing_code(
    desk: Desk,
    session_id: SessionId,
    phone: Annotated[str | None, typer.Option(help="The phone that will type it, if the session has none yet.")] = None,
) -> None:
    """Ask for a code of 8 characters to be typed on the phone, instead of a QR."""
    shown = desk.client.pairing_code(session_id, phone=phone)
    desk.answer(shown, lambda: linking.draw(shown))


def _act(desk: Desk, session_id: str, act: str) -> None:
    told = desk.client.session_act(session_id, act)
    desk.answer(told, lambda: tables.line(f"{told['sessionId']} is {_state(told)}."))


@app.command()
@command
def restart(desk: Desk, session_id: SessionId) -> None:
    """Replace its worker; it stays linked."""
    _act(desk, session_id, "restart")


@app.command()
@command
def stop(desk: Desk, session_id: SessionId) -> None:
    """Stop its worker; messages wait."""
    _act(desk, session_id, "stop")


@app.command()
@command
def start(desk: Desk, session_id: SessionId) -> None:
    """Start it again."""
    _act(desk, session_id, "start")


@app.command()
@command
def logout(desk: Desk, session_id: SessionId, *, yes: Yes = False) -> None:
    """Unlink the device from its phone; it must be scanned again afterwards."""
    confirm(f"Log out {session_id}? It must be linked again afterwards.", sure=yes)
    _act(desk, session_id, "logout")


@app.command()
@command
def delete(
    desk: Desk,
    session_id: SessionId,
    *,
    forget: Annotated[bool, typer.Option("--forget", help="Also forget the phone's own proxy.")] = False,
    queued: Annotated[Queued, typer.Option(help="What becomes of its queued messages.")] = Queued.CANCEL,
    yes: Yes = False,
) -> None:
    """Delete a session; its credentials stay in the trash for a while."""
    confirm(f"Delete {session_id}? Its queued messages: {queued}.", sure=yes)
    told = desk.client.delete_session(session_id, forget=forget, queued=queued.value)
    said = "is deleted" if told["deleted"] else "will be deleted as soon as its worker has ended"
    desk.answer(told, lambda: tables.line(f"{session_id} {said}."))
