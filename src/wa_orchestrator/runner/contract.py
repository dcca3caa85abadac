"""The contract between the control plane and whatever runs workers: four verbs and their promises.

A driver decides nothing. It never restarts a worker by itself: who runs, and with which epoch, is the server's
decision, and an engine's own restart would bring back a worker that WhatsApp has just thrown out.

Words: an *order* says what to run. A *handle* is a text by which a driver finds its worker again, also in another
process after a restart of the server; it begins with the driver's name and the version of its shape (`process/1/…`),
and a driver takes handles of every version it ever gave out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from wa_orchestrator.errors import Refused, Unavailable


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker to be run. `environment` may be seen by anybody on the machine; `secrets` by the worker only."""

    session_id: str
    epoch: int
    auth_dir: Path
    environment: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    """By variable name. They reach the worker as files that `NAME_FILE` names, never by command or environment."""


@dataclass(frozen=True, slots=True)
class Running:
    """It runs."""


@dataclass(frozen=True, slots=True)
class Exited:
    """It does not run (any more). `code` is how it ended, where that is known."""

    code: int | None = None


@dataclass(frozen=True, slots=True)
class FoundWorker:
    """A worker that runs, as a survey found it."""

    handle: str
    session_id: str
    epoch: int
    started_at_ms: int


class AlreadyRunning(Refused):
    """A worker of this session runs: stop it first."""

    def __init__(self, session_id: str) -> None:
        super().__init__("ALREADY_RUNS", f"A worker of {session_id} runs already; stop it first.", 409)


class StartFailed(Unavailable):
    """The worker did not come to life; the text says why. Waiting may help, or a person."""

    def __init__(self, text: str) -> None:
        super().__init__("WORKER_DID_NOT_START", text)


class Runner(Protocol):
    """A driver. All verbs may be called from several tasks at once; calls for one session come one after another."""

    async def start(self, order: WorkerSpec) -> str:
        """Run a worker and give its handle.

        When it returns, the worker's process runs and is not merely requested; it goes on when this server ends,
        however that ends. Raises `AlreadyRuns` when a worker of this session runs, of whatever epoch, and
        `CannotStart` when there is no process; then nothing is left behind that would run later.
        """
        ...

    async def poll(self, handle: str) -> Running | Exited:
        """Say whether a worker runs. Cheap: it is asked every second for every worker.

        A handle whose process number or name was taken over by something else has ended. A frozen worker runs.
        An unknown handle has ended; a handle of another driver too. Raises `Unavailable` only when the engine
        itself does not answer: that is no proof of an end.
        """
        ...

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """End a worker with everything it started. When it returns, nothing of it runs.

        It is asked first and ended by force after `grace_s`; 0 means by force at once. May be called again, and for
        what has ended or is unknown: then there is nothing to do.
        """
        ...

    async def survey(self) -> Sequence[FoundWorker]:
        """List every worker of this installation that runs, whoever started it. None is left out and none is dead."""
        ...
