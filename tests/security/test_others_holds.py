"""Who is limited to some sessions lifts only the holds of those who reach no more than they do."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from tests.orchestrator.fakes import ADMIN
from tests.security.fleet import LABELS, MINE, TwoCustomers, two_customers
from wa_orchestrator.domain.access.permissions import Only, Reach, Scope
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import holds
from wa_orchestrator.timestamps import FOREVER_MS

SCOPES = (Scope.READ, Scope.OPERATE)
HOLD = f"/api/anti-ban/holds/session:{MINE}"
BY_SESSION, BY_LABEL = Only(sessions=frozenset({MINE})), Only(labels=frozenset({LABELS[MINE]}))
Header = dict[str, str]


@pytest.fixture
async def fleet(redis: Redis, tmp_path: Path) -> AsyncIterator[TwoCustomers]:
    made = await two_customers(redis, tmp_path)
    yield made
    await made.client.aclose()


@pytest.fixture(params=[BY_SESSION, BY_LABEL], ids=["by session", "by label"])
async def mine(fleet: TwoCustomers, request: pytest.FixtureRequest) -> Header:
    reach: Reach = request.param
    return await fleet.key(*SCOPES, reach=reach)


async def _pause(fleet: TwoCustomers, by: Header, **more: object) -> httpx.Response:
    return await fleet.client.post("/api/anti-ban/holds", headers=by, json={"sessionId": MINE, **more})


async def _lift(fleet: TwoCustomers, by: Header) -> httpx.Response:
    return await fleet.client.delete(HOLD, headers=by)


async def _held_by(fleet: TwoCustomers) -> str | None:
    found = (await records.holds(fleet.context.scripts)).get(f"session:{MINE}")
    return found.by if found else None


async def test_an_administrators_hold_is_not_lifted_by_who_is_limited(fleet: TwoCustomers, mine: Header) -> None:
    assert (await _pause(fleet, ADMIN)).status_code == 201
    refused = await _lift(fleet, mine)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "HOLD_OF_OTHERS")
    assert await _held_by(fleet) == "configured"
    assert (await _lift(fleet, ADMIN)).status_code == 200


async def test_nor_replaced_by_one_that_ends_soon(fleet: TwoCustomers, mine: Header) -> None:
    assert (await _pause(fleet, ADMIN)).status_code == 201
    soon_ms = await fleet.context.scripts.now_ms() + 60_000
    refused = await _pause(fleet, mine, until=soon_ms)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "HOLD_OF_OTHERS")
    assert await _held_by(fleet) == "configured"


async def test_a_hold_of_before_counts_as_an_administrators(fleet: TwoCustomers, mine: Header) -> None:
    record = json.dumps({"until_ms": FOREVER_MS, "why": "OPERATOR", "by": "k_1"})
    await fleet.context.redis.hset(keys.HOLDS, f"session:{MINE}", record)
    assert (await _lift(fleet, mine)).status_code == 403


async def test_a_hold_that_is_over_is_in_nobodys_way(fleet: TwoCustomers, mine: Header) -> None:
    over = holds.Hold(f"session:{MINE}", 1, "OPERATOR", "configured")
    await holds.put(fleet.context.scripts, over)
    assert (await _pause(fleet, mine)).status_code == 201
    assert (await _lift(fleet, mine)).status_code == 200


async def test_those_of_one_reach_lift_one_anothers_and_everybody_their_own(fleet: TwoCustomers, mine: Header) -> None:
    assert (await _pause(fleet, mine)).status_code == 201
    assert (await _lift(fleet, mine)).status_code == 200
    for reach in (BY_SESSION, BY_LABEL):
        first, second = [await fleet.key(*SCOPES, reach=reach) for _ in range(2)]
        assert (await _pause(fleet, first)).status_code == 201
        assert (await _lift(fleet, second)).status_code == 200
    assert await _held_by(fleet) is None
    assert (await _lift(fleet, mine)).status_code == 200, "a hold that is gone is lifted"


async def test_who_reaches_more_lifts_what_who_reaches_less_placed_and_not_the_other_way_round(
    fleet: TwoCustomers,
) -> None:
    wide = await fleet.key(*SCOPES, reach=Only(frozenset({MINE}), frozenset({LABELS[MINE], "haifa"})))
    narrow = await fleet.key(*SCOPES, reach=BY_LABEL)
    assert (await _pause(fleet, wide)).status_code == 201
    assert (await _lift(fleet, narrow)).status_code == 403
    assert (await _pause(fleet, narrow)).status_code == 403
    assert (await _lift(fleet, wide)).status_code == 200
    assert (await _pause(fleet, narrow)).status_code == 201
    assert (await _lift(fleet, wide)).status_code == 200


@pytest.mark.parametrize("deed", [_lift, _pause])
async def test_an_administrator_who_is_quicker_is_not_overruled(
    fleet: TwoCustomers,
    mine: Header,
    monkeypatch: pytest.MonkeyPatch,
    deed: Callable[[TwoCustomers, Header], Awaitable[httpx.Response]],
) -> None:
    """The hold was looked at, and is another one when it is to be changed."""
    assert (await _pause(fleet, mine)).status_code == 201
    run = Scripts.run

    async def overtaken(scripts: Scripts, name: str, *args: object) -> object:
        monkeypatch.setattr(Scripts, "run", run)
        if name in ("lift_hold", "place_hold"):
            assert (await _pause(fleet, ADMIN)).status_code == 201
        else:
            monkeypatch.setattr(Scripts, "run", overtaken)
        return await run(scripts, name, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Scripts, "run", overtaken)
    assert (await deed(fleet, mine)).status_code == 403
    assert await _held_by(fleet) == "configured"
