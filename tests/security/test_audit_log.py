"""The audit log outlives Redis, names who did what, and shows that somebody meddled with it."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.orchestrator.fakes import ADMIN
from tests.security.fleet import MINE, TwoCustomers, two_customers
from wa_orchestrator import audit_log
from wa_orchestrator.domain.access import audit_chain
from wa_orchestrator.domain.access.audit_chain import BrokenChain, Damage, Intact, Link


@pytest.fixture
async def fleet(redis: Redis, tmp_path: Path) -> AsyncIterator[TwoCustomers]:
    made = await two_customers(redis, tmp_path)
    yield made
    await made.client.aclose()


async def _make_key(fleet: TwoCustomers, name: str = "CRM") -> None:
    answer = await fleet.client.post("/api/v1/keys", headers=ADMIN, json={"name": name, "scopes": ["read"]})
    assert answer.status_code == 201


async def test_an_entry_names_the_key_that_did_it(fleet: TwoCustomers) -> None:
    made = await fleet.client.post("/api/v1/keys", headers=ADMIN, json={"name": "Ops", "scopes": ["admin"]})
    await fleet.client.delete("/api/v1/keys/k_000000000000", headers={"X-API-Key": made.json()["key"]})
    own = {"X-API-Key": made.json()["key"]}
    await fleet.client.post(f"/api/sessions/{MINE}/stop", headers=own)
    newest = (await fleet.client.get("/api/v1/audit", headers=ADMIN)).json()["entries"][0]
    assert (newest["by"], newest["name"], newest["action"]) == (made.json()["id"], "Ops", "session.stop")


async def test_emptying_redis_leaves_the_log_as_it_is(fleet: TwoCustomers) -> None:
    await _make_key(fleet)
    await fleet.context.redis.flushall()
    await _make_key(fleet)
    answer = (await fleet.client.get("/api/v1/audit/verification", headers=ADMIN)).json()
    assert (answer["intact"], answer["entries"]) == (True, 2)


async def test_the_export_is_the_chain_and_is_itself_an_entry(fleet: TwoCustomers) -> None:
    await _make_key(fleet)
    answer = await fleet.client.get("/api/v1/audit/export", headers=ADMIN)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["action"] for each in lines] == ["key.make", "audit.export"]
    assert lines[1]["previous"] == lines[0]["hash"]


async def test_no_key_is_in_the_log(fleet: TwoCustomers) -> None:
    made = await fleet.client.post("/api/v1/keys", headers=ADMIN, json={"name": "CRM", "scopes": ["read"]})
    assert made.json()["key"] not in (fleet.context.settings.data_dir / audit_log.FILE_NAME).read_text("utf-8")


async def test_a_changed_line_and_a_cut_end_are_found(fleet: TwoCustomers) -> None:
    for name in ("one", "two", "three"):
        await _make_key(fleet, name)
    path = fleet.context.settings.data_dir / audit_log.FILE_NAME
    whole = path.read_text("utf-8")
    path.write_text(whole.replace("two", "TWO"), "utf-8")
    assert await audit_log.verify(fleet.context) == BrokenChain(2, Damage.CHANGED)
    path.write_text("".join(whole.splitlines(keepends=True)[:2]), "utf-8")
    found = await audit_log.verify(fleet.context)
    assert isinstance(found, audit_log.Cut)
    assert found.missing == 1
    shown = (await fleet.client.get("/api/v1/audit/verification", headers=ADMIN)).json()
    assert (shown["intact"], shown["damage"]) == (False, "CUT")


async def test_the_page_reads_what_is_new_and_every_line_once_an_hour(
    fleet: TwoCustomers, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    link_of = audit_chain.link_of

    def noted(line: str) -> Link | None:
        read.append(line)
        return link_of(line)

    monkeypatch.setattr(audit_chain, "link_of", noted)
    for name in ("one", "two", "three"):
        await _make_key(fleet, name)
    first = await audit_log.verify_new(fleet.context)
    assert isinstance(first, Intact)
    await _make_key(fleet, "four")
    read.clear()
    assert await audit_log.verify_new(fleet.context) == Intact(link_of(_lines(fleet)[-1]) or Link())
    assert [json.loads(line)["number"] for line in read] == [4]
    checked = fleet.context.audit_checked
    assert checked is not None
    fleet.context.audit_checked = replace(checked, whole_at_ms=checked.whole_at_ms - 3_600_001)
    read.clear()
    await audit_log.verify_new(fleet.context)
    assert len(read) == 4


async def test_the_page_sees_at_once_that_the_file_was_exchanged_cut_or_forged_at_its_end(fleet: TwoCustomers) -> None:
    for name in ("one", "two"):
        await _make_key(fleet, name)
    path = fleet.context.settings.data_dir / audit_log.FILE_NAME
    whole = path.read_text("utf-8")
    await audit_log.verify_new(fleet.context)
    path.write_text(whole + whole.splitlines(keepends=True)[1], "utf-8")
    assert await audit_log.verify_new(fleet.context) == BrokenChain(3, Damage.OUT_OF_ORDER)
    path.write_text(whole.splitlines(keepends=True)[0], "utf-8")
    assert isinstance(await audit_log.verify_new(fleet.context), audit_log.Cut)
    path.write_text(whole, "utf-8")
    await audit_log.verify_new(fleet.context)
    other = path.with_suffix(".other")
    other.write_text(whole.replace("one", "ONE"), "utf-8")
    other.replace(path)
    assert await audit_log.verify_new(fleet.context) == BrokenChain(1, Damage.CHANGED)


def _lines(fleet: TwoCustomers) -> list[str]:
    return (fleet.context.settings.data_dir / audit_log.FILE_NAME).read_text("utf-8").splitlines()


async def test_a_line_that_a_crash_tore_does_not_break_the_chain(fleet: TwoCustomers) -> None:
    await _make_key(fleet)
    path = fleet.context.settings.data_dir / audit_log.FILE_NAME
    with path.open("a", encoding="utf-8") as file:
        file.write('{"number": 2, "at"')
    await _make_key(fleet)
    found = await audit_log.verify(fleet.context)
    assert isinstance(found, Intact)
    assert found.last.number == 2


async def test_writers_at_the_same_moment_make_one_chain(fleet: TwoCustomers) -> None:
    records = [audit_log.record(fleet.context, "k_1", "", "session.stop", f"w{n}", big="x" * 50_000) for n in range(20)]
    await asyncio.gather(*records)
    found = await audit_log.verify(fleet.context)
    assert isinstance(found, Intact)
    assert found.last.number == 20
