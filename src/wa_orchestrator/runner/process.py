"""Process driver: each worker is a detached process that survives the server.

Workers are found again by their environment: `/proc/<pid>/environ` holds the installation's marker, the session and the
epoch. No file has to be written after the start, so there is no moment in which a running worker cannot be found.
"""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from wa_orchestrator.domain.reconcile import FoundWorker
from wa_orchestrator.errors import Broken
from wa_orchestrator.runner import process_identity
from wa_orchestrator.runner.contract import AlreadyRunning, Exited, Running, StartFailed, WorkerSpec
from wa_orchestrator.runner.node_command import ENVIRONMENT
from wa_orchestrator.runner.worker_files import private_directory, write_secrets

MARKER = "WA_RUNNER_HOME"
NAME = "process/1"
MAX_LOG_BYTES = 5_000_000
_POLL_S = 0.02
_FIND_TIMEOUT_S = 5.0
_OPEN_FILES = 1024
_LARGEST_FILE_BYTES = 1 << 30

log = structlog.get_logger(__name__)


class ProcessRunner:
    """Runs workers under `home`, which belongs to one installation. See `contract.Runner`."""

    def __init__(self, home: Path, command: Sequence[str]) -> None:
        self._home = private_directory(home.absolute())
        self._command = tuple(command)
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    async def start(self, spec: WorkerSpec) -> str:
        """Start a process in a kernel session of its own."""
        if any(found.session_id == spec.session_id for found in await self.survey()):
            raise AlreadyRunning(spec.session_id)
        return await asyncio.to_thread(self._spawn, spec)

    async def poll(self, handle: str) -> Running | Exited:
        child = self._children.get(handle)
        if child is not None and (code := child.poll()) is not None:
            return Exited(code)
        return Running() if _is_running(handle) else Exited()

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Signal the whole process group; the worker's pid cannot be reused while a process of its group is left."""
        pid = _pid(handle)
        if pid is None or not (_is_running(handle) or self._left_children(handle, pid)):
            self._forget(handle)
            return
        if grace_s > 0:
            _signal(pid, signal.SIGTERM)
            await self._wait_for_exit(handle, grace_s)
        while process_identity.group_is_running(pid):
            _signal(pid, signal.SIGKILL)
            await asyncio.sleep(_POLL_S)
        self._forget(handle)

    async def survey(self) -> Sequence[FoundWorker]:
        """Return the processes with this installation's marker; long logs are rotated on the way."""
        found = await asyncio.to_thread(self._scan)
        for each in found:
            _rotate(self.log_file(each.session_id))
        return found

    def log_file(self, session_id: str) -> Path:
        """Return the path of a worker's log; the rotated part ends in `.1`."""
        return self._home / session_id / "log"

    def _scan(self) -> list[FoundWorker]:
        found = []
        for pid in process_identity.pids():
            environment = process_identity.environment(pid)
            if environment is None or environment.get(MARKER) != str(self._home):
                continue
            start = process_identity.start_time(pid)
            if start is None or not _is_leader(pid):
                continue
            session_id, epoch = environment["SESSION_ID"], int(environment["EPOCH"])
            found.append(FoundWorker(_handle(pid, start), session_id, epoch, process_identity.started_at_ms(start)))
        return found

    def _spawn(self, spec: WorkerSpec) -> str:
        place = private_directory(self._home / spec.session_id)
        private_directory(spec.auth_dir)
        secrets = write_secrets(place / "secrets", spec.secrets)
        _rotate(place / "log")
        output = os.open(place / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            child = subprocess.Popen(
                self._command,
                cwd=place,
                env=self._environment(spec, secrets),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise StartFailed(f"Cannot run {self._command[0]}: {error.strerror}.") from error
        finally:
            os.close(output)
        return self._register(child)

    def _register(self, child: subprocess.Popen[bytes]) -> str:
        start = process_identity.start_time(child.pid)
        if start is None:
            raise StartFailed(f"The worker exited immediately with code {child.wait()}. See its log.")
        with contextlib.suppress(ProcessLookupError):  # it may have exited: the next poll returns that
            _limit(child.pid)
        handle = _handle(child.pid, start)
        self._children[handle] = child
        self._wait_until_found(child)
        return handle

    def _wait_until_found(self, child: subprocess.Popen[bytes]) -> None:
        """Wait until a survey can find the worker: its environment is readable a moment after it starts."""
        deadline = time.monotonic() + _FIND_TIMEOUT_S
        while child.poll() is None and time.monotonic() < deadline:
            if (process_identity.environment(child.pid) or {}).get(MARKER) == str(self._home):
                return
            time.sleep(_POLL_S / 10)

    def _environment(self, spec: WorkerSpec, secrets: Mapping[str, Path]) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self._home / spec.session_id),
            "TZ": os.environ.get("TZ", ""),
            **ENVIRONMENT,
            **spec.environment,
            **{f"{name}_FILE": str(path) for name, path in secrets.items()},
            "SESSION_ID": spec.session_id,
            "EPOCH": str(spec.epoch),
            "AUTH_DIR": str(spec.auth_dir.absolute()),
            MARKER: str(self._home),
        }

    def _left_children(self, handle: str, pid: int) -> bool:
        """Whether a worker that we started has exited and left children; its group id is then still its own."""
        exited = handle in self._children and process_identity.start_time(pid) is None
        return exited and process_identity.group_is_running(pid)

    async def _wait_for_exit(self, handle: str, grace_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while _is_running(handle):
                    if (child := self._children.get(handle)) is not None:
                        child.poll()
                    await asyncio.sleep(_POLL_S)

    def _forget(self, handle: str) -> None:
        if (child := self._children.pop(handle, None)) is not None:
            child.poll()


def _handle(pid: int, start: int) -> str:
    return f"{NAME}/{pid}/{start}"


def _pid(handle: str) -> int | None:
    name, _, rest = handle.rpartition(f"{NAME}/")
    pid, _, start = rest.partition("/")
    return int(pid) if not name and handle.startswith(NAME) and pid.isdigit() and start.isdigit() else None


def _is_running(handle: str) -> bool:
    pid = _pid(handle)
    return pid is not None and handle == f"{NAME}/{pid}/{process_identity.start_time(pid)}"


def _is_leader(pid: int) -> bool:
    """Whether the process is the worker itself, not one that it started."""
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    if pid <= 1:
        raise Broken(f"refused to signal process group {pid}")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _limit(pid: int) -> None:
    """Limit a worker's resources. Memory is limited by a Node flag: Node reserves more address space than it uses."""
    if not hasattr(resource, "prlimit"):
        return
    for what, most in (
        (resource.RLIMIT_CORE, 0),  # a core dump would contain keys
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_FSIZE, _LARGEST_FILE_BYTES),
    ):
        resource.prlimit(pid, what, (most, most))


def _rotate(path: Path) -> None:
    """Rotate a long log. It is copied and truncated, because the worker holds it open for appending."""
    try:
        if path.stat().st_size <= MAX_LOG_BYTES:
            return
        older = path.with_name(f"{path.name}.1")
        older.write_bytes(path.read_bytes()[-MAX_LOG_BYTES:])
        older.chmod(0o600)
        os.truncate(path, 0)
    except FileNotFoundError:
        return
