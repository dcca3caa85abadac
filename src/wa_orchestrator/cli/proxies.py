"""`wa-orchestrator proxies …`: the exits."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli import qr, tables
from wa_orchestrator.cli.command import EXIT_FAILED, Desk, command, group
from wa_orchestrator.errors import Refused

app = typer.Typer(help="Proxies of a running server: list, add, check, remove.", invoke_without_command=True)
ProxyId = Annotated[str, typer.Argument(metavar="PROXY", help="The proxy's id, p_…")]
COLUMNS = ("proxy", "status", "url", "sessions", "free", "latency", "checked", "last error")


def _row(proxy: dict[str, Any]) -> tuple[Any, ...]:
    latency = None if proxy["latencyMs"] is None else f"{proxy['latencyMs']} ms"
    status = f"{proxy['status']} (draining)" if proxy["draining"] else proxy["status"]
    return (
        proxy["id"], status, proxy["url"], proxy["sessions"], proxy["free"], latency,
        tables.when(proxy["lastCheckAt"]), proxy["lastError"],
    )  # fmt: skip


def _all(desk: Desk) -> dict[str, Any]:
    whole = desk.client.proxies()
    page = whole
    while page["next"] is not None:
        page = desk.client.proxies(cursor=page["next"])
        whole["proxies"] += page["proxies"]
    del whole["next"]
    return whole


def _print(desk: Desk) -> None:
    found = _all(desk)
    rows = [_row(proxy) for proxy in found["proxies"]]
    empty = "There are no proxies. Add one: wa-orchestrator proxies add socks5h://user:password@host:port"
    desk.answer(found, lambda: tables.table(COLUMNS, rows, empty=empty))


@app.callback()
@group
def index(desk: Desk) -> None:
    """Proxies of a running server. Without a subcommand: list them."""
    _print(desk)


@app.command("list")
@command
def listed(desk: Desk) -> None:
    """List proxies."""
    _print(desk)


@app.command()
@command
def add(
    desk: Desk,
    proxy_url: Annotated[
        str, typer.Argument(metavar="URL", help="socks5h://user:password@host:port; `-` reads it from stdin.")
    ],
) -> None:
    """Add a proxy. Its password is not shown again."""
    made = desk.client.add_proxy(qr.from_stdin(proxy_url) or "")
    desk.answer(made, lambda: tables.line(f"{made['id']} joined the pool: {made['url']}"))


@app.command("import")
@command
def add_many(
    desk: Desk, file: Annotated[Path, typer.Argument(help="A file with one proxy per line; `-` reads stdin.")]
) -> None:
    """Add the proxies of a file. Exit code 1 when a line was not taken."""
    told = desk.client.import_proxies(_text(file))
    desk.answer(told, lambda: _print_import(told))
    if told["errors"]:
        raise typer.Exit(EXIT_FAILED)


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise Refused("BAD_FILE", f"{file}: cannot be read ({why}).") from None


def _print_import(told: dict[str, Any]) -> None:
    tables.line(f"{len(told['added'])} added, {len(told['known'])} known already, {len(told['errors'])} not taken.")
    for error in told["errors"]:
        typer.echo(f"line {error['line']}: {error['code']}: {error['message']}", err=True)


@app.command()
@command
def check(
    desk: Desk, proxy_id: Annotated[str | None, typer.Argument(metavar="PROXY", help="Default: all.")] = None
) -> None:
    """Check a proxy now, or all. Exit code 1 when one does not pass."""
    ids = [proxy_id] if proxy_id else [proxy["id"] for proxy in _all(desk)["proxies"]]
    checked = [desk.client.proxy_act(each, "check") for each in ids]
    rows = [("passed" if each["passed"] else "failed", *_row(each)) for each in checked]
    desk.answer({"proxies": checked}, lambda: tables.table(("", *COLUMNS), rows, empty="There are no proxies."))
    if not all(each["passed"] for each in checked):
        raise typer.Exit(EXIT_FAILED)


@app.command()
@command
def remove(
    desk: Desk,
    proxy_id: ProxyId,
    *,
    drain: Annotated[bool, typer.Option("--drain", help="Move its sessions to other proxies first.")] = False,
) -> None:
    """Remove a proxy. One in use is refused unless it is drained."""
    told = desk.client.delete_proxy(proxy_id, drain=drain)
    desk.answer(told, lambda: tables.line(f"{proxy_id} is removed."))


@app.command()
@command
def reinstate(desk: Desk, proxy_id: ProxyId) -> None:
    """Take a bad proxy back into use."""
    told = desk.client.proxy_act(proxy_id, "reinstate")
    desk.answer(told, lambda: tables.line(f"{proxy_id} is {told['status']}."))
