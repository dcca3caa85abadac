"""What an installation had before there were accounts, limited keys and a chained log is still good."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.orchestrator.fakes import ADMIN
from tests.security.fleet import MINE, THEIRS, TwoCustomers, two_customers
from wa_orchestrator.store import keys
from wa_orchestrator.store.access.api_keys import digest

PAGE = {"Origin": "http://server"}
OLD_KEY, OLD_COOKIE = "wao_a-key-of-before", "a-token-of-before"


@pytest.fixture
async def fleet(redis: Redis, tmp_path: Path) -> AsyncIterator[TwoCustomers]:
    made = await two_customers(redis, tmp_path)
    yield made
    await made.client.aclose()


async def _remember(redis: Any, marks: Any) -> None:
    """Write a key, a login and entries of the audit log as earlier versions did."""
    stored = {"name": "CRM", "scopes": ["send", "read"], "prefix": "wao_a-ke", "created_at_ms": 1}
    await redis.hset(keys.API_KEYS, "k_0123456789ab", json.dumps(stored | {"digest": digest(OLD_KEY)}))
    await redis.hset(keys.API_KEY_DIGESTS, digest(OLD_KEY), "k_0123456789ab")
    login = {"role": "administrator", "name": "Dana", "csrf": "x" * 32, "mark": marks["administrator"]}
    since = (await redis.time())[0] * 1000
    await redis.hset(keys.person(digest(OLD_COOKIE)), mapping=login | {"since": since})
    for by in ("configured", "k_0123456789ab", "dashboard:Dana", "dashboard:nobody"):
        entry = {"at": since, "by": by, "action": "session.stop", "target": MINE, "details": "{}"}
        await redis.xadd(keys.AUDIT, entry)


@pytest.mark.parametrize("language", ["en", "he"])
async def test_keys_logins_passwords_and_entries_of_before_are_good(fleet: TwoCustomers, language: str) -> None:
    await _remember(fleet.context.redis, fleet.app.state.authenticator._passwords.marks)
    old = {"X-API-Key": OLD_KEY}
    assert [(await fleet.send(old, sessionId=name)).status_code for name in (MINE, THEIRS)] == [202, 202]
    assert (await fleet.client.get("/api/v1/proxies", headers=old)).status_code == 200, "it is not limited"
    assert (await fleet.client.get("/api/v1/keys", headers=ADMIN)).json()["keys"][0]["expiresAt"] is None

    page = PAGE | {"Accept-Language": language}
    fleet.client.cookies.set("wao", OLD_COOKIE)
    for path in ("/", "/settings", "/people", "/audit"):
        assert (await fleet.client.get(path, headers=page)).status_code == 200, path
    fleet.client.cookies.clear()
    entered = await fleet.client.post("/login", headers=page, data={"password": "not-a-real-pass-phrase"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")

    entries = (await fleet.client.get("/api/v1/audit", headers=ADMIN)).json()["entries"]
    assert [(each["name"], each["number"]) for each in entries] == [("", 1), *[("", 0)] * 4]
    assert (await fleet.client.get("/api/v1/audit/verification", headers=ADMIN)).json()["intact"]
    exported = (await fleet.client.get("/api/v1/audit/export", headers=ADMIN)).text.splitlines()
    assert [json.loads(line)["action"] for line in exported] == ["dashboard.login", "audit.export"]
