"""The runner contract: four methods that a driver implements, and what each guarantees when it returns.

A driver of an engine with several nodes implements `PlacingRunner` too: sessions can be moved and nodes drained then.

To write a driver, implement `Runner` (see `process.py` for the smallest one), pass the suite in
`tests/runner/test_contract.py`, and add the driver to `factory.py`.

A driver decides nothing. It never restarts a worker by itself: which workers run, and with which epoch, is the
control plane's decision, and a restart by the engine would bring back a worker that WhatsApp has just logged out.

A *spec* describes the worker to run. A *handle* is a string with which the driver finds that worker again, also in
another process after a restart of the server. It begins with the driver's name and the version of the handle format
(`process/1/…`), and ends with `@<node>` where the engine has several; a driver accepts handles of every version it
ever returned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.domain.workers.nodes import WorkerNode
from wa_orchestrator.errors import Refused, Unavailable


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker to run.

    The driver sets `SESSION_ID`, `EPOCH` and `AUTH_DIR` in the worker's environment, in addition to `environment`.
    """

    session_id: str
    epoch: int
    """The session's fencing number. `survey` must be able to return it later."""
    auth_dir: Path
    """Credentials on the server's disk; the worker reads and writes them. The driver creates the directory.

    Where workers run on other machines they have an empty directory instead, which ends with them: they bring their
    credentials from the server and back.
    """
    environment: Mapping[str, str]
    """May be visible to other users of the machine."""
    secrets: Mapping[str, str] = field(repr=False)
    """By variable name. Each becomes a file that only the worker can read; the variable `<NAME>_FILE` holds its path.
    Secrets never appear in the command line or in the environment.
    """
    node: str = ""
    """Where to run it; '' leaves that to the engine. Drivers of one machine ignore it."""


@dataclass(frozen=True, slots=True)
class Running:
    """The worker runs. A frozen (paused, stopped) worker runs, too."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The worker does not run. `code` is its exit code, if known."""

    code: int | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker's node does not answer. The worker may still run, so it must be fenced before another one starts.

    Only engines with several nodes lose one. An engine that does not answer at all is `Unavailable`.
    """


class AlreadyRunning(Refused):
    """A worker of this session runs; it must be stopped first."""

    def __init__(self, session_id: str) -> None:
        super().__init__("ALREADY_RUNS", f"A worker of {session_id} is already running; stop it first.", 409)


class StartFailed(Unavailable):
    """The worker did not start; the text says why. It may start later, or somebody has to fix the cause."""

    def __init__(self, text: str) -> None:
        super().__init__("WORKER_DID_NOT_START", text)


class NoNodeForWorker(Unavailable):
    """The engine answers, and no node takes the worker. This does not count as a failure of the session."""

    def __init__(self, text: str) -> None:
        super().__init__("NO_NODE_FOR_WORKER", text)


class LostAtStart(NoNodeForWorker):
    """The node that was to run the worker does not answer. The worker may run there, so it must be fenced, too."""


class Runner(Protocol):
    """A driver. Methods are called from several tasks at once, but never concurrently for one session.

    Every method raises `Unavailable` if the engine (Docker, Kubernetes, …) does not respond; the caller retries.
    """

    async def start(self, spec: WorkerSpec) -> str:
        """Start a worker and return its handle.

        When it returns, the worker's process runs and is not merely requested. The worker keeps running when this
        server ends, however it ends. Raises `AlreadyRunning` if a worker of this session runs, whatever its epoch, and
        `StartFailed` if there is no process; then nothing is left behind that would start later. Of several nodes it
        raises `NoNodeForWorker` if none takes the worker, and `LostAtStart` if the one that took it is lost since.
        """
        ...

    async def poll(self, handle: str) -> Running | Exited | Lost:
        """Return whether a worker runs. Must be cheap: it is called about once a second for every worker.

        A handle whose process id or name now belongs to something else is `Exited`; so are unknown handles and
        handles of other drivers. `Unavailable` is raised only if the engine does not respond, and proves no exit.
        """
        ...

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Stop a worker with everything it started. When it returns, nothing of it runs.

        The worker is asked to end (SIGTERM) and killed after `grace_s`; 0 kills it at once. Engines that fix the grace
        period at the start use that one. May be called repeatedly and for handles that are unknown or have exited: then
        it does nothing.

        Of a lost worker it returns without proof: the engine ends it when its node is back.
        """
        ...

    async def survey(self) -> Sequence[FoundWorker]:
        """Return every running worker of this installation, whichever process started it, and only live ones.

        Lost workers are among them, with `is_lost`: nobody knows that they ended.
        """
        ...


@runtime_checkable
class PlacingRunner(Protocol):
    """The optional fifth ability of a driver: its engine has several nodes, and `WorkerSpec.node` chooses one.

    Every method raises `Unavailable` if the engine does not respond. `node` is a name that `nodes` has returned; for
    one that is gone since nothing happens.
    """

    async def nodes(self) -> Sequence[WorkerNode]:
        """Return the nodes that may have workers, each ready, closed or lost."""
        ...

    async def close_node(self, node: str) -> None:
        """Let a node get no new worker. When it returns, the engine places none there; those that it has run on."""
        ...

    async def vacate_node(self, node: str) -> None:
        """Let what else the driver has on a closed node without workers leave it, such as relays."""
        ...

    async def open_node(self, node: str) -> None:
        """Let a node get workers again. When it returns, the engine may place them there."""
        ...
