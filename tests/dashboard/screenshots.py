"""Takes a picture of every page, in every language, theme and width, into a folder: `make screenshots`."""

import itertools
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from playwright.sync_api import Browser, Page, sync_playwright

from tests.dashboard import sample_conversations, sample_fleet, serving
from tests.dashboard.browsing import CHROMIUM, FLAGS, log_in, visit
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts

PAGES = {
    "fleet": "/",
    "scan": "/scan?id=worker_18",
    "linked": "/scan?id=worker_4",
    "session": "/sessions/worker_4",
    "messages": "/messages?q=972524408814",
    "waiting": "/messages?status=queued",
    "proxies": "/proxies",
    "import": "/import",
    "anti-ban": "/anti-ban",
    "live-log": "/live-log",
    "backups": "/backups",
    "jobs": "/jobs",
    "nodes": "/nodes",
    "people": "/people",
    "audit": "/audit",
    "settings": "/settings",
}
WIDTHS = (1440, 390)


#: One for each hour of the day.
CITIES = (
    "Pacific/Midway", "Pacific/Honolulu", "America/Anchorage", "America/Los_Angeles", "America/Phoenix",
    "America/Mexico_City", "America/Lima", "America/Caracas", "America/Sao_Paulo", "America/Noronha",
    "Atlantic/Azores", "Africa/Accra", "Africa/Lagos", "Asia/Jerusalem", "Africa/Johannesburg", "Africa/Nairobi",
    "Asia/Dubai", "Asia/Karachi", "Asia/Dhaka", "Asia/Bangkok", "Asia/Singapore", "Asia/Tokyo", "Australia/Brisbane",
    "Pacific/Noumea", "Pacific/Fiji",
)  # fmt: skip


def afternoon() -> str:
    """A zone in which it is about two in the afternoon, so that pictures look the same at any hour."""
    now = datetime.now(UTC)
    return min(CITIES, key=lambda city: abs(now.astimezone(ZoneInfo(city)).hour - 14))


Fill = Callable[[Scripts, str], Awaitable[object]]


async def _nothing(_scripts: Scripts, _zone: str) -> None:
    """A server that was started for the first time."""


async def _for_documents(scripts: Scripts, zone: str) -> None:
    await sample_fleet.fill(scripts, zone)
    await sample_conversations.fill_for_documents(sample_fleet.FleetBuilder(scripts, zone))


async def _with_conversations(scripts: Scripts, zone: str) -> None:
    await sample_fleet.fill(scripts, zone)
    await sample_conversations.fill(sample_fleet.FleetBuilder(scripts, zone))


@dataclass(frozen=True)
class Scene:
    """What to take pictures of: the data, the user and the pages."""

    pages: Mapping[str, str]
    fill: Fill = sample_fleet.fill
    password: str = serving.PASSWORD
    simulator: dict[str, Any] | None = None


#: Its pages are in `SHOWN`.
DOCUMENTED = Scene({}, fill=_for_documents)
SCENES = (
    Scene(PAGES),
    DOCUMENTED,
    Scene({"inbox-list": "/inbox", "inbox": f"/inbox?c={sample_conversations.HERE}"}, fill=_with_conversations),
    Scene({"simulated": "/scan?id=worker_18"}, simulator={"control": "http://127.0.0.1:9"}),
    Scene({"viewer": "/", "viewer-refused": "/settings"}, password=serving.VIEWER_PASSWORD),
    Scene({"fleet-500": "/"}, fill=sample_fleet.fill_large),
    Scene({"first-run": "/"}, fill=_nothing),
)


async def _fill(redis_url: str, fill: Fill) -> None:
    redis = LineClient.from_url(redis_url, decode_responses=True)
    await redis.flushall()
    await fill(Scripts(redis), afternoon())
    await redis.aclose()


