"""A page whose server goes away says so, and when it is back nothing that happened meanwhile is missing or doubled."""

import asyncio
import contextlib
import re
from collections.abc import Iterator, Mapping
from functools import partial

import pytest
from markupsafe import Markup
from playwright.sync_api import Browser, expect
from redis.asyncio import Redis

from tests.dashboard import serving
from tests.dashboard.browsing import log_in, visit
from tests.waiting import PATIENCE_S
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard import live
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.renderer import Renderer, View
from wa_orchestrator.dashboard.live import Hub, PageStream
from wa_orchestrator.dashboard.pages import live_log
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.sessions import passkeys
from wa_orchestrator.store.sessions.passkeys import PasskeyCeremony
from wa_orchestrator.texts.catalogue import texts


@contextlib.contextmanager
def served(thread: serving.Thread, redis_url: str, port: int) -> Iterator[str]:
    """The dashboard at this port, for as long as the block lasts."""
    context = serving.serving(redis_url, serving.settings(port), lambda _: [], None)
    address, _ = thread.do(context.__aenter__())
    try:
        yield address
    finally:
        thread.do(context.__aexit__(None, None, None))


async def happen(redis_url: str, mark: str, numbers: range) -> None:
    """So many events, each with a number of its own."""
    redis = LineClient.from_url(redis_url, decode_responses=True)
    for number in numbers:
        await redis.xadd(keys.EVENTS, {"type": "session.connected", "session": f"{mark}_{number:03d}", "at": number})
    await redis.aclose()


async def test_the_id_that_a_browser_keeps_is_never_ahead_of_what_it_was_sent(redis: Redis) -> None:
    context = make_context(serving.settings(3001), redis)
    fleet = SnapshotReader(context)
    hub, renderer = Hub(context, fleet), Renderer(context, fleet)
    ids = [await redis.xadd(keys.EVENTS, {"type": "session.connected", "session": f"s_{n}", "at": n}) for n in range(4)]
    hub.cursor = ids[-1]
    view = await renderer.view_as(None, "live-log", "en")

    async def look() -> View:
        return view

    feed = PageStream(hub, renderer, {"page": "live-log"}, look, live_log.parts).run(ids[0])
    hello, *parts, lines = [await anext(feed) for _ in range(3)]
    await feed.aclose()
    assert hello.startswith(f"id: {ids[0]}\nevent: hello"), "it has seen no more than before"
    assert all(part.startswith(f"id: {ids[0]}\nevent: parts") for part in parts)
    assert lines.startswith(f"id: {ids[-1]}\nevent: lines")
    assert [f"s_{n}" in lines for n in range(4)] == [False, True, True, True]


@pytest.mark.parametrize(
    ("happened", "most", "lines", "told"),
    [(3, 5, 3, ""), (6, 5, 0, "log.gap_unknown"), (450, 2000, 400, "log.gap.other")],
)
async def test_a_log_that_cannot_show_everything_says_so(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, happened: int, most: int, lines: int, told: str
) -> None:
    monkeypatch.setattr(live, "_MAX_MISSED", most)
    context = make_context(serving.settings(3001), redis)
    fleet = SnapshotReader(context)
    hub, renderer = Hub(context, fleet), Renderer(context, fleet)
    pipe = redis.pipeline()
    for number in range(happened + 1):
        pipe.xadd(keys.EVENTS, {"type": "session.connected", "session": f"s_{number}", "at": number})
    ids = await pipe.execute()
    hub.cursor = ids[-1]
    view = await renderer.view_as(None, "live-log", "en")

    async def look() -> View:
        return view

    feed = PageStream(hub, renderer, {"page": "live-log"}, look, live_log.parts).run(ids[0])
    async with asyncio.timeout(PATIENCE_S):
        sent = [await anext(feed) for _ in range(3)][-1]
    await feed.aclose()
    assert sent.count("<details") == lines
    assert ('class=\\"gap\\"' in sent) is bool(told)
    if told:
        n = view.number(happened - lines)
        assert view.t(told, n=n, most=view.number(most)).striptags() in sent


