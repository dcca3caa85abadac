"""CREDENTIALS=server: the server's side of credentials that follow their worker, and the whole product with it."""

import shutil
import signal
import sqlite3
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import drive
from tests.orchestrator.product import Product, running_product
from tests.orchestrator.session_steps import delete, now, started
from tests.waiting import promised
from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.api.workers.credentials import MAX_CHANGE_BYTES, WorkerCredentialRoutes
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store import keys
from wa_orchestrator.web.app import make_worker_app

SEALED = b"\x01\xff\xfe sealed"


@pytest.fixture
async def workers(control: Orchestrator) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the workers' listener."""
    app = make_worker_app(control.context, [WorkerCredentialRoutes(control.context)], {})
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server/api/worker/sessions") as made:
        yield made


def headers(context: Context, session_id: str, epoch: int) -> dict[str, str]:
    token = tokens.mint(context.settings, session_id, epoch).token
    return {"Authorization": f"Bearer {token}", "X-Epoch": str(epoch)}


async def worker_of(control: Orchestrator, api: httpx.AsyncClient, session_id: str = "a") -> dict[str, str]:
    """Provision a session and start its worker; returns that worker's headers."""
    session = await started(control, api, session_id)
    return headers(control.context, session_id, session.epoch)


def parts(body: bytes) -> list[bytes]:
    found = []
    while body:
        (length,) = struct.unpack(">I", body[:4])
        found.append(body[4 : 4 + length])
        body = body[4 + length :]
    return found


async def test_a_worker_gets_back_what_it_stored_in_its_order(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient
) -> None:
    own = await worker_of(control, api)
    assert (await workers.get("/a/credentials", headers=own)).status_code == 204
    assert (await workers.post("/a/credentials/copy/1", headers=own, content=SEALED)).status_code == 204
    for number in (2, 3, 3):
        body = SEALED + bytes([number])
        answer = await workers.post(f"/a/credentials/changes/{number}", headers=own, content=body)
        assert answer.status_code == 204
    found = await workers.get("/a/credentials", headers=own)
    assert parts(found.content) == [SEALED, SEALED + b"\x02", SEALED + b"\x03"]
    assert (found.headers["x-epoch"], found.headers["x-first"]) == (own["X-Epoch"], "1")
    known = await workers.get("/a/credentials", headers=own, params={"known": own["X-Epoch"]})
    assert known.status_code == 204
    left_behind = await workers.get("/a/credentials", headers=own, params={"known": "0"})
    assert left_behind.content == found.content


async def test_a_change_without_the_one_before_it_asks_for_a_copy(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient
) -> None:
    own = await worker_of(control, api)
    answer = await workers.post("/a/credentials/changes/7", headers=own, content=SEALED)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "COPY_NEEDED")


async def test_an_older_worker_neither_reads_nor_writes_credentials(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient
) -> None:
    old = await worker_of(control, api)
    await workers.post("/a/credentials/copy/1", headers=old, content=SEALED)
    await control.context.scripts.redis.hincrby(keys.session("a"), "epoch", 1)
    answers = [
        await workers.get("/a/credentials", headers=old),
        await workers.post("/a/credentials/copy/2", headers=old, content=SEALED),
        await workers.post("/a/credentials/changes/2", headers=old, content=SEALED),
    ]
    assert [(each.status_code, each.json()["error"]["code"]) for each in answers] == [(409, "FENCED")] * 3


async def test_nobody_else_reads_or_writes_them(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient
) -> None:
    await worker_of(control, api)
    other = await worker_of(control, api, "b")
    for given, status in ((other, 403), ({"Authorization": "Bearer wwt_a.1.forged"}, 401), ({}, 401)):
        assert (await workers.get("/a/credentials", headers=given)).status_code == status
        assert (await workers.post("/a/credentials/copy/1", headers=given, content=SEALED)).status_code == status
        assert (await workers.post("/a/credentials/changes/1", headers=given, content=SEALED)).status_code == status


async def test_what_is_not_sealed_or_too_long_is_not_stored(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient
) -> None:
    own = await worker_of(control, api)
    plain = await workers.post("/a/credentials/copy/1", headers=own, content=b"\x00SQLite format 3")
    assert (plain.status_code, plain.json()["error"]["code"]) == (422, "NOT_SEALED")
    long = await workers.post("/a/credentials/changes/2", headers=own, content=bytes(MAX_CHANGE_BYTES + 1))
    assert long.status_code == 413
    assert (await workers.get("/a/credentials", headers=own)).status_code == 204


