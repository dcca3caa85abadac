"""Profiles: listed with the inventory, chosen when a session is made, kept for life, and an alert when few are free."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import FakeRunner, drive
from tests.orchestrator.session_steps import code_of, delete, now, provision, started
from wa_orchestrator.orchestrator.proxies.monitor import check_due_proxies
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.events import event_stream

EDGE = "Windows/Edge/120.0"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"device_profiles": ("Ubuntu", EDGE), "profile_sessions": 2})


async def _alarms(control: Orchestrator) -> int:
    await check_due_proxies(control.context, control.proxy_health)
    events = await event_stream.read(control.context.scripts, most=1000)
    return [each.fields["type"] for each in events].count("profile.low_inventory")


async def _profiles(api: httpx.AsyncClient) -> dict[str, Any]:
    answer = (await api.get("/api/v1/inventory")).json()
    return {each["name"]: (each["origin"], len(each["sessions"]), each["free"]) for each in answer["profiles"]}


def _shown_as(runner: FakeRunner, session: str) -> str:
    return [spec for spec in runner.started if spec.session_id == session][-1].environment["DEVICE_NAME"]


async def test_a_session_gets_a_profile_when_it_is_made_and_keeps_it_for_life(
    api: httpx.AsyncClient, control: Orchestrator, runner: FakeRunner
) -> None:
    await started(control, api, "s1")
    await started(control, api, "s2", profile="windows/edge/120.0")
    assert [(await now(control.context, name)).device_name for name in ("s1", "s2")] == ["Ubuntu", EDGE]
    assert _shown_as(runner, "s2") == EDGE
    assert (await api.get("/api/sessions/s2")).json()["deviceName"] == EDGE
    added = await api.post("/api/v1/inventory/profiles", json={"name": "Mac OS/Safari"})
    assert (added.status_code, added.json()["free"]) == (201, 2)
    workers = len(runner.started)
    await api.post("/api/sessions/s2/restart")
    await drive(control)
    assert len(runner.started) > workers
    assert _shown_as(runner, "s2") == EDGE
    assert (await api.patch("/api/sessions/s2", json={"profile": "Ubuntu"})).status_code == 422  # nothing changes it


async def test_the_inventory_lists_slots_and_profiles_with_their_sessions(api: httpx.AsyncClient) -> None:
    await provision(api, sessionId="s1")
    answer = (await api.get("/api/v1/inventory")).json()
    assert (answer["slots"]["free"], answer["lowSlots"], answer["sessionsPerProfile"]) == (11, False, 2)
    assert answer["profiles"][0] == {
        "name": "Ubuntu", "system": "Ubuntu", "browser": "Chrome", "version": None, "origin": "settings",
        "sessions": ["s1"], "free": 1,
    }  # fmt: skip
    assert answer["freeProfiles"] == 2
    await api.post("/api/v1/inventory/profiles", json={"name": "Mac OS/Safari"})
    await provision(api, sessionId="s2", profile="Mac OS/Safari")
    removed = await api.request("DELETE", "/api/v1/inventory/profiles", params={"name": "Mac OS/Safari"})
    assert removed.json() == {"removed": True}
    assert (await _profiles(api))["Mac OS/Safari"] == ("sessions", 1, 0)  # its session keeps it
    assert (await code_of(await provision(api, profile="Mac OS/Safari"))) == "NO_SUCH_PROFILE"


async def test_profiles_are_not_shared_by_more_sessions_than_set_even_by_requests_at_once(
    api: httpx.AsyncClient,
) -> None:
    answers = await asyncio.gather(*(provision(api, sessionId=f"s{n}") for n in range(6)))
    made = [each.status_code for each in answers].count(201)
    refused = {await code_of(each) for each in answers if each.status_code != 201}
    assert made <= 4
    assert refused <= {"NO_PROFILE_FREE", "WRITE_CONFLICT"}
    for n in range(made, 4):
        assert (await provision(api, sessionId=f"again{n}")).status_code == 201
    assert (await _profiles(api)) == {"Ubuntu": ("settings", 2, 0), EDGE: ("settings", 2, 0)}
    assert await code_of(await provision(api)) == "NO_PROFILE_FREE"
    assert await code_of(await provision(api, profile="Ubuntu")) == "NO_PROFILE_FREE"


async def test_few_free_profiles_raise_one_alarm_until_there_are_enough(
    api: httpx.AsyncClient, control: Orchestrator
) -> None:
    assert await _alarms(control) == 0  # 4 are free
    await provision(api, sessionId="s1")
    assert [await _alarms(control) for _ in range(2)] == [1, 1]
    assert (await api.get("/api/v1/inventory")).json()["lowProfiles"] is True
    await delete(control, api, "s1")
    assert await _alarms(control) == 1
    assert not await control.context.redis.exists(keys.LOW_PROFILES)


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("Acme/Chrome", 422, "BAD_PROFILE"), ("Ubuntu/Safari", 422, "BAD_PROFILE"), ("ubuntu", 409, "PROFILE_KNOWN")],
)
async def test_an_invented_or_known_profile_is_refused(
    api: httpx.AsyncClient, control: Orchestrator, name: str, status: int, code: str
) -> None:
    answer = await api.post("/api/v1/inventory/profiles", json={"name": name})
    assert (answer.status_code, await code_of(answer)) == (status, code)
    kept = await api.request("DELETE", "/api/v1/inventory/profiles", params={"name": "Ubuntu"})
    assert await code_of(kept) == "PROFILE_OF_SETTINGS"
    assert await control.context.redis.exists(keys.PROFILES) == 0
