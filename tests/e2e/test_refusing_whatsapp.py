"""A WhatsApp that does not answer, wants less or bans for a while: nothing is lost, used up, or called failed too early."""

import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

from tests.e2e.product import Product, product
from tests.waiting import until

SESSION, PHONE = "north", "972501100201"
#: The ack of an unconfirmed message comes when its three tries are over.
LATE_S = 45.0
_people = itertools.count(972524000000 + os.getpid() % 100 * 1000)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Product]:
    """The product with one linked session; a worker waits one second for an ack."""
    settings = {
        "TIME_SCALE": "20",
        "ACK_TIMEOUT_MS": "20000",
        "COLD_PER_DAY": "5000",
        "COLD_PER_MINUTE": "60",
        "COLD_HOURS": "00:00-00:00",
        "PING_TIMEOUT_MS": "2000000",
        "MONITOR_INTERVAL_MS": "2000",
    }
    async with product(proxies=1, **settings) as made:
        await made.link(SESSION, PHONE)
        yield made


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def calm(running: Product) -> AsyncIterator[None]:
    """No fault outlives its test."""
    yield
    await running.control.delete("/faults")


async def fault(running: Product, kind: str, **more: Any) -> None:
    body = {"target": {"phone": PHONE}, "kind": kind, **more}
    (await running.control.post("/faults", json=body)).raise_for_status()


async def send(running: Product, person: str, text: str = "We open at nine.") -> dict[str, Any]:
    body = {"to": person, "sessionId": SESSION, "message": text}
    accepted: dict[str, Any] = (await running.door.post("/api/v1/send", json=body)).raise_for_status().json()
    return accepted


async def has_status(running: Product, message: str, *statuses: str) -> dict[str, Any] | None:
    told: dict[str, Any] = (await running.door.get(f"/api/v1/messages/{message}")).raise_for_status().json()
    return told if told["status"] in statuses else None


async def events(running: Product, kind: str) -> list[dict[str, str]]:
    written: Any = await running.redis.xrange("events")
    return [fields for _, fields in written if fields["type"] == kind]


async def test_three_tries_without_an_answer_end_as_unknown_and_a_late_ack_settles_it(running: Product) -> None:
    person = str(next(_people))
    await fault(running, "no_receipts")
    await fault(running, "ack_delay", seconds=LATE_S)
    message = str((await send(running, person))["messageId"])
    told = await until(lambda: has_status(running, message, "unknown", "failed", "sent"), "its tries are over")
    assert (told["status"], told["attempts"]) == ("unknown", 3)
    tries = [each for each in await running.arrivals() if each["to"] == person]
    assert len({each["id"] for each in tries}) == 1, "every try has the same WhatsApp id"
    assert (await send(running, person, "Are you there?"))["warning"] == "EARLIER_UNCONFIRMED"
    await until(lambda: has_status(running, message, "sent"), "the late ack settles it")


@pytest.mark.parametrize("code", [httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE])
async def test_when_whatsapp_wants_less_the_phone_slows_down_and_no_attempt_is_used_up(
    running: Product, code: int
) -> None:
    before, alerts = len(await refusals(running)), len(await events(running, "session.slowed_down"))
    await fault(running, "ack_error", code=code)
    messages = [str((await send(running, str(next(_people))))["messageId"]) for _ in range(4)]

    async def refused_often() -> list[float] | None:
        times = [each["at"] for each in (await refusals(running))[before:]]
        return times if len(times) > 4 else None

    times = await until(refused_often, "more refusals than a message has attempts")
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps[3] > 2 * gaps[0], "the pauses of the phone grow"
    assert len(await events(running, "session.slowed_down")) == alerts + 1, "one alert"
    (await running.control.delete("/faults")).raise_for_status()
    for message in messages:
        told = await until(lambda message=message: has_status(running, message, "sent", "delivered", "failed"), "sent")  # type: ignore[misc]
        assert told["status"] != "failed"


async def refusals(running: Product) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await running.control.get("/refusals")).raise_for_status().json()
    return found


async def test_a_suspended_account_is_online_again_by_itself_and_sends_what_waited(running: Product) -> None:
    await fault(running, "temporary_ban", seconds=20)

    async def suspended() -> bool:
        told = (await running.api.get(f"/api/sessions/{SESSION}")).raise_for_status().json()
        return bool(told["reason"] == "TEMPORARY_BAN" and told["banEndsAt"])

    await until(suspended, "the session rests until the ban ends")
    message = str((await send(running, str(next(_people))))["messageId"])
    await until(lambda: running.is_connected(SESSION), "it is connected, and nobody pressed Start")
    await until(lambda: has_status(running, message, "sent", "delivered"), "what waited is sent")
    assert any(fields.get("what") == "BAN_ENDED" for fields in await events(running, "session.pending"))


async def test_no_secret_is_in_a_command_line_a_log_a_metric_or_an_event_after_all_that(running: Product) -> None:
    env = running.parts["orchestrator"].env
    kept: dict[str, str] = json.loads((running.home / "data" / "secrets.json").read_text())
    urls = [value for name, value in env.items() if name.startswith("PROXY_URL_")]
    secrets = [running.key, env["WEBHOOK_SECRET"], env["DASHBOARD_PASSWORD"], kept["auth_key"]]
    secrets += [str(urlsplit(url).password) for url in urls]
    assert all(len(each) > 5 for each in secrets)
    lines = _command_lines()
    assert str(running.home / "redis.sock") in "".join(lines.values()), "the list has the processes of this product"
    assert lines.keys() & set(running.worker_pids().values()), "and its workers"
    said = {
        "processes": "\n".join(lines.values()),
        "metrics": (await running.api.get("/metrics")).text,
        "events": json.dumps(await running.redis.xrange("events")),
        **{name: part.log.read_text() for name, part in running.parts.items() if name not in ("redis", "simulator")},
    }
    assert {where for where, text in said.items() for each in secrets if each in text} == set()
    assert len(said["orchestrator"]) > 1000
    assert "wa_messages_total" in said["metrics"]


def _command_lines() -> dict[int, str]:
    """What the process list of this machine shows, by process."""
    found = {}
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            found[int(place.parent.name)] = place.read_bytes().decode(errors="replace")
    return found
