"""A live page is rendered once per change for all who watch it, and nobody gets what is not meant for them."""

import asyncio
from collections.abc import Mapping

import pytest
from markupsafe import Markup
from redis.asyncio import Redis

from tests.dashboard import serving
from tests.waiting import PATIENCE_S, until
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard import live
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.renderer import Renderer, View
from wa_orchestrator.dashboard.live import Hub, PageStream
from wa_orchestrator.store import keys

VIEWERS = 10


class Watched:
    """A page whose renderings are counted, and its viewers."""

    def __init__(self, redis: Redis) -> None:
        context = make_context(serving.settings(3001), redis)
        self.redis = redis
        fleet = SnapshotReader(context)
        self.hub, self.renderer = Hub(context, fleet), Renderer(context, fleet)
        self.made: list[str] = []

    async def parts(self, _renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
        self.made.append(view.language)
        return {"number": Markup(f"{view.language} {len(self.made)}")}

    def stream(self, language: str = "en", rights: str = "reader", **query: str) -> PageStream:
        async def view() -> View:
            return await self.renderer.view_as(None, "anti-ban", language)

        return PageStream(
            self.hub, self.renderer, {"page": "anti-ban", **query}, view, self.parts, sight=(language, rights)
        )

    async def happen(self) -> None:
        """Something happens, and the hub reads it."""
        await self.redis.xadd(keys.EVENTS, {"type": "session.connected", "session": "s_1", "at": 1})
        await self.hub.step()


async def _next(feeds: list[object]) -> list[str]:
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*(anext(feed) for feed in feeds))  # type: ignore[call-overload]


async def test_ten_who_watch_a_page_share_one_rendering_per_change(redis: Redis) -> None:
    page = Watched(redis)
    feeds = [page.stream().run("") for _ in range(VIEWERS)]
    await _next(feeds)  # hello
    first = await _next(feeds)
    assert len(page.made) == 1
    assert len(set(first)) == 1
    await page.happen()
    second = await _next(feeds)
    assert len(page.made) == 2
    assert len(set(second)) == 1
    assert "en 2" in second[0]
    for feed in feeds:
        await feed.aclose()


async def test_other_languages_rights_and_filters_have_renderings_of_their_own(redis: Redis) -> None:
    page = Watched(redis)
    streams = [page.stream(), page.stream("he"), page.stream(rights="administrator"), page.stream(q="x")]
    feeds = [stream.run("") for stream in streams]
    await _next(feeds)
    shown = await _next(feeds)
    assert sorted(page.made) == ["en", "en", "en", "he"]
    assert len(set(shown)) == 4
    for feed in feeds:
        await feed.aclose()


async def test_a_viewer_who_leaves_does_not_take_the_rendering_from_the_others(redis: Redis) -> None:
    page = Watched(redis)
    leaves, stays = page.stream().run(""), page.stream().run("")
    await _next([leaves, stays])
    waiting = asyncio.ensure_future(anext(leaves))
    shown = asyncio.ensure_future(anext(stays))
    await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(PATIENCE_S):
        assert "en 1" in await shown
    await stays.aclose()


async def test_without_an_open_page_the_hub_is_not_woken_by_events(redis: Redis) -> None:
    page = Watched(redis)
    assert await page.hub.step() > 0  # it did not wait for an event
    await page.happen()
    assert page.hub.last_event_ms == 1


async def test_a_page_that_opens_wakes_the_hub(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_UNWATCHED_S", 3600.0)
    page = Watched(redis)
    first = await redis.xadd(keys.EVENTS, {"type": "session.connected", "session": "s_1", "at": 1})
    running = asyncio.create_task(page.hub.run())
    try:
        await until(lambda: page.hub.cursor == first, "the hub to read the first event")
        feeds = [page.stream().run("")]
        await _next(feeds)
        second = await redis.xadd(keys.EVENTS, {"type": "session.connected", "session": "s_1", "at": 2})
        await until(lambda: page.hub.cursor == second, "the hub to read the second event")
    finally:
        running.cancel()
        await asyncio.wait([running])