async def test_the_trash_gets_the_servers_copy_of_a_session_that_last_ran_elsewhere_and_gives_it_back(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient
) -> None:
    own = await worker_of(control, api)
    await workers.post("/a/credentials/copy/1", headers=own, content=SEALED)
    await workers.post("/a/credentials/changes/2", headers=own, content=SEALED + b"2")
    await delete(control, api, "a")
    assert not await control.context.redis.exists(keys.credentials("a"))
    (kept,) = (await api.get("/api/v1/trash")).json()["trash"]
    assert kept["sessionId"] == "a"
    assert (await api.post(f"/api/v1/trash/{kept['id']}/restore")).is_success
    await drive(control)
    again = headers(control.context, "a", (await now(control.context, "a")).epoch)
    found = await workers.get("/a/credentials", headers=again)
    assert parts(found.content) == [SEALED, SEALED + b"2"]
    assert (found.headers["x-epoch"], found.headers["x-first"]) == (own["X-Epoch"], "1")
    assert not list(control.context.settings.sessions_dir.glob("a/*"))


async def test_a_directory_that_has_everything_goes_to_the_trash_alone(
    control: Orchestrator, api: httpx.AsyncClient, workers: httpx.AsyncClient
) -> None:
    own = await worker_of(control, api)
    await workers.post("/a/credentials/copy/1", headers=own, content=SEALED)
    directory = control.context.settings.sessions_dir / "a"
    directory.mkdir(parents=True)
    with sqlite3.connect(directory / credential_files.DATABASE) as database:
        database.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY)")
        database.execute("INSERT INTO meta VALUES ('epoch', ?)", (int(own["X-Epoch"]),))
    database.close()
    await delete(control, api, "a")
    (kept,) = credential_files.list_trash(control.context.settings)
    assert await credential_files.trashed_copy(control.context.settings, kept.id) is None


ANY_TIME = {"cold_hours": "00:00-00:00"}
#: Of a product that is sixty times as fast as life: a minute and half a minute, also on a busy machine.
UNHURRIED = {"time_scale": 60, "ping_timeout_ms": 3_600_000, "lease_ms": 3_600_000, "ack_timeout_ms": 1_800_000}

# -- the whole product --------------------------------------------------------------------------------------------


def send(product: Product, *texts: str) -> list[str]:
    made = []
    for text in texts:
        body = {"to": "972521234567", "message": text, "sessionId": "a"}
        made.append(product.api.post("/api/v1/send", json=body).json()["messageId"])
    return made


def all_sent(product: Product, messages: list[str]) -> bool:
    found = [product.api.get(f"/api/v1/messages/{each}").json() for each in messages]
    return all(each["status"] in {"sent", "delivered", "read"} for each in found)


def seen_by(product: Product, phone: str) -> list[dict[str, Any]]:
    inbox = product.world.get(f"/phones/{phone}/inbox").json()
    return [each for each in inbox if not each["fromMe"]]


def stop(product: Product) -> None:
    product.api.post("/api/sessions/a/stop")
    product.until(lambda: not product.workers(), "the worker to end", promised(30))


def start(product: Product) -> None:
    product.api.post("/api/sessions/a/start")
    product.until(lambda: product.connected("a"), "the session to be connected", promised(30))


def test_a_session_survives_the_loss_of_its_directory_and_kills_of_the_server(tmp_path: Path) -> None:
    with running_product(tmp_path, proxies=1, credentials="server", **UNHURRIED, **ANY_TIME) as product:
        product.link("a")
        directory = tmp_path / "data" / "sessions" / "a"
        messages = send(product, "one", "two")
        product.until(lambda: all_sent(product, messages), "two to be sent", promised(60))
        stop(product)
        shutil.rmtree(directory)
        start(product)
        messages += send(product, "three", "four", "five")
        product.end(signal.SIGKILL)  # changes of the worker are under way
        product.start()
        product.until(lambda: all_sent(product, messages), "all to be sent", promised(120))
        stop(product)
        shutil.rmtree(directory)
        start(product)
        messages += send(product, "six")
        product.until(lambda: all_sent(product, messages), "six to be sent", promised(60))
        product.until(lambda: len(seen_by(product, "972521234567")) == 6, "all to be readable", promised(30))
        assert [each["text"] for each in seen_by(product, "972521234567")] == [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
        ]
