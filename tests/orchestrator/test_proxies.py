"""Proxies: the pool, its judgement, and the laws that hold while sessions move."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeCheck, FakeRunner, Teller, drive
from tests.orchestrator.session_steps import IDS, PHONE, code_of, condemned, linked, now, started
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.proxies.proxy_health import ProxyFailure
from wa_orchestrator.domain.sessions.session import Event, Reason
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator.proxies import placement, socks_check
from wa_orchestrator.orchestrator.proxies.monitor import check_due_proxies
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed, CheckPassed
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import transitions as states
from wa_orchestrator.simulator.world import World
from wa_orchestrator.store import keys, proxies, records
from wa_orchestrator.store.engine.compare_and_set import ATTEMPTS, Changed
from wa_orchestrator.store.outcomes import Written

NEW = "socks5h://user:canary-password-7@new.example.com:1080"


def url_of(proxy_id: str) -> str:
    return next(url for url in (*PROXIES, NEW) if proxy_url.proxy_id(url) == proxy_id)


async def blame(teller: Teller, session_id: str) -> httpx.Response:
    return await teller.tell(session_id, "PROXY_ERROR", {"error": "refused", "stage": "connect"})


async def judged(control: Orchestrator) -> None:
    """Let all inquiries end."""
    while tasks := list(control.proxy_health._busy):
        await asyncio.gather(*tasks)


# -- the pool's API ---------------------------------------------------------------------------------------------------


async def test_proxies_come_and_go_and_their_passwords_are_never_shown(api: httpx.AsyncClient) -> None:
    made = await api.post("/api/v1/proxies", json={"url": NEW})
    assert (made.status_code, made.json()["url"]) == (201, "socks5h://user:***@new.example.com:1080")
    again = await api.post("/api/v1/proxies", json={"url": NEW})
    assert (again.status_code, await code_of(again)) == (409, "PROXY_KNOWN")
    one = await api.get(f"/api/v1/proxies/{made.json()['id']}")
    assert (one.json()["status"], one.json()["free"]) == ("OK", 4)
    assert (await api.delete(f"/api/v1/proxies/{made.json()['id']}")).json()["removed"]
    assert "canary" not in made.text + again.text + one.text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "", {"url": "http://proxy.example.com"}, 400, "BAD_PROXY_URL"),
        ("POST", "", {"url": NEW, "colour": "red"}, 422, "VALIDATION_FAILED"),
        ("POST", "/import", {"text": "\n" * 2001}, 422, "TOO_MANY_LINES"),
        ("GET", "/p_0000000000", None, 404, "NO_SUCH_PROXY"),
        ("DELETE", "/p_0000000000", None, 404, "NO_SUCH_PROXY"),
        ("POST", "/p_0000000000/check", None, 404, "NO_SUCH_PROXY"),
        ("POST", "/p_0000000000/reinstate", None, 404, "NO_SUCH_PROXY"),
        ("GET", "/not-an-id", None, 422, "VALIDATION_FAILED"),
        ("GET", "?cursor=%25", None, 400, "BAD_CURSOR"),
    ],
)
async def test_what_is_wrong_is_refused_with_its_code(
    api: httpx.AsyncClient, method: str, path: str, body: Any, status: int, code: str
) -> None:
    answer = await api.request(method, f"/api/v1/proxies{path}", json=body)
    assert (answer.status_code, await code_of(answer)) == (status, code)


async def test_a_pasted_list_tells_its_errors_by_line(api: httpx.AsyncClient) -> None:
    text = f"# mine\n{NEW}\n\nsocks5://user:hidden@x.example.com\n{PROXIES[0]}"
    answer = (await api.post("/api/v1/proxies/import", json={"text": text})).json()
    assert (answer["added"], answer["known"]) == ([proxy_url.proxy_id(NEW)], [IDS[0]])
    assert [(each["line"], each["code"]) for each in answer["errors"]] == [(4, "BAD_PROXY_URL")]
    assert "hidden" not in str(answer)


async def test_a_proxy_in_use_is_removed_only_after_its_sessions_moved(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    own = (await now(control.context, "s1")).proxy
    refused = await api.delete(f"/api/v1/proxies/{own}")
    assert (refused.status_code, await code_of(refused)) == (409, "PROXY_IN_USE")
    request = asyncio.create_task(api.delete(f"/api/v1/proxies/{own}", params={"drain": True}))
    while not request.done():
        await drive(control)
        await asyncio.sleep(0.01)
    assert (await request).json() == {"id": own, "removed": True}
    assert (await now(control.context, "s1")).proxy not in ("", own)


async def test_a_drain_without_room_elsewhere_is_refused_and_moves_nobody(
    control: Orchestrator, api: httpx.AsyncClient
) -> None:
    for _ in range(12):
        await api.post("/api/sessions/provision", json={})
    answer = await api.delete(f"/api/v1/proxies/{IDS[0]}", params={"drain": True})
    assert (answer.status_code, await code_of(answer)) == (409, "NO_ROOM_TO_DRAIN")
    proxy = await records.proxy(control.context.scripts, IDS[0])
    assert proxy is not None
    assert (proxy.status, len(proxy.sessions)) == ("OK", 4)


async def test_an_operator_reinstates_a_bad_proxy_at_once(
    control: Orchestrator, api: httpx.AsyncClient, check: FakeCheck
) -> None:
    check.dead.add(PROXIES[0])
    first, second = [(await api.post(f"/api/v1/proxies/{IDS[0]}/check")).json() for _ in range(2)]
    assert [(each["passed"], each["status"]) for each in (first, second)] == [(False, "OK"), (False, "BAD")]
    assert (second["lastError"], second["lastFailure"]) == ("no answer within 5 s", "NO_ANSWER:5")
    assert (await api.post(f"/api/v1/proxies/{IDS[0]}/reinstate")).json()["status"] == "OK"


# -- judgement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("PROXY_ERROR", {"error": "refused", "stage": "connect"}),
        ("STATUS_CHANGE", {"status": "error", "error": "proxy gone"}),
        ("DISCONNECTED", {"reason": "Socks5 proxy rejected connection", "code": 408, "willReconnect": True}),
    ],
)
async def test_a_report_of_any_kind_has_the_proxy_checked_at_once_and_a_dead_one_loses_its_sessions(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck, kind: str, data: dict[str, Any]
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    own = (await now(control.context, "s1")).proxy
    check.dead.add(url_of(own))
    assert (await teller.tell("s1", kind, data)).status_code == 200
    await judged(control)
    await drive(control)
    after = await now(control.context, "s1")
    assert after.proxy not in ("", own)
    assert await control.context.redis.get(keys.sticky(PHONE)) == after.proxy
    proxy = await records.proxy(control.context.scripts, own)
    assert proxy is not None
    assert (proxy.status, proxy.sessions) == ("BAD", frozenset())


@pytest.mark.usefixtures("present")
async def test_a_proxy_that_passes_gets_a_strike_and_the_second_condemns_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = await now(control.context, "s1")
    await blame(teller, "s1")
    await judged(control)
    struck = await now(control.context, "s1")
    assert (struck.proxy, struck.reason) == (before.proxy, "PROXY_RETRY")
    await drive(control)
    assert runner.epochs()["s1"] > before.epoch
    shown = (await api.get(f"/api/v1/proxies/{before.proxy}")).json()
    assert (shown["status"], shown["strikes"]) == ("OK", 1)
    # The same incident told again at once is no second strike.
    await blame(teller, "s1")
    await judged(control)
    await drive(control)
    assert (await now(control.context, "s1")).proxy == before.proxy
    await _age_strikes(control, before.proxy, 60_000)
    await blame(teller, "s1")
    await judged(control)
    await drive(control)
    assert (await now(control.context, "s1")).proxy not in ("", before.proxy)


async def _age_strikes(control: Orchestrator, proxy_id: str, by_ms: int) -> None:
    at = await control.context.scripts.now_ms() - by_ms
    await control.context.redis.hset(keys.proxy(proxy_id), "strikes", f"[{at}]")


@pytest.mark.usefixtures("present")
async def test_four_sessions_that_blame_one_proxy_at_once_share_one_check_and_one_strike(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck
) -> None:
    for number in range(4):
        await started(control, api, f"s{number}", proxy=PROXIES[0])
        await teller.connected(f"s{number}", f"97250000000{number}")
    check.checked.clear()
    await asyncio.gather(*(blame(teller, f"s{number}") for number in range(4)))
    await judged(control)
    assert len(check.checked) == 1
    assert (await api.get(f"/api/v1/proxies/{IDS[0]}")).json()["strikes"] == 1


async def test_the_monitor_condemns_at_the_second_failure_and_takes_back_after_three_good_checks(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck
) -> None:
    await linked(control, api, teller, "s1", PHONE, proxy=PROXIES[0])
    check.dead.add(PROXIES[0])
    await check_due_proxies(control.context, control.proxy_health)
    assert (await now(control.context, "s1")).proxy == IDS[0]
    await check_due_proxies(control.context, control.proxy_health)
    moved = await now(control.context, "s1")
    assert moved.proxy not in ("", IDS[0])
    check.dead.clear()
    states = []
    for _ in range(3):
        await control.proxy_health.check(IDS[0])
        states.append((await api.get(f"/api/v1/proxies/{IDS[0]}")).json()["status"])
    assert states == ["BAD", "BAD", "OK"]
    # A phone that moved away does not move back.
    await drive(control)
    assert (await now(control.context, "s1")).proxy == moved.proxy


async def test_who_sat_on_a_bad_proxy_when_the_server_died_is_moved_by_the_next_check(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "s1", PHONE, proxy=PROXIES[0])
    check.dead.add(PROXIES[0])
    await _die_at(monkeypatch, control, "drain")
    assert (await now(control.context, "s1")).proxy == IDS[0]
    await control.proxy_health.check(IDS[0])
    assert (await now(control.context, "s1")).proxy not in ("", IDS[0])


async def test_a_worker_that_was_moved_is_replaced_although_the_server_died_at_that_moment(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "s1", PHONE, proxy=PROXIES[0])
    check.dead.add(PROXIES[0])
    await _die_at(monkeypatch, control, "_slot_assigned")
    moved = await now(control.context, "s1")
    assert moved.proxy not in ("", IDS[0])
    assert states.restart_pending(moved)


async def _die_at(monkeypatch: pytest.MonkeyPatch, control: Orchestrator, step: str) -> None:
    """Let the server find the first proxy bad, and die at this step of what follows."""
    with monkeypatch.context() as patched:
        patched.setattr(placement, step, AsyncMock(side_effect=RuntimeError("dies")))
        with pytest.raises(RuntimeError, match="dies"):
            await condemned(control, IDS[0])


async def test_bad_proxies_are_checked_at_growing_intervals(control: Orchestrator, check: FakeCheck) -> None:
    check.dead.add(PROXIES[0])
    gaps = []
    await control.proxy_health.check(IDS[0])
    for _ in range(3):
        await control.proxy_health.check(IDS[0])
        proxy = await records.proxy(control.context.scripts, IDS[0])
        assert proxy is not None
        gaps.append(proxy.next_check_at - proxy.checked_at)
    assert gaps == [60_000, 120_000, 240_000]


async def test_without_room_a_session_waits_and_goes_on_by_itself_as_soon_as_there_is_some(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck, runner: FakeRunner
) -> None:
    for number in range(12):
        await linked(control, api, teller, f"s{number}", f"9725000000{number:02}")
    victim = (await now(control.context, "s0")).proxy
    check.dead.add(url_of(victim))
    await condemned(control, victim)
    await drive(control)
    waiting = [each for each in (await api.get("/api/sessions")).json()["sessions"] if each["proxyId"] is None]
    assert [(each["status"], each["reason"]) for each in waiting] == [("disconnected", "WAITING_FOR_PROXY")] * 4
    assert len(runner.running) == 8
    # Somebody else drains the same proxy, a moment later, with what he read before.
    await states.apply(control.context, "s0", Event.PROXY_LOST)
    assert not await placement.assign_slot(control.context, await now(control.context, "s0"), ProxyReason.PROXY_FAILED)
    assert (await now(control.context, "s0")).reason == Reason.WAITING_FOR_PROXY
    await api.post("/api/v1/proxies", json={"url": NEW})
    await placement.assign_waiting(control.context)
    await drive(control)
    assert len(runner.running) == 12
    proxy = await records.proxy(control.context.scripts, proxy_url.proxy_id(NEW))
    assert proxy is not None
    assert len(proxy.sessions) == 4


async def test_all_sessions_of_a_phone_move_to_one_proxy_or_wait_together(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck
) -> None:
    for number in range(3):
        await linked(control, api, teller, f"s{number}", PHONE, proxy=PROXIES[0])
    for number, url in enumerate((PROXIES[1], PROXIES[1], PROXIES[2])):
        await linked(control, api, teller, f"other{number}", f"97250000000{number}", proxy=url)
    check.dead.add(PROXIES[0])
    await condemned(control, IDS[0])
    homes = {(await now(control.context, f"s{number}")).proxy for number in range(3)}
    assert homes == {IDS[2]}  # the only one with three free slots


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    phones=st.lists(st.integers(0, 5), min_size=6, max_size=10),
    acts=st.lists(st.tuples(st.sampled_from(["die", "heal", "seek"]), st.integers(0, 2)), min_size=3, max_size=8),
)
async def test_whatever_dies_and_heals_no_proxy_has_a_fifth_session_and_no_phone_two_proxies(
    control: Orchestrator,
    api: httpx.AsyncClient,
    teller: Teller,
    check: FakeCheck,
    runner: FakeRunner,
    phones: list[int],
    acts: list[tuple[str, int]],
) -> None:
    await control.context.redis.flushall()
    runner.running.clear()
    control.pool.workers.clear()
    check.dead.clear()
    for url in PROXIES:
        await api.post("/api/v1/proxies", json={"url": url})
    for number, phone in enumerate(phones):
        body = {"sessionId": f"s{number}", "phone": f"97250000000{phone}"}
        if (await api.post("/api/sessions/provision", json=body)).status_code == 201:
            await drive(control)
            await teller.connected(f"s{number}", body["phone"])
    await drive(control)
    for act, which in acts:
        (check.dead.add if act == "die" else check.dead.discard)(PROXIES[which])
        if act == "seek":
            await placement.assign_waiting(control.context)
        await condemned(control, IDS[which])
        await drive(control)
        await _laws_hold(control, runner)


async def _laws_hold(control: Orchestrator, runner: FakeRunner) -> None:
    found_sessions = await records.sessions(control.context.scripts)
    sessions: dict[str, records.Session] = {session.id: session for session in found_sessions}
    for proxy in await records.proxies(control.context.scripts):
        assert len(proxy.sessions) <= 4
        assert proxy.sessions == {session.id for session in sessions.values() if session.proxy == proxy.id}
    homes: dict[str, set[str]] = {}
    for found in runner.running.values():
        session = sessions[found.session_id]
        assert session.proxy
        homes.setdefault(session.phone, set()).add(session.proxy)
    assert all(len(proxies) == 1 for proxies in homes.values())
    assert len(runner.running) == len({found.session_id for found in runner.running.values()})


# -- the check itself, on the wire --------------------------------------------------------------------------------------


async def test_a_check_shakes_hands_with_a_real_proxy_and_asks_for_the_target_by_name() -> None:
    async with World(proxies=1) as world:
        url = world.proxies[0]
        passed = await socks_check.check(url, "web.whatsapp.com:443", 5000)
        assert isinstance(passed, CheckPassed)
        user, _, rest = url.partition("@")
        wrong = await socks_check.check(f"{user}x@{rest}", "web.whatsapp.com:443", 5000)
        assert wrong == CheckFailed(ProxyFailure.LOGIN_REFUSED)
        nowhere = await socks_check.check(url, "elsewhere.example.com:443", 5000)
        assert isinstance(nowhere, CheckFailed)
        async with httpx.AsyncClient(base_url=world.control) as control:
            seen = (await control.get("/proxies")).json()[0]
            await control.post("/faults", json={"target": {"proxy": seen["id"]}, "kind": "blackhole"})
        assert seen["addressTypes"].get("domain")
        assert await socks_check.check(url, "web.whatsapp.com:443", 200) == CheckFailed(ProxyFailure.NO_ANSWER, "0.2")
    gone = await socks_check.check(url, "web.whatsapp.com:443", 2000)
    assert isinstance(gone, CheckFailed)
    assert gone.why is ProxyFailure.UNREACHABLE


async def test_a_mark_that_loses_every_race_is_an_error_and_not_an_unknown_proxy(
    control: Orchestrator, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = 0

    async def overtaken(*_: object, **__: object) -> Changed:
        nonlocal marks
        marks += 1
        return Changed()

    monkeypatch.setattr(proxies, "mark", overtaken)
    answer = await api.post(f"/api/v1/proxies/{IDS[0]}/reinstate")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "WRITE_CONFLICT")
    assert marks == ATTEMPTS
    with pytest.raises(Unavailable):
        await control.proxy_health.check(IDS[0])


async def test_a_mark_that_loses_one_race_is_decided_again(
    control: Orchestrator, check: FakeCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = control.context.scripts
    before = await records.proxy(scripts, IDS[0])
    assert before is not None
    real_mark, overtaken = proxies.mark, [True]

    async def mark(*args: Any, **values: Any) -> Any:
        if overtaken.pop() if overtaken else False:
            other = await real_mark(scripts, IDS[0], version=before.version, status="OK", reason="other", fields={})
            assert isinstance(other, Written)
        return await real_mark(*args, **values)

    monkeypatch.setattr(proxies, "mark", mark)
    check.dead.add(before.url)
    await control.proxy_health.check(IDS[0])
    after = await records.proxy(scripts, IDS[0])
    assert after is not None
    assert (after.version, after.bad_in_a_row) == (before.version + 2, 1)
