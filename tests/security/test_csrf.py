"""Requests that another site makes in a person's browser: none changes anything, whichever button it presses."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from redis.asyncio import Redis

from tests.security.fleet import TwoCustomers, two_customers
from tests.security.redis_content import content
from tests.security.test_routes import routes_of
from tests.security.visitor import ORIGIN, Visitor, person
from wa_orchestrator.dashboard.routes import simulated_scan
from wa_orchestrator.dashboard.routes.actions import ACTIONS

#: Forms of people who are not logged in: there is no token yet, so the origin alone decides.
WITHOUT_LOGIN: Final = {"/login", "/login/code", "/enter", "/choose", "/l/{token}"}
FORM: Final = {"id": "mine", "name": "x", "scopes": "admin", "scope": "all", "role": "administrator", "url": "x"}
#: What a site can make a browser say about where a request comes from.
FOREIGN: Final[dict[str, dict[str, str]]] = {
    "another site": {"Origin": "https://evil.example.com"},
    "another port": {"Origin": f"{ORIGIN}:8080"},
    "a name that begins like ours": {"Origin": f"{ORIGIN}.evil.example.com"},
    "a name that ends like ours": {"Origin": "http://evil-server"},
    "our name as a user": {"Origin": "http://server@evil.example.com"},
    "a sandboxed frame": {"Origin": "null"},
    "a frame of another site": {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    "another site of the same domain": {"Sec-Fetch-Site": "same-site"},
    "no header at all": {},
    "an empty origin": {"Origin": ""},
    "no URL": {"Origin": "http://["},
    "bytes": {"Origin": "\xff\xfe"},
}


@pytest.fixture
async def fleet(redis: Redis, tmp_path: Path) -> AsyncIterator[TwoCustomers]:
    made = await two_customers(redis, tmp_path)
    yield made
    await made.client.aclose()


@pytest.fixture
async def dana(fleet: TwoCustomers) -> Visitor:
    """An administrator who is logged in."""
    await person(fleet, "Dana")
    visitor = Visitor(fleet)
    await visitor.log_in("Dana")
    return visitor


def _forms(fleet: TwoCustomers) -> list[str]:
    """Every address of the pages to which a form can be sent."""
    posts = {path for method, path, _ in routes_of(fleet.app) if method not in ("GET", "HEAD")}
    pages = {path for path in posts if not path.startswith(("/api/", "/webhook"))}
    assert WITHOUT_LOGIN | {"/do/{action}", "/logout"} <= pages, "the walk has lost its way"
    acts = {"/import/check", "/import/take", *(f"/do/{each}" for each in (*ACTIONS, simulated_scan.ACTION))}
    return sorted(pages - {"/do/{action}", "/import/{act}"} | acts)


async def _state(fleet: TwoCustomers) -> dict[str, Any]:
    """Everything but what a request leaves by being made: when a login was last used, and counters of attempts."""
    return await content(fleet.context.redis, lambda name: not name.startswith("dashboard:"))


@pytest.mark.parametrize("site", FOREIGN)
async def test_no_form_of_another_site_is_accepted_even_with_the_right_token(
    fleet: TwoCustomers, dana: Visitor, site: str
) -> None:
    token, accepted = await dana.token(), []
    before = await _state(fleet)
    headers = {name.encode(): value.encode("latin-1") for name, value in FOREIGN[site].items()}
    for path in _forms(fleet):
        answer = await dana.client.post(path, headers=headers, data=FORM | {"csrf": token})
        if answer.status_code != 403:
            accepted.append((path, answer.status_code))
    assert accepted == []
    assert await _state(fleet) == before


@pytest.mark.parametrize("whose", ["nobody's", "a wrong one", "half of it", "another person's", "another login's"])
async def test_no_form_is_accepted_without_the_token_of_this_very_login(
    fleet: TwoCustomers, dana: Visitor, whose: str
) -> None:
    other = Visitor(fleet)
    if whose == "another person's":
        await person(fleet, "Noa")
    await other.log_in("Noa" if whose == "another person's" else "Dana")
    right = await dana.token()
    token = {"nobody's": "", "a wrong one": "0" * len(right), "half of it": right[: len(right) // 2]}.get(whose)
    sent = {"csrf": await other.token() if token is None else token}
    before, accepted = await _state(fleet), []
    for path in _forms(fleet):
        if path in WITHOUT_LOGIN:
            continue
        for headers in ({}, {"X-CSRF-Token": sent["csrf"]} if sent["csrf"] else {}):
            answer = await dana.client.post(path, headers={"Origin": ORIGIN} | headers, data=FORM | sent)
            if answer.status_code != 403:
                accepted.append((path, answer.status_code))
    assert accepted == []
    assert await _state(fleet) == before


async def test_no_form_is_accepted_by_another_method_or_without_a_login(fleet: TwoCustomers, dana: Visitor) -> None:
    token, before = await dana.token(), await _state(fleet)
    stranger = Visitor(fleet)
    for path in _forms(fleet):
        if path not in WITHOUT_LOGIN:
            sent = FORM | {"csrf": token}
            answer = await stranger.client.post(path, headers={"Origin": ORIGIN, "X-CSRF-Token": token}, data=sent)
            assert answer.status_code == 401, path
            assert (await dana.client.get(path, params=sent)).status_code in (404, 405), path
    assert await _state(fleet) == before


async def test_looking_at_any_page_changes_nothing(fleet: TwoCustomers, dana: Visitor) -> None:
    before = await _state(fleet)
    query = "?csrf=x&id=mine&do=delete&action=delete&q=x&state=failed&page=2&at=1&saved=1"
    pages = [
        path.replace("{id}", "mine")
        for method, path, _ in routes_of(fleet.app)
        if method == "GET" and not path.startswith(("/api/", "/static", "/events"))
        if not path.endswith("/groups")  # asks a worker, and none runs here
    ]
    assert len(pages) > 20, "the walk has lost its way"
    for path in pages:
        assert (await dana.client.get(path + query)).status_code < 500, path
    assert await _state(fleet) == before


async def test_the_same_form_from_our_own_page_is_accepted(fleet: TwoCustomers, dana: Visitor) -> None:
    """The refusals above are about the site and the token, and about nothing else."""
    sent = {"csrf": await dana.token(), "name": "CRM", "scopes": "read"}
    answer = await dana.client.post("/do/key-make", headers={"Origin": ORIGIN}, data=sent)
    assert answer.json()["state"] == "ok", answer.text
