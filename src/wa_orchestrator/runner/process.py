"""Process driver: each worker is a detached process that survives the server.

Workers are found again by their environment: `/proc/<pid>/environ` holds the installation's marker, the session and the
epoch. No file has to be written after the start, so there is no moment in which a running worker cannot be found.

A worker that was found is remembered with its pidfd: looking after hundreds of them costs the kernel's answer for each,
and a survey reads only processes that it does not know.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.errors import Broken
from wa_orchestrator.runner import process_identity
from wa_orchestrator.runner.confinement.launch import group_of, launch_command, reach_of, remove_group, spawn
from wa_orchestrator.runner.confinement.layers import Layers
from wa_orchestrator.runner.contract import AlreadyRunning, Exited, Running, StartFailed, WorkerSpec
from wa_orchestrator.runner.node_command import ENVIRONMENT
from wa_orchestrator.runner.process_identity import HeldProcess
from wa_orchestrator.runner.worker_files import hand_over, private_directory, rotate_log, write_secrets
from wa_orchestrator.runner.worker_users import WorkerUsers

MARKER = "WA_RUNNER_HOME"
NAME = "process/1"
MAX_LOG_BYTES = 5_000_000
_POLL_S = 0.02
_FIND_TIMEOUT_S = 5.0
#: Used only where each worker has a user of its own.
USERS = range(1_900_000_000, 1_900_010_000)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Worker:
    """A worker that was started or found."""

    process: HeldProcess
    session_id: str
    epoch: int

    @property
    def handle(self) -> str:
        return _handle(self.process.pid, self.process.start)

    def found(self, boot_ms: int) -> FoundWorker:
        """Return it as a survey does."""
        started_at_ms = boot_ms + process_identity.since_boot_ms(self.process.start)
        return FoundWorker(self.handle, self.session_id, self.epoch, started_at_ms)


class ProcessRunner:
    """Runs workers under `home`, which belongs to one installation. See `contract.Runner`."""

    def __init__(self, home: Path, command: Sequence[str], layers: Layers | None = None, users: range = USERS) -> None:
        """`layers` are the confinement that this machine has; none: workers run as they are."""
        self._home = private_directory(home.absolute())
        self._command = tuple(command)
        self._layers = layers or Layers()
        self._users = WorkerUsers(self._home, users) if self._layers.own_users else None
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._workers: dict[str, _Worker] = {}
        """By handle. Added by threads too, dropped by the event loop only: it may be looking at the pidfd."""

    @property
    def separates_files(self) -> bool:
        """Whether a worker cannot read what belongs to others."""
        return self._layers.separates_files

    async def start(self, spec: WorkerSpec) -> str:
        """Start a process in a kernel session of its own."""
        if any(worker.session_id == spec.session_id for worker in await self._running()):
            raise AlreadyRunning(spec.session_id)
        spawned = asyncio.ensure_future(asyncio.to_thread(self._spawn, spec))
        try:
            return await asyncio.shield(spawned)
        except asyncio.CancelledError:
            # Not before the thread has ended: a caller that was cancelled looks for what it left running.
            await asyncio.wait([spawned])
            raise

    async def poll(self, handle: str) -> Running | Exited:
        if self._is_running(handle):
            return Running()
        child = self._children.get(handle)
        return Exited() if child is None else Exited(child.poll())

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Signal the whole process group; the worker's pid cannot be reused while a process of its group is left."""
        pid = _pid(handle)
        if pid is None or not (self._is_running(handle) or self._left_children(handle, pid)):
            self._forget(handle)
            return
        if grace_s > 0:
            _signal(pid, signal.SIGTERM)
            await self._wait_for_exit(handle, grace_s)
        while self._group_is_running(handle, pid):
            _signal(pid, signal.SIGKILL)
            await asyncio.sleep(_POLL_S)
        self._forget(handle)

    async def survey(self) -> Sequence[FoundWorker]:
        """Return the processes with this installation's marker; long logs are rotated on the way."""
        workers = await self._running()
        await asyncio.to_thread(self._rotate_logs, [each.session_id for each in workers])
        boot_ms = process_identity.boot_ms()
        return [each.found(boot_ms) for each in workers]

    def log_file(self, session_id: str) -> Path:
        """Return the path of a worker's log; the rotated part ends in `.1`."""
        return self._home / session_id / "log"

    def _root(self, session_id: str) -> Path:
        """Return the empty directory that becomes the root of a worker's mount view."""
        return self._home / session_id / "root"

    def _rotate_logs(self, session_ids: Sequence[str]) -> None:
        for session_id in session_ids:
            rotate_log(self.log_file(session_id), MAX_LOG_BYTES)

    async def _running(self) -> list[_Worker]:
        for worker in [each for each in self._workers.values() if each.process.has_exited()]:
            self._drop(worker)
        await asyncio.to_thread(self._identify_new, {each.process.pid for each in self._workers.values()})
        return list(self._workers.values())

    def _identify_new(self, known: Collection[int]) -> None:
        for pid in process_identity.pids():
            if pid in known:
                continue
            if process_identity.has_variable(pid, MARKER, str(self._home)) or self._owned_by(pid) is not None:
                self._identify(pid)

    def _owned_by(self, pid: int) -> str | None:
        """Return the session whose user runs this process; None where workers have no users of their own."""
        return None if self._users is None else self._users.session_of(process_identity.owner(pid))

    def _identify(self, pid: int) -> _Worker | None:
        """Remember the worker with this pid; None if it is not one of ours, or has exited."""
        start = process_identity.start_time(pid)
        environment = process_identity.environment(pid)
        if start is None or environment is None or not _is_leader(pid):
            return None
        # A worker can overwrite its own environment, to hide or to pretend to be another's; its user it cannot change.
        owned_by, marker = self._owned_by(pid), environment.get(MARKER)
        if marker != str(self._home) and (marker is not None or owned_by is None):
            return None
        session_id, epoch = owned_by or environment.get("SESSION_ID", ""), environment.get("EPOCH", "")
        if not session_id or not epoch.isdecimal():
            log.warning("worker.environment_overwritten", pid=pid, session=session_id)
            epoch = "0"  # older than any: it is stopped as a stray
        process = process_identity.hold(pid, start)
        if process is None:
            return None
        worker = _Worker(process, session_id, int(epoch))
        # Two threads may have found it at once: the first one's pidfd stays.
        if (kept := self._workers.setdefault(worker.handle, worker)) is not worker:
            process.close()
        return kept

    def _drop(self, worker: _Worker) -> None:
        del self._workers[worker.handle]
        worker.process.close()
        if (group := group_of(self._layers, self._root(worker.session_id))) is not None:
            remove_group(group)

    def _spawn(self, spec: WorkerSpec) -> str:
        place = private_directory(self._home / spec.session_id)
        secrets = write_secrets(place / "secrets", spec.secrets)
        # Compiled code is run unseen: one that was taken over must not leave any for the others.
        cache, root = private_directory(place / "cache"), private_directory(self._root(spec.session_id))
        private_directory(spec.auth_dir)
        user = self._users.assign(spec.session_id, spec.auth_dir) if self._users is not None else None
        owner = (user, user) if user is not None else (os.geteuid(), os.getegid())
        for tree in (place / "secrets", cache, spec.auth_dir):
            hand_over(tree, *owner)
        program = Path(self._command[-1])
        readable = [place / "secrets", *([program.resolve().parent] if program.is_file() else [])]
        reach = reach_of(spec, readable, (spec.auth_dir.absolute(), cache))
        command = launch_command(self._layers, self._command, reach, root=root, user=user)
        rotate_log(place / "log", MAX_LOG_BYTES)
        output = os.open(place / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            child = spawn(command, self._environment(spec, secrets, cache), place, output)
        finally:
            os.close(output)
        return self._register(child)

    def _register(self, child: subprocess.Popen[bytes]) -> str:
        start = process_identity.start_time(child.pid)
        if start is None:
            raise StartFailed(f"The worker exited immediately with code {child.wait()}. See its log.")
        handle = _handle(child.pid, start)
        self._children[handle] = child
        self._wait_until_found(child)
        return handle

    def _wait_until_found(self, child: subprocess.Popen[bytes]) -> None:
        """Wait until a survey can find the worker: its environment is readable a moment after it starts."""
        deadline = time.monotonic() + _FIND_TIMEOUT_S
        while child.poll() is None and time.monotonic() < deadline:
            if self._identify(child.pid) is not None:
                return
            time.sleep(_POLL_S / 10)

    def _environment(self, spec: WorkerSpec, secrets: Mapping[str, Path], cache: Path) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(spec.auth_dir.absolute()),
            "TZ": os.environ.get("TZ", ""),
            **ENVIRONMENT,
            **spec.environment,
            **{f"{name}_FILE": str(path) for name, path in secrets.items()},
            "SESSION_ID": spec.session_id,
            "EPOCH": str(spec.epoch),
            "AUTH_DIR": str(spec.auth_dir.absolute()),
            "CODE_CACHE_DIR": str(cache),
            MARKER: str(self._home),
        }

    def _left_children(self, handle: str, pid: int) -> bool:
        """Whether a worker that we started has exited and left children; its group id is then still its own."""
        exited = handle in self._children and process_identity.start_time(pid) is None
        return exited and self._group_is_running(handle, pid)

    def _group_is_running(self, handle: str, pid: int) -> bool:
        if (child := self._children.get(handle)) is not None:
            child.poll()  # our own zombie would count as a process of the group
        return process_identity.group_is_running(pid)

    def _is_running(self, handle: str) -> bool:
        """Whether the worker of this handle runs. One that is not remembered is identified by its start time."""
        if (worker := self._workers.get(handle)) is not None:
            return not worker.process.has_exited()
        pid = _pid(handle)
        return pid is not None and handle == _handle(pid, process_identity.start_time(pid))

    async def _wait_for_exit(self, handle: str, grace_s: float) -> None:
        pid, start = handle.split("/")[-2:]
        process = process_identity.hold(int(pid), int(start))
        if process is None:
            return
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            return
        finally:
            process.close()

    def _forget(self, handle: str) -> None:
        if (worker := self._workers.get(handle)) is not None:
            self._drop(worker)
        if (child := self._children.pop(handle, None)) is not None:
            child.poll()


def _handle(pid: int, start: int | None) -> str:
    return f"{NAME}/{pid}/{start}"


def _pid(handle: str) -> int | None:
    name, _, rest = handle.rpartition(f"{NAME}/")
    pid, _, start = rest.partition("/")
    return int(pid) if not name and handle.startswith(NAME) and pid.isdigit() and start.isdigit() else None


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
