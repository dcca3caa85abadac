"""A cluster of the developer's own in place of the stand-in: `KUBECONFIG=… pytest tests/runner/test_contract.py -k kubernetes`.

Workers there see no files of this machine, so what they say to a test is carried to and fro by `kubectl exec`. Their image
needs nothing but a shell; `KUBERNETES_TEST_IMAGE` names another one than busybox. Objects are made in the namespace of the
kubeconfig's context, and are gone afterwards.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.contract import Runner
from wa_orchestrator.runner.kubernetes import objects

IMAGE = os.environ.get("KUBERNETES_TEST_IMAGE", "busybox")
#: What a worker writes into its directory, and what a test does.
SAID, TOLD = ("token", "ready"), "end"
_LOOK_S = 0.2

#: Runs a line of shell in the container of a Pod and returns what it prints; None if that is not possible now.
Execute = Callable[[str, str], Awaitable[str | None]]


def chosen() -> Path | None:
    """The developer's cluster, if there is one."""
    written = os.environ.get("KUBECONFIG", "")
    return Path(written) if written else None


async def kubectl(pod: str, line: str) -> str | None:
    """Execute by the program that whoever has a cluster has."""
    command = ("kubectl", "exec", pod, "--", "sh", "-c", line)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    said, _ = await process.communicate()
    return said.decode() if process.returncode == 0 else None


@asynccontextmanager
async def carried(runner: Runner, cluster: str, sessions: Path, execute: Execute = kubectl) -> AsyncIterator[None]:
    """Carry files between the directories of workers and those of their sessions here, while the block runs."""
    ended = asyncio.Event()
    carrying = asyncio.create_task(_carry(runner, cluster, sessions, execute, ended))
    try:
        yield
    finally:
        ended.set()
        await carrying


async def _carry(runner: Runner, cluster: str, sessions: Path, execute: Execute, ended: asyncio.Event) -> None:
    while not ended.is_set():
        with contextlib.suppress(Unavailable):
            for found in await runner.survey():
                await _exchange(objects.pod_name(cluster, found.session_id), sessions / found.session_id, execute)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _LOOK_S)


async def _exchange(pod: str, here: Path, execute: Execute) -> None:
    if _is_told(here):
        await execute(pod, f'touch "$AUTH_DIR/{TOLD}"')
    for name in SAID:
        if (text := await execute(pod, f'cat "$AUTH_DIR/{name}"')) is not None:
            _write(here / name, text)


def _is_told(here: Path) -> bool:
    return (here / TOLD).exists()


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}")
    draft.write_text(text)
    draft.rename(file)  # whoever sees it reads all of it