async def test_what_changes_while_a_page_opens_its_stream_reaches_it(redis: Redis) -> None:
    context = make_context(serving.settings(3001), redis)
    fleet = SnapshotReader(context)
    hub, renderer = Hub(context, fleet), Renderer(context, fleet)
    hub.cursor = str(await redis.xadd(keys.EVENTS, {"type": "session.connected", "session": "s_1", "at": 1}))
    view = await renderer.view_as(None, "anti-ban", "en")

    async def look() -> View:
        return view

    async def parts(_renderer: Renderer, _view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
        await redis.xadd(keys.EVENTS, {"type": "contact.opted_out", "at": 2})
        return {"opt-outs": Markup("two")}

    feed = PageStream(hub, renderer, {"page": "anti-ban"}, look, parts).run(hub.cursor)
    async with asyncio.timeout(PATIENCE_S):
        _, first = [await anext(feed) for _ in range(2)]
    await feed.aclose()
    assert "event: parts" in first
    assert "two" in first


async def test_a_step_of_a_passkey_before_the_stream_opens_reaches_the_page(redis: Redis, scripts: Scripts) -> None:
    context = make_context(serving.settings(3001), redis)
    fleet = SnapshotReader(context)
    hub, renderer = Hub(context, fleet), Renderer(context, fleet)
    await redis.xadd(keys.EVENTS, {"type": "session.connected", "session": "s_1", "at": 1})
    shown_until = hub.cursor = await event_stream.last_cursor(scripts)
    await passkeys.put(scripts, "s_1", PasskeyCeremony("confirm", 1, 2, code="PYSL-SH11"))

    async def parts(_renderer: Renderer, _view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
        made = await passkeys.get(scripts, "s_1")
        return {"passkey": Markup("{}").format(made.code if made else "")}

    view = partial(renderer.view_as, None, "passkey", "en")
    feed = PageStream(hub, renderer, {"page": "passkey", "id": "s_1"}, view, parts).run(shown_until)
    async with asyncio.timeout(PATIENCE_S):
        sent = [await anext(feed) for _ in range(2)][-1]
    await feed.aclose()
    assert "event: parts" in sent
    assert "PYSL-SH11" in sent


@pytest.mark.browser
@pytest.mark.parametrize("language", ["en", "he"])
def test_a_stream_that_broke_off_says_so_and_goes_on_without_losing_an_event(
    redis_url: str, chromium: Browser, language: str
) -> None:
    thread, port, mark = serving.Thread(), serving.free_port(), f"numbered_{language}"
    context = visit(chromium, f"http://127.0.0.1:{port}", language=language)
    with served(thread, redis_url, port) as address:
        page = log_in(context, address, serving.PASSWORD)
        page.goto(address + "/live-log")
        page.wait_for_selector("body[data-live]")
        thread.do(happen(redis_url, mark, range(5)))
        expect(page.locator("#log .who", has_text=f"{mark}_004")).to_be_visible()
    away = texts(language)["script.away"].partition("{")[0]
    expect(page.locator("#live.away")).to_contain_text(away)
    thread.do(happen(redis_url, mark, range(5, 25)))
    with served(thread, redis_url, port):
        expect(page.locator("#log .who", has_text=f"{mark}_024")).to_be_visible()
        expect(page.locator("#live")).not_to_have_class(re.compile("stale"))
        thread.do(happen(redis_url, mark, range(25, 30)))
        expect(page.locator("#log .who", has_text=f"{mark}_029")).to_be_visible()
        seen = page.locator("#log .who", has_text=f"{mark}_").all_inner_texts()
        assert seen == [f"{mark}_{number:03d}" for number in reversed(range(30))]
        context.close()
    thread.stop()
