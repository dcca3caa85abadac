"""A fleet of forty through restarts, outages of our own and blips: exits change only where a proxy is really dead.

`LONG_RUN=full` lets an hour pass instead of minutes.
"""

import asyncio
import os
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.orchestrator.fakes import API_KEY
from tests.orchestrator.long_run import (
    GIVEN,
    PHONES,
    PROXIES,
    SESSIONS,
    TICK_S,
    UNLINKED,
    URLS,
    Fault,
    Kind,
    Server,
    World,
    broken_laws,
)
from wa_orchestrator.domain.proxies.proxy_health import Patience
from wa_orchestrator.domain.sessions.session import Reason
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.orchestrator.notifications.alert_texts import alert_of, text_of
from wa_orchestrator.orchestrator.proxies import health
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.events import event_stream

FULL = os.environ.get("LONG_RUN") == "full"
MINUTE_S = 60
LENGTH_S = 60 * MINUTE_S if FULL else 8 * MINUTE_S
#: When everything is well again, so long until everybody is connected.
AFTERWARDS_S = 4 * MINUTE_S
SEED = 11
#: Which fault makes a reason true, and what the alert says then.
TRUE_REASONS = {
    ProxyReason.CHECK_FAILED: ((Kind.DEAD,), "failed two of our checks in a row"),
    ProxyReason.STRUCK_OUT: ((Kind.MUTE,), "passed our checks, but sessions could not connect through it"),
    ProxyReason.PROXY_FAILED: ((Kind.DEAD, Kind.MUTE), ""),
}


