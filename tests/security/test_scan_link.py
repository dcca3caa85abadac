"""The page of a one-time link: what a stranger with the link sees, and what one without it does not."""

import re
from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import ADMIN
from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import scan_link
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.orchestrator.workers import command_calls
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.sessions import commands, link_codes
from wa_orchestrator.store.sessions.link_codes import StoredLinkCode
from wa_orchestrator.texts.catalogue import texts

SECRET_QR = "2@canary-qr-code"
FROM_HERE = {"Origin": "http://server"}


async def session(context: Context, name: str = "s1", **fields: Any) -> None:
    """A session that shows a code."""
    new = sessions.NewSession(name, "972501234567", 0, direct="direct")
    await sessions.create(context.scripts, new, per_proxy=4, per_phone=4)
    shown = {"status": State.QR_READY, "reason": Reason.SCAN_THE_CODE, "label": "Haifa", "device_name": "Ubuntu"}
    await context.redis.hset(keys.session(name), mapping={key: str(value) for key, value in (shown | fields).items()})
    now_ms = await context.scripts.now_ms()
    await link_codes.put(context.scripts, name, StoredLinkCode(SECRET_QR, "", now_ms + 60_000, now_ms))


async def made(stranger: httpx.AsyncClient, **body: Any) -> str:
    """The path of a new link."""
    answer = await stranger.post("/api/sessions/s1/scan-link", headers=ADMIN, json=body)
    assert answer.status_code == 201, answer.text
    return "/l/" + str(answer.json()["link"]).rpartition("/l/")[2]


def stage(page: httpx.Response) -> str:
    found = re.search(r'data-stage="(\w+)"', page.text)
    assert found is not None, page.text[:500]
    return found[1]


async def test_a_code_is_shown_only_after_the_button_and_never_again_after_one_success(
    context: Context, stranger: httpx.AsyncClient
) -> None:
    await session(context)
    path = await made(stranger)
    for _ in range(2):  # messengers preview links: opening starts nothing
        page = await stranger.get(path)
        assert (page.status_code, stage(page)) == (200, "start")
        assert 'class="code"' not in page.text
    assert (await stranger.post(path, headers=FROM_HERE)).status_code == 303
    page = await stranger.get(path)
    assert stage(page) == "code"
    assert 'class="code"' in page.text
    await context.redis.hset(keys.session("s1"), "reason", Reason.SCAN_AGAIN)
    assert stage(await stranger.get(path)) == "again"
    online: dict[Any, Any] = {"status": State.CONNECTED, "connected_at": str(await context.scripts.now_ms())}
    await context.redis.hset(keys.session("s1"), mapping=online)
    assert stage(await stranger.get(path)) == "done"
    await context.redis.hset(keys.session("s1"), "status", State.QR_READY)  # logged out again: that is not theirs
    assert stage(await stranger.get(path)) == "done"


@pytest.mark.parametrize("language", ["en", "he"])
async def test_the_page_says_who_asks_what_it_allows_and_how_to_undo_it_in_the_customers_language(
    context: Context, stranger: httpx.AsyncClient, language: str
) -> None:
    context.settings = context.settings.model_copy(update={"operator_name": "Oren <Motors>"})
    await session(context)
    path = await made(stranger, language=language)
    page = await stranger.get(path, headers={"Accept-Language": "fr"})
    said = texts(language)
    assert f'lang="{language}"' in page.text
    assert "Oren &lt;Motors&gt;" in page.text
    assert "+972" in page.text
    for name in ("guest.undo", "guest.unexpected", "guest.allow"):
        assert said[name] in page.text
    assert said["guest.allow_text"].partition("{who}")[2] in page.text
    assert (
        f'lang="{"he" if language == "en" else "en"}"'
        in (await stranger.get(f"{path}?lang={'he' if language == 'en' else 'en'}")).text
    )


