"""The command line. Slow imports are deferred to the command that needs them."""

import json
import sys
from collections.abc import Coroutine, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from wa_orchestrator.cli.fleet import events, fleet_status, inventory, proxies, session_import, sessions
from wa_orchestrator.cli.messages import (
    batch,
    campaigns,
    chats,
    contacts,
    conversations,
    groups,
    messages,
    pace,
    reproduce,
    send,
)
from wa_orchestrator.cli.operations import access, backups, export, jobs, nodes, webhooks
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, command
from wa_orchestrator.cli.terminal.target import installation
from wa_orchestrator.errors import OrchestratorError, Refused
from wa_orchestrator.settings import GENERATED, Settings, build, read

#: Bad settings or options: the caller can fix it.
EXIT_REFUSED = 2

app = typer.Typer(
    name="wa-orchestrator",
    help="Runs an operator's own WhatsApp accounts: one isolated worker and one fixed proxy each.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

#: Sections of the list of commands.
RUN, CONFIGURE, QUERY = "Run a server", "Settings and secrets", "Talk to a running server"

DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Overrides DATA_DIR.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _print_version(wanted: bool) -> None:  # noqa: FBT001 (the signature that Typer calls)
    if wanted:
        typer.echo(installed_version("wa-orchestrator"))
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Runs an operator's own WhatsApp accounts: one isolated worker and one fixed proxy each."""


@app.command(rich_help_panel=RUN)
def up(
    *,
    simulate: Annotated[bool, typer.Option("--simulate", help="Run against a simulated WhatsApp.")] = False,
    fleet: Annotated[int, typer.Option("--fleet", min=0, help="Provision and link this many simulated sessions.")] = 0,
    data_dir: DataDir = None,
    port: Annotated[int | None, typer.Option("--port", help="Overrides ORCH_PORT.")] = None,
    gateway_port: Annotated[int | None, typer.Option("--gateway-port", help="Overrides GATEWAY_PORT.")] = None,
    worker_port: Annotated[int | None, typer.Option("--worker-port", help="Overrides WORKER_PORT.")] = None,
) -> None:
    """Run everything in one process."""
    if fleet and not simulate:
        raise Refused("FLEET_NEEDS_SIMULATE", "--fleet: requires --simulate. Example: --simulate --fleet 8")
    ports = {"orch_port": port, "gateway_port": gateway_port, "worker_port": worker_port}
    settings = _ready(_settings_for_start(data_dir=data_dir, **ports))
    from wa_orchestrator.server import bootstrap

    _run(bootstrap.up(settings, simulate=simulate, fleet=fleet))


@app.command(rich_help_panel=RUN)
def gateway(data_dir: DataDir = None) -> None:
    """Run only the gateway, which accepts messages."""
    _run_single("gateway", data_dir, ("gateway_port",), ("data_dir",))


@app.command(rich_help_panel=RUN)
def dispatcher(data_dir: DataDir = None) -> None:
    """Run only a dispatcher, which routes and paces; any number may run."""
    _run_single("dispatcher", data_dir, (), ("data_dir",))


@app.command(rich_help_panel=RUN)
def orchestrator(data_dir: DataDir = None) -> None:
    """Run only the orchestrator: sessions, proxies, workers and the dashboard."""
    _run_single("orchestrator", data_dir, ("orch_port", "worker_port"), ("data_dir", "sessions_dir"))


@app.command(rich_help_panel=RUN)
def simulate(
    *,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Directory for its state.")] = None,
    control_port: Annotated[int, typer.Option("--control-port", min=0, max=65535, help="0 picks a free one.")] = 0,
    proxies: Annotated[int, typer.Option("--proxies", min=1, help="How many SOCKS5 proxies to run.")] = 4,
    name: Annotated[
        str | None, typer.Option("--name", help="Listen on all addresses, as a container of this name.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run only the simulator: WhatsApp, phones, proxies and Telegram."""
    from wa_orchestrator.simulator import command
    from wa_orchestrator.simulator.ports import LOCAL, Address

    address = LOCAL if name is None else Address("0.0.0.0", name)  # noqa: S104 (its container's network is closed)
    command.simulate(data_dir, control_port, proxies, address, as_json=as_json)


@app.command(rich_help_panel=RUN)
def fleet(
    *,
    size: Annotated[int, typer.Option("--size", min=1, help="How many simulated sessions to link.")] = 3,
    url: Annotated[str | None, typer.Option("--url", envvar="WA_URL", help="URL of the server.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Link simulated phones to a server beside a simulator; send, and read what arrives."""
    from wa_orchestrator import logs
    from wa_orchestrator.server import bootstrap

    settings = installation(data_dir)
    logs.configure(settings.log_level)
    _run(bootstrap.fleet(settings, url or settings.local_url, size))


_runner = typer.Typer(invoke_without_command=True)
app.add_typer(_runner, name="runner", rich_help_panel=RUN)


@_runner.callback()
def runner(ctx: typer.Context, *, data_dir: DataDir = None) -> None:
    """Run only the driver of workers' containers, for an orchestrator with RUNNER=remote."""
    ctx.obj = data_dir
    if ctx.invoked_subcommand is None:
        from wa_orchestrator import logs
        from wa_orchestrator.server import bootstrap

        settings = _settings_for_start(data_dir=data_dir)
        logs.configure(settings.log_level)
        _run(bootstrap.runner(settings))


@_runner.command("end")
def end_workers(ctx: typer.Context) -> None:
    """Stop all workers before an installation is taken down. The runner starts none until it is restarted."""
    import asyncio

    from wa_orchestrator.server import bootstrap

    ended = asyncio.run(bootstrap.end_workers(build(read(), **_given(data_dir=ctx.obj))))
    typer.echo(f"{ended} workers were ended.")


@app.command(rich_help_panel=CONFIGURE)
def doctor(*, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Show the settings in effect and check this machine. Exit code 1 when there is a problem."""
    from wa_orchestrator.cli import doctor as checks

    source, overrides = read(), _given(data_dir=data_dir)
    settings = build(source, **overrides)
    effective = list(checks.effective(settings, source, frozenset(overrides)))
    findings = checks.examine(settings, source)
    checks.print_report(effective, findings, as_json=as_json)
    if any(finding.mark is checks.Mark.PROBLEM for finding in findings):
        raise typer.Exit(EXIT_FAILED)


_secrets = typer.Typer(invoke_without_command=True)
app.add_typer(_secrets, name="secrets", rich_help_panel=CONFIGURE)


@_secrets.callback()
def show_secrets(ctx: typer.Context, *, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Print the secrets in effect: the API key, the webhook secret, the key of credentials, the dashboard password."""
    ctx.obj = data_dir
    if ctx.invoked_subcommand is not None:
        return
    settings = installation(data_dir)
    known = {name.upper(): getattr(settings, name).get_secret_value() for name in GENERATED}
    shown = {name: value for name, value in known.items() if value}  # an older version has generated fewer
    if not shown:
        raise Refused("NO_SECRETS", f"There are no secrets in {settings.data_dir} yet; the first start generates them.")
    typer.echo(json.dumps(shown) if as_json else "\n".join(f"{name}={value}" for name, value in shown.items()))


@app.command(rich_help_panel=CONFIGURE)
def login_link(data_dir: DataDir = None) -> None:
    """Print a link that logs an administrator in to the dashboard: valid once, for one hour."""
    import asyncio

    from wa_orchestrator.cli import login_link as links

    typer.echo(asyncio.run(links.create(installation(data_dir))))


@_secrets.command("rotate")
def rotate_secret(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="API_KEY, WEBHOOK_SECRET, AUTH_KEY, DASHBOARD_PASSWORD.")],
    *,
    data_dir: DataDir = None,
) -> None:
    """Replace a generated secret; the server uses the new one after a restart, and its workers keep running."""
    import asyncio

    from wa_orchestrator.server import secret_rotation

    if name.lower() not in GENERATED:
        raise Refused("NO_SUCH_SECRET", f"There is no secret {name}. Use one of {', '.join(GENERATED).upper()}.")
    settings = build(read(), **_given(data_dir=data_dir or ctx.obj))
    before = asyncio.run(secret_rotation.stored_unsealed_with(settings)) if name.lower() == "auth_key" else []
    secret_rotation.rotate(settings, name.lower(), stored_before=before)
    typer.echo(f"{name.upper()} is replaced. Restart the server to use it; workers keep running.")


for _name, _commands in (
    ("sessions", sessions.app),
    ("proxies", proxies.app),
    ("inventory", inventory.app),
    ("messages", messages.app),
    ("chats", chats.app),
    ("groups", groups.app),
    ("jobs", jobs.app),
    ("nodes", nodes.app),
    ("campaign", campaigns.app),
    ("keys", access.keys),
    ("people", access.people),
    ("audit", access.audit),
    ("logins", access.logins),
    ("webhooks", webhooks.app),
    ("holds", pace.holds),
    ("limits", pace.limits),
    ("queue", pace.queue),
    ("opt-outs", contacts.opt_outs),
    ("contacts", contacts.contacts),
    ("conversations", conversations.app),
    ("quick-replies", conversations.quick_replies),
    ("trash", contacts.trash),
):
    app.add_typer(_commands, name=_name, rich_help_panel=QUERY)
for _function in (
    fleet_status.status,
    fleet_status.watch,
    fleet_status.logs,
    send.send,
    batch.send_batch,
    events.events,
    fleet_status.stats,
    fleet_status.radar,
    fleet_status.test_alert,
    backups.backup,
    backups.backups,
    backups.download_backup,
    backups.restore,
    reproduce.reproduce,
    export.export,
):
    command(app, panel=QUERY)(_function)


command(app, "import", panel=QUERY)(session_import.import_accounts)


@app.command(name="restore-secrets", rich_help_panel=CONFIGURE)
def restore_secrets(
    archive: Annotated[Path, typer.Argument(help="An encrypted backup, backup_….zip.age.")],
    *,
    identity: Annotated[Path, typer.Option("--identity", help="The file with its secret key.")],
    data_dir: DataDir = None,
) -> None:
    """Extract the generated secrets of a backup, before the first start on a new machine."""
    settings = build(read(), **_given(data_dir=data_dir))
    typer.echo(f"Written: {backups.restore_secrets(settings.data_dir, archive, identity)}")


@app.command(name="setup", rich_help_panel=CONFIGURE, hidden=True)
def prepare_parts(
    env_file: Annotated[Path, typer.Option("--env-file", help="The operator's settings.")],
    *,
    data: Annotated[Path, typer.Option("--data")],
    backups_dir: Annotated[Path, typer.Option("--backups")],
    runner_dir: Annotated[Path, typer.Option("--runner")],
) -> None:
    """Prepare the directories and files of the compose file; may be repeated."""
    from wa_orchestrator.server import part_files

    new = part_files.prepare(part_files.Places(data, backups_dir, runner_dir), env_file)
    typer.echo(f"Generated: {', '.join(new).upper()}." if new else "Nothing was missing.")


@app.command(rich_help_panel=CONFIGURE)
def version(*, as_json: Json = False) -> None:
    """Print the version."""
    installed = installed_version("wa-orchestrator")
    typer.echo(json.dumps({"version": installed}) if as_json else installed)


def main() -> None:
    """Run the command line. Expected errors are printed in one line each, without a traceback."""
    try:
        sys.exit(app(standalone_mode=not _wants_json()))
    except TyperException as error:  # wrong usage; without --json Typer prints it, with a frame
        _print_error(Refused("USAGE", error.format_message()))
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(EXIT_FAILED)
    except Refused as refused:
        _print_error(refused)
        sys.exit(EXIT_REFUSED)
    except OrchestratorError as error:
        _print_error(error)
        sys.exit(EXIT_FAILED)


def _wants_json() -> bool:
    return "--json" in sys.argv


def _print_error(error: OrchestratorError) -> None:
    """Print an error in one line; with `--json`, as the object that the API answers."""
    shown = {"error": {"code": error.code, "message": error.text}}
    typer.echo(json.dumps(shown, ensure_ascii=False) if _wants_json() else error.text, err=True)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _settings_for_start(**options: Any) -> Settings:
    """Read the settings. Unknown variables are reported first: one may be the reason why another is missing."""
    source = read()
    for each in source.unknown:
        typer.echo(f"Warning: {each.text}", err=True)
    return build(source, **_given(**options))


def _run_single(service: str, data_dir: Path | None, ports: Sequence[str], directories: Sequence[str]) -> None:
    """Run one service, which needs these ports, and writes to these directories."""
    from wa_orchestrator.server.preflight import require_redis

    settings = _settings_for_start(data_dir=data_dir)
    require_redis(settings)
    settings = _ready(settings, ports, directories)
    from wa_orchestrator.server import bootstrap

    _run(getattr(bootstrap, service)(settings))


def _ready(
    settings: Settings, ports: Sequence[str] | None = None, directories: Sequence[str] | None = None
) -> Settings:
    """Check the machine, then generate secrets: nothing is created before all checks have passed."""
    from wa_orchestrator import logs
    from wa_orchestrator.server import preflight, secrets
    from wa_orchestrator.server.banner import command_line

    preflight.preflight(
        settings,
        preflight.PORTS if ports is None else ports,
        preflight.DIRECTORIES if directories is None else directories,
    )
    complete, generated = secrets.ensure(settings)
    if generated:
        names = ", ".join(name.upper() for name in generated)
        typer.echo(f"{names} generated. To print them: {command_line('secrets', settings.data_dir)}", err=True)
    logs.configure(settings.log_level)
    return complete


def _run(service: Coroutine[Any, Any, None]) -> None:
    import uvloop

    uvloop.run(service)