def plan(random: Random) -> list[Fault]:
    """Three proxies that are really lost, a given one among them, and many faults that say nothing about a proxy."""
    dead, mute, *others = random.sample(PROXIES, len(PROXIES))
    lost_from = LENGTH_S * 5 // 8
    faults = [Fault(Kind.DEAD, lost_from, LENGTH_S, dead), Fault(Kind.MUTE, lost_from - 90, LENGTH_S, mute)]
    faults += [Fault(Kind.BLIP, 20, 28, GIVEN), Fault(Kind.DEAD, lost_from + 30, LENGTH_S, GIVEN)]
    repeats = 5 if FULL else 1
    part_s = lost_from // repeats
    for start in range(0, lost_from - part_s + 1, part_s):
        at = start + part_s // 10
        faults.append(Fault(Kind.UPLINK, at, at + random.randrange(20, part_s // 5)))
        kind = random.choice([Kind.RESTART, Kind.KILL])
        faults.append(Fault(kind, start + part_s // 2, start + part_s // 2 + random.randrange(4, 40)))
        again = start + part_s // 2 + 10  # the uplink flaps while the server is away, and once more
        faults += [Fault(Kind.UPLINK, again, again + 30), Fault(Kind.UPLINK, again + 60, again + 90)]
    for start in range(0, LENGTH_S, MINUTE_S):  # never two of one proxy in a row: that would be a proxy that is lost
        at, url = start + random.randrange(MINUTE_S - 10), others[start // MINUTE_S % len(others)]
        faults.append(Fault(Kind.BLIP, at, at + random.randrange(2, 10), url))
    return faults


@pytest.fixture
async def world(redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Forty sessions of thirty phones, connected, on twelve proxies; and one without a phone on a given proxy."""
    settings = Settings(
        api_key=SecretStr(API_KEY),
        webhook_secret=SecretStr("whsec_Tm90IGEgcmVhbCBzZWNyZXQsIGZvciB0ZXN0cw=="),
        dashboard_password=SecretStr("not-a-real-pass-phrase"),
        data_dir=tmp_path,
        proxy_urls=tuple(SecretStr(url) for url in PROXIES),
        provisioning_interval_ms=0,
        restart_interval_ms=0,
    )
    made = World(redis, settings, [], SEED)
    monkeypatch.setattr(health, "PATIENCE", Patience())
    monkeypatch.setattr(health, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": made.sleep}))
    await made.clock.set(made.now_ms)
    made.began_ms = made.now_ms
    made.server = await Server.begin(made)
    for number in range(SESSIONS):
        body = {"sessionId": f"s{number}", "phone": PHONES[number]}
        answer = await made.server.client.post("/api/sessions/provision", json=body)
        assert answer.status_code == 201, answer.text
    assert (await provision_on_given(made, UNLINKED)).status_code == 201
    for _ in range(5):
        await made.tick()
    assert await online(made) == SESSIONS
    return made


async def provision_on_given(world: World, session_id: str) -> httpx.Response:
    assert world.server is not None
    return await world.server.client.post("/api/sessions/provision", json={"sessionId": session_id, "proxy": GIVEN})


async def online(world: World) -> int:
    assert world.server is not None
    sessions = await records.sessions(world.server.control.context.scripts)
    return sum(each.status == "connected" for each in sessions)


async def events(world: World) -> list[dict[str, Any]]:
    assert world.server is not None
    found = await event_stream.read(world.server.control.context.scripts, most=100_000)
    return [dict(entry.fields) for entry in found]


def is_told_truly(world: World, event: dict[str, Any]) -> bool:
    """Whether a session that lost its proxy lost it for the reason that is given."""
    kinds, sentence = TRUE_REASONS.get(event["reason"], ((), ""))
    at_s = (int(float(event["at"])) - world.began_ms) / 1000
    alert = alert_of(event)
    told = text_of([alert], "en") if alert is not None else ""
    return world.wrong(*kinds, at_s=at_s, url=URLS[event["from"]]) and (not told or sentence in told)


async def test_exits_change_only_by_proxies_that_are_really_dead_and_every_move_is_explained(
    world: World, record_testsuite_property: Any
) -> None:
    before, world.faults, world.began_ms = await world.exits(), plan(Random(SEED)), world.now_ms
    lost = {fault.url for fault in world.faults if fault.kind in (Kind.DEAD, Kind.MUTE)}
    for _ in range(LENGTH_S // TICK_S):
        await world.tick()
        exits = await world.exits()
        assert list(broken_laws(world, exits)) == [], f"after {world.at_s} s"
        assert exits[UNLINKED] == before[UNLINKED], "a session left its given proxy before the scan"
        abandoned = {URLS[before[session]] for session, proxy in exits.items() if proxy != before[session]}
        assert abandoned <= lost, f"an exit changed after {world.at_s} s although its proxy was well"
    world.faults = [fault for fault in world.faults if fault.kind in (Kind.DEAD, Kind.MUTE)]
    world.faults = [Fault(each.kind, each.from_s, 10**6, each.url) for each in world.faults]
    for _ in range(AFTERWARDS_S // TICK_S):
        await world.tick()
    refused = await provision_on_given(world, "s99")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "PROXY_BAD")
    after, happened = await world.exits(), await events(world)
    assert after.pop(UNLINKED) == before.pop(UNLINKED)

    changed = {session for session, proxy in before.items() if after[session] != proxy}
    assert not any(URLS.get(after[session]) in lost for session in after), "a session stayed on a lost proxy"
    condemned = [each for each in happened if each["type"] == "proxy.bad"]
    assert {URLS[each["proxy"]] for each in condemned} == lost
    left = [each for each in happened if each["type"] in ("session.moved", "session.slot_lost") and each.get("from")]
    assert all(is_told_truly(world, each) for each in left), [each for each in left if not is_told_truly(world, each)]
    assert changed == {each["session"] for each in left}
    assert Counter(each["reason"] for each in happened if each["type"] == "phone.bound") == {"first": len(set(PHONES))}

    assert world.server is not None
    for session in await records.sessions(world.server.control.context.scripts):
        if session.id == UNLINKED:
            continue  # it waits for its own proxy
        waits = not session.proxy and session.reason == Reason.WAITING_FOR_PROXY
        assert session.status == "connected" or waits, (session.id, session.status, session.reason)
    record_testsuite_property("restarts", world.restarts)
    record_testsuite_property("moved", len(changed))
    record_testsuite_property("outages", sum(each["type"] == "proxy.outage" for each in happened))
