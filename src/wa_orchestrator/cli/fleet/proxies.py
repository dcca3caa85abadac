"""`wa-orchestrator proxies …`: list, add, check, remove."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.fleet import qr
from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, Invocation, all_pages, command, group, nothing_to_change
from wa_orchestrator.errors import Refused

app = group("Proxies of a running server: list, add, check, remove.")
ProxyId = Annotated[str, typer.Argument(metavar="PROXY", help="The proxy's id, p_…")]
COLUMNS = {
    "proxy": "id", "name": "name", "status": "status", "url": "url", "sessions": "sessions", "free": "free",
    "latency": "latencyMs", "checked": "lastCheckAt", "last error": "lastError",
}  # fmt: skip


def _row(proxy: dict[str, Any]) -> dict[str, Any]:
    latency = None if proxy["latencyMs"] is None else f"{proxy['latencyMs']} ms"
    return proxy | {"latencyMs": latency, "status": proxy["status"] + (" (draining)" if proxy["draining"] else "")}


@command(app, "list")
def listed(run: Invocation, *, status: Annotated[str | None, typer.Option(help="Only OK or BAD ones.")] = None) -> None:
    """List proxies."""
    found = all_pages(partial(run.client.proxies, status=status), "proxies")
    rows = [_row(proxy) for proxy in found["proxies"]]
    none = "There are no proxies. Add one: wa-orchestrator proxies add socks5h://user:password@host:port"
    run.output(found, lambda: tables.table(COLUMNS, rows, empty="No matches." if status else none))


@command(app)
def add(
    run: Invocation,
    proxy_url: Annotated[
        str, typer.Argument(metavar="URL", help="socks5h://user:password@host:port; `-` reads it from stdin.")
    ],
) -> None:
    """Add a proxy. Its password is not shown again."""
    made = run.client.add_proxy(qr.from_stdin(proxy_url) or "")
    run.say(made, f"{made['id']} was added: {made['url']}")


@command(app, "import")
def add_many(
    run: Invocation, file: Annotated[Path, typer.Argument(help="A file with one proxy per line; `-` reads stdin.")]
) -> None:
    """Add the proxies of a file. Exit code 1 when a line was refused."""
    result = run.client.import_proxies(_text(file))
    run.output(result, lambda: _print_import(result))
    if result["errors"]:
        raise typer.Exit(EXIT_FAILED)


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise Refused("BAD_FILE", f"{file}: cannot be read: {why}.") from None


def _print_import(result: dict[str, Any]) -> None:
    added, known, errors = (len(result[name]) for name in ("added", "known", "errors"))
    tables.line(f"{added} added, {known} already known, {errors} refused.")
    for error in result["errors"]:
        typer.echo(f"line {error['line']}: {error['code']}: {error['message']}", err=True)


@command(app)
def check(
    run: Invocation, proxy_id: Annotated[str | None, typer.Argument(metavar="PROXY", help="Default: all.")] = None
) -> None:
    """Check a proxy now, or all. Exit code 1 when one fails."""
    ids = [proxy_id] if proxy_id else [proxy["id"] for proxy in all_pages(run.client.proxies, "proxies")["proxies"]]
    checked = [run.client.proxy_act(each, "check") for each in ids]
    rows = [_row(each) | {"passed": "passed" if each["passed"] else "failed"} for each in checked]
    columns = {"": "passed"} | COLUMNS
    run.output({"proxies": checked}, lambda: tables.table(columns, rows, empty="There are no proxies."))
    if not all(each["passed"] for each in checked):
        raise typer.Exit(EXIT_FAILED)


@command(app)
def change(
    run: Invocation,
    proxy_id: ProxyId,
    *,
    name: Annotated[str | None, typer.Option(help="Display name; '' removes it.")] = None,
    provider: Annotated[str | None, typer.Option(help="'' removes it.")] = None,
    country: Annotated[str | None, typer.Option(help="Two letters; '' removes it.")] = None,
    expires: Annotated[str | None, typer.Option(help="Last day that is paid for: 2026-12-31.")] = None,
    password: Annotated[bool, typer.Option("--password", help="Read a new password from stdin.")] = False,
) -> None:
    """Change what is known about a proxy, or its password; it keeps its id and its sessions."""
    given = {"name": name, "provider": provider, "country": country, "expires_on": expires}
    changes: dict[str, Any] = {field: value or None for field, value in given.items() if value is not None}
    if password:
        changes["password"] = qr.from_stdin("-")
    if not changes:
        raise nothing_to_change("--name", "--provider", "--country", "--expires", "--password")
    result = run.client.change_proxy(proxy_id, **changes)
    run.say(result, f"{proxy_id} was changed: {result['url']}")


@command(app)
def remove(
    run: Invocation,
    proxy_id: ProxyId,
    *,
    drain: Annotated[bool, typer.Option("--drain", help="Move its sessions to other proxies first.")] = False,
) -> None:
    """Remove a proxy. One in use is refused without --drain."""
    run.say(run.client.delete_proxy(proxy_id, drain=drain), f"{proxy_id} was removed.")


@command(app)
def reinstate(run: Invocation, proxy_id: ProxyId) -> None:
    """Use a bad proxy again."""
    result = run.client.proxy_act(proxy_id, "reinstate")
    run.say(result, f"{proxy_id} is {result['status']}.")
