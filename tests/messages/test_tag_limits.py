"""Limits by tag over the API, and what they do to sending."""

import json
from typing import Any

import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import settle
from tests.messages.conftest import PHONE, MessageApi
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.records import SessionChanges

ADDRESS = "/api/anti-ban/tag-limits"
SESSION = "/api/anti-ban/sessions/w1/limits"


@pytest.fixture
async def tagged(api: MessageApi) -> MessageApi:
    """The session `w1` has the tag vip."""
    await sessions.change(api.context.scripts, "w1", SessionChanges(tags=("vip",)))
    return api


async def test_a_tags_limit_lowers_its_sessions_and_a_sessions_own_limit_beats_it(tagged: MessageApi) -> None:
    client = tagged.client
    set_ = (await client.put(ADDRESS, json={"tag": "vip", "perDay": 8, "opens": "10:00", "closes": "12:30"})).json()
    assert (set_["sessions"], set_["raises"], set_["inForce"]["hot"]["perDay"]) == (1, False, 8)
    shown = (await client.get(SESSION)).json()
    assert (shown["limits"]["perDay"], shown["limits"]["closes"]) == (8, "12:30")
    assert (shown["presetLimits"]["perDay"], shown["own"]) == (20, {})
    assert shown["origins"] == {"perDay": "tag:vip", "perMinute": "preset", "pause": "preset", "hours": "tag:vip"}
    own = (await client.put(SESSION, json={"perDay": 12})).json()
    assert (own["limits"]["perDay"], own["tagLimits"]["perDay"], own["origins"]["perDay"]) == (12, 8, "own")
    await client.delete(SESSION)
    assert (await client.get(SESSION)).json()["limits"]["perDay"] == 8
    gone = await client.delete(ADDRESS, params={"tag": "vip"})
    assert gone.json() == {"deleted": True, "sessions": 1}
    assert (await client.get(SESSION)).json()["limits"]["perDay"] == 20
    assert (await client.get(ADDRESS)).json() == {"tags": []}


async def test_raising_above_the_preset_needs_an_acknowledgement_and_is_audited(tagged: MessageApi) -> None:
    client = tagged.client
    refused = await client.put(ADDRESS, json={"tag": "vip", "perDay": 501})
    assert (refused.status_code, refused.json()["error"]["riskier"]) == (409, ["perDay"])
    # 50 lowers hot sessions; a cold one keeps the 20 of its preset, and nobody needs to accept a risk for that.
    lowered = await client.put(ADDRESS, json={"tag": "vip", "perDay": 50})
    assert lowered.status_code == 200
    assert (await client.get(SESSION)).json()["limits"]["perDay"] == 20
    raised = await client.put(ADDRESS, json={"tag": "vip", "perDay": 50, "acknowledgeRisk": True})
    assert raised.json()["raises"] is True
    assert (await client.get(SESSION)).json()["limits"]["perDay"] == 50
    audited: Any = await tagged.context.redis.xrange(keys.AUDIT)
    noted = [(fields["action"], json.loads(fields["details"])) for _, fields in audited]
    assert [action for action, _ in noted] == ["tag_limits.set", "tag_limits.set"]
    assert [(details["raises"], details["riskier"]) for _, details in noted] == [(False, []), (True, ["perDay"])]


async def test_bad_limits_of_a_tag_are_refused_with_what_to_do(tagged: MessageApi) -> None:
    client = tagged.client
    unknown = (await client.put(ADDRESS, json={"tag": "vpi", "perDay": 5})).json()["error"]
    assert unknown["code"] == "NO_SUCH_TAG"
    assert "Known: vip" in unknown["message"]
    for body in ({}, {"opens": "10:00"}, {"pauseMinMs": 5}, {"perDay": 0}, {"perDay": 5, "perWeek": 1}):
        assert (await client.put(ADDRESS, json={"tag": "vip"} | body)).status_code == 422, body
    night = {"tag": "vip", "perDay": 5, "opens": "23:00", "closes": "05:00"}
    assert (await client.put(ADDRESS, json=night)).json()["error"]["code"] in ("RISK", "HOURS_NEVER_OPEN")
    missing = (await client.delete(ADDRESS, params={"tag": "vip"})).json()["error"]
    assert missing["code"] == "NO_SUCH_TAG"
    assert await tagged.context.redis.exists(keys.TAG_LIMITS) == 0


async def test_the_next_release_obeys_a_limit_that_was_just_set_for_a_tag(tagged: MessageApi, clock: Clock) -> None:
    scenario, client = tagged.scenario, tagged.client
    await tagged.released()
    assert await scenario.send("w1", PHONE)
    assert (await client.put(ADDRESS, json={"tag": "vip", "perDay": 1})).status_code == 200
    second = await scenario.accept("w1", PHONE)
    await clock.pass_ms(60_000)
    await settle(scenario.dispatcher())
    assert await scenario.status(second) == "queued"  # the day is full
    assert (await client.delete(ADDRESS, params={"tag": "vip"})).status_code == 200
    await settle(scenario.dispatcher())  # the phone was woken
    assert await scenario.status(second) == "scheduled"