async def test_wrong_withdrawn_and_replaced_links_look_alike_and_show_nothing(
    context: Context, stranger: httpx.AsyncClient
) -> None:
    await session(context)
    replaced, current = await made(stranger), await made(stranger)
    wrong = [replaced, "/l/s1.AAAA", "/l/nobody.AAAA", "/l/x", "/l/" + "a" * 500]
    pages = [await stranger.get(path) for path in wrong]
    assert {(page.status_code, stage(page)) for page in pages} == {(404, "gone")}
    assert len({re.sub(r"\?v=\w+", "", page.text) for page in pages}) == 1
    assert not re.search(r"Haifa|972501234567|\bs1\b", pages[0].text)
    assert (await stranger.post(replaced, headers=FROM_HERE)).status_code == 303
    assert stage(await stranger.get(current)) == "start"
    await stranger.delete("/api/sessions/s1/scan-link", headers=ADMIN)
    assert stage(await stranger.get(current)) == "gone"


async def test_another_site_cannot_press_the_button_and_the_address_goes_nowhere(
    context: Context, stranger: httpx.AsyncClient
) -> None:
    await session(context)
    path = await made(stranger)
    foreign = await stranger.post(path, headers={"Origin": "https://evil.example.com"})
    assert foreign.status_code == 403
    page = await stranger.get(path)
    assert stage(page) == "start"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "noindex" in page.headers["x-robots-tag"]
    assert "set-cookie" not in page.headers
    audit = (await stranger.get("/api/v1/audit", headers=ADMIN)).text
    assert path.rpartition(".")[2] not in audit
    stored = await context.redis.hgetall(keys.scan_link("s1"))
    assert path.rpartition(".")[2] not in str(stored)


async def test_codes_that_ran_out_are_shown_anew_three_times_at_most(
    context: Context, stranger: httpx.AsyncClient
) -> None:
    await session(context)
    path = await made(stranger)
    ran_out: dict[Any, Any] = {"status": State.FAILED, "reason": Reason.QR_EXPIRED}
    for press in range(3):
        await stranger.post(path, headers=FROM_HERE)
        await context.redis.hset(keys.session("s1"), mapping=ran_out)
        assert stage(await stranger.get(path)) == ("ran_out" if press < 2 else "gone")


async def test_a_link_that_is_used_up_starts_no_session_however_often_it_is_pressed(
    context: Context, stranger: httpx.AsyncClient
) -> None:
    await session(context)
    path = await made(stranger)
    ran_out: dict[Any, Any] = {"status": State.FAILED, "reason": Reason.QR_EXPIRED}
    states = []
    for _ in range(5):
        await stranger.post(path, headers=FROM_HERE)
        states.append(await context.redis.hget(keys.session("s1"), "status"))
        await context.redis.hset(keys.session("s1"), mapping=ran_out)
    # The first press found a code on the screen; two more may have the session show new ones.
    assert states == ["qr_ready", "pending", "pending", "failed", "failed"]


async def test_whoever_has_linked_by_it_can_neither_start_the_session_again_nor_ask_for_codes(
    context: Context, stranger: httpx.AsyncClient
) -> None:
    await session(context)
    path = await made(stranger)
    await stranger.post(path, headers=FROM_HERE)
    await context.redis.hset(keys.session("s1"), "connected_at", str(await context.scripts.now_ms()))
    # An operator has logged it out since, and links another phone: its code is not the guest's to replace.
    assert (await stranger.post(path, headers=FROM_HERE, data={"how": "code"})).status_code == 303
    assert await commands.take(context.scripts, "s1") is None
    ran_out: dict[Any, Any] = {"status": State.FAILED, "reason": Reason.QR_EXPIRED}
    await context.redis.hset(keys.session("s1"), mapping=ran_out)
    await stranger.post(path, headers=FROM_HERE)
    assert await context.redis.hget(keys.session("s1"), "status") == State.FAILED


async def test_a_guest_has_whatsapp_asked_for_a_pairing_code_a_few_times_only(
    context: Context, stranger: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def count(*_: object, **__: object) -> dict[str, object]:
        nonlocal asked
        asked += 1
        return {"ok": True}

    monkeypatch.setattr(command_calls, "call", count)
    await session(context)
    path = await made(stranger)
    for _ in range(10):
        assert (await stranger.post(path, headers=FROM_HERE, data={"how": "code"})).status_code == 303
    assert asked == scan_link.MOST_PAIRING_CODES


async def test_a_linked_session_needs_no_link(context: Context, stranger: httpx.AsyncClient) -> None:
    await session(context, status=State.CONNECTED)
    answer = await stranger.post("/api/sessions/s1/scan-link", headers=ADMIN, json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "ALREADY_LINKED")
