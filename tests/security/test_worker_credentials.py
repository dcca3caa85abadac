"""CREDENTIALS=server: a hijacked worker reaches only what its session has stored, and cannot fill the server with it."""

import httpx
import pytest

from tests.orchestrator.session_steps import now
from tests.orchestrator.test_stored_credentials import SEALED, headers, worker_of, workers
from wa_orchestrator.orchestrator.api.workers import credentials
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import keys
from wa_orchestrator.store.sessions import stored_credentials

__all__ = ["workers"]
CALLS = [("GET", ""), ("POST", "/copy/9"), ("POST", "/changes/2")]


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_another_session_and_an_older_epoch_neither_read_nor_write(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient, method: str, path: str
) -> None:
    own, thief = await worker_of(control, api), await worker_of(control, api, "b")
    await workers.post("/a/credentials/copy/1", headers=own, content=SEALED)
    stored = await stored_credentials.read(control.context.scripts, "a")
    epoch = (await now(control.context, "a")).epoch
    await control.context.redis.hincrby(keys.session("a"), "epoch", 1)  # another worker runs it now
    old = headers(control.context, "a", epoch)
    for who, expected in ((thief, (403, "OTHER_SESSION")), (old, (409, "FENCED")), ({}, (401, "WORKER_TOKEN_WRONG"))):
        answer = await workers.request(method, f"/a/credentials{path}", headers=who, content=SEALED)
        assert (answer.status_code, answer.json()["error"]["code"]) == expected
    assert await stored_credentials.read(control.context.scripts, "a") == stored


async def test_copies_are_counted_before_they_are_read(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker sent 32 MB as often as it liked: each time Redis wrote them to its journal."""
    monkeypatch.setattr(credentials, "MAX_COPY_BYTES", 1_000)
    monkeypatch.setattr(credentials, "MAX_COPY_BYTES_PER_MINUTE", 2_000)
    own, other = await worker_of(control, api), await worker_of(control, api, "b")
    copy = SEALED.ljust(1_000)
    told = [
        (await workers.post(f"/a/credentials/copy/{number}", headers=own, content=copy)).status_code
        for number in range(1, 5)
    ]
    assert told == [204, 204, 429, 429], "429: it sends the copy later"
    assert (await workers.post("/b/credentials/copy/1", headers=other, content=copy)).status_code == 204


async def test_changes_that_are_longer_than_a_copy_need_a_copy(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five thousand changes of 4 MB would have been 20 GB of Redis, for one session."""
    monkeypatch.setattr(stored_credentials, "MOST_CHANGE_BYTES", 3_000)
    own = await worker_of(control, api)
    change, copied = SEALED.ljust(1_000), 0
    for copied in (1, 6):
        assert (await workers.post(f"/a/credentials/copy/{copied}", headers=own, content=SEALED)).status_code == 204
        told = [
            (await workers.post(f"/a/credentials/changes/{number}", headers=own, content=change)).status_code
            for number in range(copied + 1, copied + 5)
        ]
        assert told == [204, 204, 204, 409]
    stored = await stored_credentials.read(control.context.scripts, "a")
    assert stored is not None
    assert (stored.first, len(stored.changes)) == (copied, 3)