async def _fresh_code(redis_url: str) -> None:
    """A code lives for a minute, and a round of pictures takes longer."""
    redis = LineClient.from_url(redis_url, decode_responses=True)
    if await redis.hget(keys.session("worker_18"), "status") == "qr_ready":
        await sample_fleet.FleetBuilder(Scripts(redis), afternoon()).code("worker_18")
    await redis.aclose()


@dataclass(frozen=True)
class Camera:
    """Where pictures are taken, and where they go."""

    browser: Browser
    address: str
    into: Path
    renew: Callable[[], object]

    def shoot(self, scene: Scene, only: str) -> None:
        """Take every page of a scene in every language, theme and width."""
        for language, theme, width in itertools.product(("en", "he"), ("light", "dark"), WIDTHS):
            tail = f"{language}-{theme}-{width}.png"
            context = visit(self.browser, self.address, language=language, theme=theme, width=width)
            if scene.pages is PAGES and only in "login":
                page = context.new_page()
                page.goto(f"{self.address}/login")
                page.screenshot(path=self.into / f"login-{tail}", full_page=True)
            page = log_in(context, self.address, scene.password)
            for name, path in scene.pages.items():
                if only in name:
                    self.renew()
                    _page(page, self.address + path, self.into / f"{name}-{tail}")
            context.close()


def _page(page: Page, url: str, path: Path) -> None:
    page.goto(url)
    page.wait_for_selector("h1")
    if page.locator('[data-watch]:not([data-watch=""])').count():  # the page of a one-time link has none
        page.wait_for_selector("body[data-live]")
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        sys.stdout.write(f"{path.name}: {wide} px too wide\n")
    page.evaluate("document.querySelectorAll('details.fold').forEach((each) => { each.open = true; })")
    page.screenshot(path=path, full_page=True)


#: The pictures of the documentation: what a person sees without scrolling.
SHOWN = {
    "fleet": ("/", "en", "light", 1440, 900),
    "inbox": (f"/inbox?c={sample_conversations.HERE}", "en", "light", 1440, 900),
    "scan": ("/scan?id=worker_18", "en", "light", 1280, 640),
    "message": ("/messages?q=972524408814", "en", "light", 1280, 640),
    "proxies": ("/proxies", "en", "dark", 1280, 860),
    "session-hebrew": ("/sessions/worker_4", "he", "light", 1280, 860),
    "fleet-phone": ("/", "he", "dark", 390, 844),
}


def _documents(browser: Browser, address: str, into: Path) -> None:
    for name, (path, language, theme, width, height) in SHOWN.items():
        context = visit(browser, address, language=language, theme=theme, width=width)
        page = log_in(context, address, serving.PASSWORD)
        page.set_viewport_size({"width": width, "height": height})
        page.goto(address + path)
        page.wait_for_selector("body[data-live]")
        page.screenshot(path=into / f"{name}.png")
        context.close()


def main(folder: str, only: str = "") -> None:
    """Take all pictures, or those whose name holds `only`; `documents` are those of the documentation."""
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    thread = serving.Thread()
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        embedded = EmbeddedRedis(Path(home))
        redis_url = thread.do(embedded.__aenter__()).url
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            for scene in SCENES:
                if (
                    scene is DOCUMENTED
                    if only == "documents"
                    else any(only in name for name in (*scene.pages, "login"))
                ):
                    _take(scene, redis_url, browser, into, only)
        finally:
            browser.close()
            thread.do(embedded.__aexit__(None, None, None))
            thread.stop()


def _take(scene: Scene, redis_url: str, browser: Browser, into: Path, only: str) -> None:
    with tempfile.TemporaryDirectory() as home:
        chosen = {"timezone": afternoon(), "simulator": scene.simulator, "data_dir": Path(home)}
        with serving.in_thread(redis_url, **chosen) as (address, loop):
            loop.do(_fill(redis_url, scene.fill), timeout=300)
            if only == "documents":
                _documents(browser, address, into)
            else:
                Camera(browser, address, into, lambda: loop.do(_fresh_code(redis_url))).shoot(scene, only)


if __name__ == "__main__":
    main(*sys.argv[1:])
