"""`wa-orchestrator doctor`: the settings in effect, and checks of the machine."""

import asyncio
import contextlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import httpx
from pydantic import SecretStr

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import print_json
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.errors import OrchestratorError, Refused
from wa_orchestrator.logs import redact_text
from wa_orchestrator.runner.factory import find_layers
from wa_orchestrator.runner.kubernetes import api as kubernetes_api
from wa_orchestrator.runner.kubernetes.access import find_access
from wa_orchestrator.runner.node_command import BUILT_BUNDLE, node_binary
from wa_orchestrator.server import address, preflight, secrets
from wa_orchestrator.settings import GENERATED, Settings, types
from wa_orchestrator.settings.source import OperatorSource
from wa_orchestrator.store.engine import durability, embedded_redis
from wa_orchestrator.store.engine.durability import Promise, Weakness
from wa_orchestrator.texts.catalogue import text

#: What a machine that nobody has set up calls its time zone.
_UTC = frozenset(
    {"UTC", "Etc/UTC", "Etc/UCT", "UCT", "Etc/Universal", "Universal", "Etc/Zulu", "Zulu", "GMT", "Etc/GMT"}
)


class Mark(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """Works, with a risk that the text explains."""
    PROBLEM = "problem"
    """Does not work until this is fixed."""


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    mark: Mark
    text: str


def effective(settings: Settings, source: OperatorSource, overrides: frozenset[str]) -> Iterator[dict[str, str]]:
    """Yield the name, the value (secrets are masked) and the origin of every setting."""
    stored = secrets.stored_secrets(settings.data_dir)
    derived = _derived(settings)
    for name in Settings.model_fields:
        if name == "proxy_urls":
            for proxy, url in zip(source.proxies, settings.proxy_urls, strict=True):
                masked = proxy_url.masked(url.get_secret_value())
                yield {"name": proxy.upper(), "value": masked, "origin": source.origin(proxy) or ""}
            continue
        origin = "command line" if name in overrides else source.origin(name)
        if origin is None and name in GENERATED:
            origin = secrets.FILE_NAME if name in stored else "generated at the first start"
        value = "***" if origin == secrets.FILE_NAME else _masked(getattr(settings, name)) or derived.get(name, "")
        yield {"name": name.upper(), "value": value, "origin": origin or "default"}


def _derived(settings: Settings) -> dict[str, str]:
    """Return what is used where a setting is empty."""
    values = {
        "public_url": settings.public_base_url,
        "worker_url": settings.worker_base_url,
        "worker_bundle": str(BUILT_BUNDLE),
        "redis_url": "embedded",
        "archive_url": str(settings.archive_path),
    }
    for trust in Trust:
        pace = settings.pace(trust)
        values |= {
            f"{trust}_per_day": str(pace.per_day),
            f"{trust}_per_minute": str(pace.per_minute),
            f"{trust}_pause_min_ms": str(pace.pause_base_ms),
            f"{trust}_pause_max_ms": str(pace.pause_base_ms + pace.pause_range_ms),
            f"{trust}_hours": f"{pace.opens:%H:%M}-{pace.closes:%H:%M}",
        }
    return values


def _masked(value: object) -> str:
    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        return redact_text(text) if "://" in text else "***" if text else ""
    return types.text(value)


def print_report(effective: Sequence[Mapping[str, str]], findings: Sequence[Finding], *, as_json: bool) -> None:
    found = list(map(asdict, findings))
    if as_json:
        print_json({"settings": effective, "findings": found})
        return
    tables.table({"setting": "name", "value": "value", "from": "origin"}, effective)
    tables.line("")
    tables.table({"": "mark", "check": "name", "result": "text"}, found)


def examine(settings: Settings, source: OperatorSource) -> list[Finding]:
    """Check everything the product needs from this machine. Creates nothing."""
    checks = (_python, _node, _bundle, _redis, _archive, _files, _ports, _server, _proxies, _runner)
    return [_names(source), *(check(settings) for check in checks), _zone(settings, source)]


def _names(source: OperatorSource) -> Finding:
    if source.unknown:
        return Finding("settings", Mark.WARNING, " ".join(each.text for each in source.unknown))
    return Finding("settings", Mark.OK, "no unknown variables")


def _python(_settings: Settings) -> Finding:
    return Finding("python", Mark.OK, f"{platform.python_version()} ({sys.executable})")


def _node(_settings: Settings) -> Finding:
    try:
        node = node_binary()
    except Refused as refused:
        return Finding("node", Mark.PROBLEM, refused.text)
    version = _output(node, "--version")
    if version is None:
        return Finding("node", Mark.PROBLEM, f"{node} does not run; `make setup` installs it as a wheel")
    mark = Mark.OK if int(version.lstrip("v").split(".")[0]) >= 24 else Mark.PROBLEM
    return Finding("node", mark, f"{version} ({node})")


def _output(program: Path, *arguments: str) -> str | None:
    try:
        run = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()


def _bundle(settings: Settings) -> Finding:
    bundle = settings.worker_bundle or BUILT_BUNDLE
    if bundle.is_file():
        return Finding("worker", Mark.OK, str(bundle))
    return Finding("worker", Mark.PROBLEM, f"{bundle} does not exist; run `make worker`, or set WORKER_BUNDLE")


def _redis(settings: Settings) -> Finding:
    try:
        if settings.redis_url is None:
            program = embedded_redis.find_program()
            return _embedded(settings, f"embedded, {program.version} ({program.path}).")
        verdict = asyncio.run(durability.check(settings.redis_url.get_secret_value(), settings.redis_replicas_ack))
    except OrchestratorError as error:
        return Finding("redis", Mark.PROBLEM, redact_text(error.text))
    return _redis_finding(f"REDIS_URL, {verdict.version}.", verdict.weaknesses, verdict.promise, settings)


def _embedded(settings: Settings, program: str) -> Finding:
    """Ask the embedded Redis, if it runs: only its memory can be a problem, its settings are ours."""
    weaknesses: tuple[Weakness, ...] = ()
    if (settings.data_dir / "redis" / "password").exists():
        with contextlib.suppress(OrchestratorError):  # it does not run now
            weaknesses = asyncio.run(durability.check(embedded_redis.url_in(settings.data_dir))).weaknesses
    return _redis_finding(program, weaknesses, Promise.ONE_DISK, settings)


def _redis_finding(
    program: str, weaknesses: Sequence[Weakness], promise: Promise | None, settings: Settings
) -> Finding:
    """Say what is wrong with a Redis, and what becomes of accepted messages in it."""
    sentences = [text("en", f"redis_weakness.{code}") for code in weaknesses]
    if promise:
        sentences.append(text("en", f"redis_promise.{promise}").format(n=settings.redis_replicas_ack))
    return Finding("redis", Mark.WARNING if weaknesses else Mark.OK, " ".join((program, *sentences)))


def _archive(settings: Settings) -> Finding:
    """Ask the database of the history, where there is one; the file is among the others."""
    if settings.archive_url is None:
        return Finding("history", Mark.OK, str(settings.archive_path))
    from wa_orchestrator.archive.postgres import durability as history

    try:
        told = history.check(settings.archive_url.get_secret_value())
    except OrchestratorError as error:
        return Finding("history", Mark.PROBLEM, redact_text(error.text))
    sentences = [text("en", f"archive_weakness.{code}") for code in told.weaknesses]
    mark = Mark.WARNING if sentences else Mark.OK
    return Finding("history", mark, " ".join((f"ARCHIVE_URL, PostgreSQL {told.version}.", *sentences)))


def _files(settings: Settings) -> Finding:
    problems = list(preflight.directory_problems(settings))
    return Finding("files", Mark.PROBLEM if problems else Mark.OK, " ".join(problems) or str(settings.data_dir))


def _ports(settings: Settings) -> Finding:
    host, texts, mark = types.connectable(settings.bind_host), [], Mark.OK
    version = None
    for name in preflight.PORTS:
        problem = next(preflight.port_problems(settings, (name,)), None)
        # The workers' port says nothing about itself; what runs on the others runs there too.
        if name != "worker_port":
            version = _running_version(f"http://{host}:{getattr(settings, name)}")
        if problem is None:
            texts.append(f"{name.upper()} {getattr(settings, name)} is free")
        elif version:
            texts.append(f"{name.upper()} {getattr(settings, name)} is in use by wa-orchestrator {version}")
        else:
            texts.append(problem)
            mark = Mark.WARNING
    return Finding("ports", mark, "; ".join(texts))


def _server(settings: Settings) -> Finding:
    """Look for the server of this data directory, which may have got its port from an option."""
    url = address.find(settings.data_dir)
    if url is None:
        return Finding("server", Mark.OK, f"none is running with {settings.data_dir}")
    if version := _running_version(url):
        return Finding("server", Mark.OK, f"running at {url}, version {version}")
    return Finding("server", Mark.WARNING, f"{url} does not respond; it was killed, or is just starting")


def _running_version(url: str) -> str | None:
    """Return the version of the server at this address; None if another program or nothing responds."""
    try:
        health = httpx.get(f"{url}/health", timeout=2, trust_env=False).json()
        return str(health["version"]) if health["status"] == "ok" else None
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None


def _proxies(settings: Settings) -> Finding:
    if settings.proxy_urls:
        slots = len(settings.proxy_urls) * settings.max_sessions_per_proxy
        return Finding("proxies", Mark.OK, f"{len(settings.proxy_urls)} configured, slots for {slots} sessions")
    if settings.allow_direct:
        return Finding("proxies", Mark.WARNING, "ALLOW_DIRECT: sessions connect from this machine's own IP address")
    return Finding("proxies", Mark.WARNING, "none configured; set PROXY_URL_1, or add some at run time")


def _zone(settings: Settings, source: OperatorSource) -> Finding:
    if source.origin("timezone") is None and settings.timezone in _UTC:
        text = "by default: hours, days and the dashboard are in UTC. Example: TIMEZONE=Asia/Jerusalem"
        return Finding("timezone", Mark.WARNING, f"{settings.timezone} {text}")
    return Finding("timezone", Mark.OK, settings.timezone)


def _processes(settings: Settings) -> Finding:
    """Try the confinement of workers as a start of the server does."""
    try:
        layers = find_layers(settings, str(node_binary()))
    except Refused:
        return Finding("runner", Mark.OK, "process")  # the missing Node is a finding of its own
    has = {
        "users of their own": layers.own_users,
        f"Landlock {layers.landlock}": layers.landlock > 0,
        "a filter of system calls": layers.syscall_filter,
    }
    confined = ", ".join(name for name, is_so in has.items() if is_so) or "nothing"
    sentences = [text("en", f"confinement.{gap}") for gap in layers.gaps]
    mark = Mark.WARNING if layers.gaps else Mark.OK
    return Finding("runner", mark, " ".join((f"process; workers are confined by: {confined}.", *sentences)))


def _kubernetes(settings: Settings) -> Finding:
    """Open the driver as a start of the server does: it lists what it needs to see."""

    async def look() -> int:
        access = find_access(settings.kubernetes_config, settings.kubernetes_namespace)
        async with kubernetes_api.opened(access) as client:
            await client.list(kubernetes_api.PODS)
            return len((await client.list(kubernetes_api.NODES))["items"])

    try:
        nodes = asyncio.run(look())
    except (OrchestratorError, kubernetes_api.KubernetesError) as error:
        return Finding("runner", Mark.PROBLEM, f"kubernetes; {error}")
    return Finding("runner", Mark.OK, f"kubernetes, {nodes} node{'s' if nodes > 1 else ''}")


def _swarm(docker: Path, version: str) -> Finding:
    state = _output(docker, "info", "--format", "{{.Swarm.LocalNodeState}} {{.Swarm.ControlAvailable}}")
    if state != "active true":
        lacking = "this engine is not a swarm manager: run `docker swarm init`, or use the engine of a manager"
        return Finding("runner", Mark.PROBLEM, f"swarm, Docker {version}; {lacking}")
    away = _output(docker, "node", "ls", "--format", '{{if ne .Status "Ready"}}{{.Hostname}}{{end}}') or ""
    if names := away.split():
        return Finding("runner", Mark.WARNING, f"swarm, Docker {version}; nodes that are away: {', '.join(names)}")
    return Finding("runner", Mark.OK, f"swarm, Docker {version}")


def _runner(settings: Settings) -> Finding:
    if settings.runner == "process":
        return _processes(settings)
    if settings.runner == "remote":
        is_there = settings.runner_socket.is_socket()
        lacking = "" if is_there else ", which does not exist; start `wa-orchestrator runner`"
        return Finding("runner", Mark.OK if is_there else Mark.PROBLEM, f"remote, {settings.runner_socket}{lacking}")
    if settings.runner == "kubernetes":
        return _kubernetes(settings)
    docker = shutil.which("docker")
    version = _output(Path(docker), "version", "--format", "{{.Server.Version}}") if docker else None
    if version is None:
        return Finding("runner", Mark.PROBLEM, f"RUNNER={settings.runner}, but the Docker engine does not answer")
    if settings.runner == "swarm":
        return _swarm(Path(str(docker)), version)
    option = '{{index .Options "com.docker.network.bridge.inhibit_ipv4"}}'
    without_host = _output(Path(str(docker)), "network", "inspect", settings.docker_network, "--format", option)
    if without_host not in (None, "true"):  # None: there is none yet
        text = "workers reach services of this machine: it has an address in their network (docs/runner.md)"
        return Finding("runner", Mark.WARNING, f"{settings.runner}, Docker {version}; {text}")
    return Finding("runner", Mark.OK, f"{settings.runner}, Docker {version}")
