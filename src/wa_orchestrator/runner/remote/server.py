"""Serves a driver over a Unix socket. Callers are not trusted with more than the contract: see `_spec`."""

import asyncio
import json
import os
import re
import socket as sockets
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from wa_orchestrator.errors import OrchestratorError, Unavailable
from wa_orchestrator.runner.contract import Runner, WorkerSpec
from wa_orchestrator.runner.remote import protocol

#: What a worker may be told. Not NODE_OPTIONS or LD_PRELOAD, which would run other code than the worker's.
ENVIRONMENT_NAMES = frozenset(
    {
        "WEBHOOK_URL", "OUTBOX_URL", "ENABLE_KEEP_ALIVE", "PRESENCE", "DEVICE_NAME", "LOG_LEVEL", "ORPHAN_TIMEOUT_MS",
        "PING_INTERVAL_MS", "TYPING_MAX_MS", "ACK_TIMEOUT_MS", "WHATSAPP_REVISION", "PASSKEY_LINKING",
        "PASSKEY_PHONE_MS", "REJECT_CALLS", "NODE_EXTRA_CA_CERTS", "CREDENTIALS", "FENCE_MS",
        "LINK_HISTORY",
    }
)  # fmt: skip
_SECRET_NAME = re.compile(r"[A-Z][A-Z_]{0,63}")
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_QUESTION_S = 10.0
#: Parallel stops at the end: an engine takes them one after another anyway.
_STOPS = 8

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AllowedFiles:
    """What of the disk a caller can have mounted into a worker."""

    sessions_dir: Path
    authorities_dir: Path
    """Where a file for `NODE_EXTRA_CA_CERTS` may lie: the simulator's."""
    names: Collection[str] = ENVIRONMENT_NAMES


class RunnerServer:
    """One driver, for everybody who may open the socket."""

    def __init__(self, runner: Runner, allowed: AllowedFiles) -> None:
        self._runner = runner
        self._allowed = allowed
        self._is_ending = False

    @asynccontextmanager
    async def serving(self, socket: Path) -> AsyncIterator[None]:
        """Serve while the block runs. The group of the socket's directory may open it: who prepares that decides."""
        with _listening(socket) as bound:
            server = await asyncio.start_unix_server(self._serve, sock=bound, limit=protocol.MAX_QUESTION_BYTES)
            try:
                yield
            finally:
                server.close()

    async def end(self) -> int:
        """Stop all workers and start no further ones. Returns how many there were."""
        self._is_ending = True
        slots = asyncio.Semaphore(_STOPS)

        async def stop(handle: str) -> None:
            async with slots:
                await self._runner.stop(handle)

        found = await self._runner.survey()
        await asyncio.gather(*(stop(each.handle) for each in found))
        log.info("runner.ended", workers=len(found))
        return len(found)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_QUESTION_S):
                asked = await reader.readline()
            if not asked:
                return  # a health check, which wants to know no more than that somebody is here
            writer.write(protocol.line(await self._answer(asked)))
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # who asks so slowly, so much or goes away gets no answer
        finally:
            writer.close()

    async def _answer(self, asked: bytes) -> dict[str, Any]:
        question: Any = None
        try:
            question = json.loads(asked)
            return await self._obey(question)
        except OrchestratorError as error:
            return protocol.error_answer(error, str(question["session"]) if "session" in question else "")
        except Exception as error:
            log.error("runner.failed", exc_info=error)
            return protocol.error_answer(error, "")

    async def _obey(self, question: Mapping[str, Any]) -> dict[str, Any]:
        match question:
            case {"verb": "start" | "survey"} if self._is_ending:
                # Not that there are none: the control plane would take them for dead and replace them.
                raise Unavailable("RUNNER_ENDED", "All workers were ended; start the runner again to have new ones.")
            case {"verb": "start"}:
                return {"handle": await self._runner.start(self._spec(question))}
            case {"verb": "stop", "handle": str(handle), "grace_s": int() | float() as grace_s}:
                await self._runner.stop(handle, grace_s)
                return {}
            case {"verb": "survey"}:
                return {"workers": [protocol.found_answer(each) for each in await self._runner.survey()]}
            case {"verb": "end"}:
                return {"ended": await self.end()}
            case _:
                raise protocol.refused("unknown verb")

    def _spec(self, question: Mapping[str, Any]) -> WorkerSpec:
        """Return the spec of a question; refuse what would reach beyond the worker of one session."""
        session_id, environment, secrets = question["session"], question["environment"], question["secrets"]
        if not _SESSION_ID.fullmatch(session_id):
            raise protocol.refused("not a session id")
        if unknown := set(environment) - set(self._allowed.names):
            raise protocol.refused(f"workers are not told {', '.join(sorted(unknown))}")
        if not all(map(_SECRET_NAME.fullmatch, secrets)):
            raise protocol.refused("not the name of a secret")
        auth_dir = self._allowed.sessions_dir / session_id
        # The engine follows links on its own machine, wherever they lead.
        if auth_dir.is_symlink():
            raise protocol.refused(f"{auth_dir} is a link")
        if authorities := environment.get("NODE_EXTRA_CA_CERTS"):
            self._check_authorities(Path(authorities))
        texts = {name: str(value) for name, value in environment.items()}
        return WorkerSpec(session_id, int(question["epoch"]), auth_dir, texts, {k: str(v) for k, v in secrets.items()})

    def _check_authorities(self, path: Path) -> None:
        if path.resolve() != path or not path.is_relative_to(self._allowed.authorities_dir) or not path.is_file():
            raise protocol.refused("NODE_EXTRA_CA_CERTS must be a file of the simulator")


@contextmanager
def _listening(path: Path) -> Iterator[sockets.socket]:
    """Bind the socket under another name and rename it: nobody finds it with other rights than it shall have."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with sockets.socket(sockets.AF_UNIX) as bound:
        bound.bind(str(draft))
        draft.chmod(0o600)
        os.chown(draft, -1, path.parent.stat().st_gid)
        draft.chmod(0o660)
        bound.listen(128)
        draft.replace(path)  # and with it the socket of a runner before us, which outlives its process
        yield bound
