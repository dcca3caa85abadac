"""`wa-orchestrator doctor`: the settings in effect, and checks of the machine."""

import asyncio
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import SecretStr

from wa_orchestrator.cli import tables
from wa_orchestrator.cli.command import print_json
from wa_orchestrator.domain import proxy_url
from wa_orchestrator.errors import OrchestratorError, Refused
from wa_orchestrator.logs import redact_text
from wa_orchestrator.runner.node_command import BUILT_BUNDLE, node_binary
from wa_orchestrator.server import preflight, secrets
from wa_orchestrator.settings import GENERATED, Settings, types
from wa_orchestrator.settings.source import OperatorSource
from wa_orchestrator.store.engine import durability, embedded_redis
from wa_orchestrator.texts.catalogue import text


class Mark(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    """Works, with a risk that the text explains."""
    PROBLEM = "problem"
    """Does not work until this is fixed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str
    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class Effective:
    """The value of a setting, with secrets masked, and its origin."""

    name: str
    value: str
    origin: str


def effective(settings: Settings, source: OperatorSource, overrides: frozenset[str]) -> Iterator[Effective]:
    """Yield every setting with its origin."""
    stored = secrets.stored_secrets(settings.data_dir)
    for name in Settings.model_fields:
        if name == "proxy_urls":
            for proxy, url in zip(source.proxies, settings.proxy_urls, strict=True):
                masked = proxy_url.masked(url.get_secret_value())
                yield Effective(proxy.upper(), masked, source.origin(proxy) or "")
            continue
        origin = "command line" if name in overrides else source.origin(name)
        if origin is None and name in GENERATED:
            origin = secrets.FILE_NAME if name in stored else "generated at the first start"
        yield Effective(name.upper(), _masked(getattr(settings, name)), origin or "default")


def _masked(value: object) -> str:
    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        return redact_text(text) if "://" in text else "***" if text else ""
    return types.text(value)


def print_report(effective: Sequence[Effective], findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print the settings and the findings: tables for people, or JSON."""
    if as_json:
        print_json({"settings": list(map(asdict, effective)), "findings": list(map(asdict, findings))})
        return
    tables.table(("setting", "value", "from"), [(each.name, each.value, each.origin) for each in effective], empty="")
    tables.line("")
    tables.table(("", "check", "result"), [(each.mark, each.name, each.text) for each in findings], empty="")


def examine(settings: Settings, source: OperatorSource) -> list[Finding]:
    """Check everything the product needs from this machine. Creates nothing."""
    checks: tuple[Callable[[Settings], Finding], ...] = (
        _python,
        _node,
        _bundle,
        _redis,
        _files,
        _ports,
        _proxies,
        _zone,
        _runner,
    )
    return [_names(source), *(check(settings) for check in checks)]


def _names(source: OperatorSource) -> Finding:
    if source.unknown:
        return Finding("settings", Mark.WARNING, " ".join(each.text for each in source.unknown))
    return Finding("settings", Mark.OK, "no unknown variables")


def _python(_settings: Settings) -> Finding:
    mark = Mark.OK if sys.version_info >= (3, 11) else Mark.PROBLEM
    return Finding("python", mark, f"{platform.python_version()} ({sys.executable})")


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
            return Finding("redis", Mark.OK, f"embedded, {program.version} ({program.path})")
        verdict = asyncio.run(durability.check(settings.redis_url.get_secret_value()))
    except OrchestratorError as error:
        return Finding("redis", Mark.PROBLEM, redact_text(error.text))
    mark = Mark.WARNING if verdict.weaknesses else Mark.OK
    sentences = [text("en", f"redis_weakness.{code}") for code in verdict.weaknesses]
    return Finding("redis", mark, " ".join((f"REDIS_URL, {verdict.version}.", *sentences)))


def _files(settings: Settings) -> Finding:
    problems = list(preflight.directory_problems(settings))
    return Finding("files", Mark.PROBLEM if problems else Mark.OK, " ".join(problems) or str(settings.data_dir))


def _ports(settings: Settings) -> Finding:
    problems = list(preflight.port_problems(settings))
    if problems:  # not a problem while the server itself is running
        return Finding("ports", Mark.WARNING, " ".join(problems))
    return Finding("ports", Mark.OK, ", ".join(str(getattr(settings, name)) for name in preflight.PORTS))


def _proxies(settings: Settings) -> Finding:
    if settings.proxy_urls:
        slots = len(settings.proxy_urls) * settings.max_sessions_per_proxy
        return Finding("proxies", Mark.OK, f"{len(settings.proxy_urls)} configured, slots for {slots} sessions")
    if settings.allow_direct:
        return Finding("proxies", Mark.WARNING, "ALLOW_DIRECT: sessions connect from this machine's own IP address")
    return Finding("proxies", Mark.WARNING, "none configured; set PROXY_URL_1, or add some at run time")


def _zone(settings: Settings) -> Finding:
    return Finding("timezone", Mark.OK, settings.timezone)


def _runner(settings: Settings) -> Finding:
    if settings.runner == "process":
        return Finding("runner", Mark.OK, "process")
    docker = shutil.which("docker")
    version = _output(Path(docker), "version", "--format", "{{.Server.Version}}") if docker else None
    if version is None:
        return Finding("runner", Mark.PROBLEM, f"RUNNER={settings.runner}, but the Docker engine does not answer")
    return Finding("runner", Mark.OK, f"{settings.runner}, Docker {version}")
