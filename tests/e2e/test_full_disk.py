"""The disk under the credentials is full: the worker ends instead of pinging for ever, and is replaced."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product
from tests.small_disk import fill, small_disk
from tests.waiting import until

SESSION, PHONE = "north", "972501100401"
PERSON = "972525550101"
SETTINGS = {
    "TIME_SCALE": "20",
    "COLD_HOURS": "00:00-00:00",
    "COLD_PER_MINUTE": "60",
    # Starts are slow here, so that the disk has room again before three restarts are used up.
    "PROVISIONING_INTERVAL_MS": "5000",
}

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]


@pytest.fixture
def home() -> Iterator[Path]:
    """The home of a product whose sessions lie on a disk of four megabytes."""
    place = Path(tempfile.mkdtemp(prefix="wao-e2e-"))
    with small_disk(place / "data" / "sessions", megabytes=4):
        yield place
    shutil.rmtree(place, ignore_errors=True)


async def test_a_worker_on_a_full_disk_ends_and_its_successor_sends_what_waited(home: Path) -> None:
    async with Product(home, proxies=1, settings=SETTINGS) as running:
        await running.link(SESSION, PHONE)
        sick = running.worker_pids()[SESSION]
        ballast = fill(home / "data" / "sessions")
        body = {"to": PERSON, "sessionId": SESSION, "message": "Waits for room."}
        message = (await running.door.post("/api/v1/send", json=body)).raise_for_status().json()["messageId"]
        await until(lambda: not Path(f"/proc/{sick}").exists(), "the worker that cannot store anything has ended")
        ballast.unlink()
        await until(lambda: running.worker_pids().get(SESSION, sick) != sick, "it is replaced")
        told = await until(lambda: _sent(running, str(message)), "its message is sent")
        assert told["status"] in ("sent", "delivered")
        shown = [each for each in await running.arrivals() if each["to"] == PERSON and not each["repeat"]]
        assert len(shown) == 1


async def _sent(running: Product, message: str) -> dict[str, Any] | None:
    told: dict[str, Any] = (await running.door.get(f"/api/v1/messages/{message}")).raise_for_status().json()
    return told if told["status"] in ("sent", "delivered", "failed", "unknown") else None
