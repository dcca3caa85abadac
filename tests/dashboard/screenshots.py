"""Takes a picture of every page, in every language, theme and width, into a folder: `make screenshots`."""

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from redis.asyncio import Redis

from tests.dashboard import serving, stage
from tests.dashboard.browsing import CHROMIUM, FLAGS
from wa_orchestrator.store.scripts import Scripts

PAGES = {
    "fleet": "/",
    "scan": "/scan?id=worker_18",
    "session": "/sessions/worker_4",
    "messages": "/messages?q=972524408814",
    "waiting": "/messages?status=queued",
    "proxies": "/proxies",
    "anti-ban": "/anti-ban",
    "live-log": "/live-log",
    "settings": "/settings",
}
WIDTHS = (1440, 390)


async def _furnish(redis_url: str, *, empty: bool = False) -> None:
    redis = Redis.from_url(redis_url, decode_responses=True)
    await redis.flushall()
    if not empty:
        await stage.furnish(Scripts(redis))
    await redis.aclose()


def _shoot(browser: Browser, address: str, into: Path, only: str) -> None:
    for language in ("en", "he"):
        for theme in ("light", "dark"):
            for width in WIDTHS:
                context = browser.new_context(viewport={"width": width, "height": 900}, device_scale_factor=1)
                context.add_cookies(
                    [
                        {"name": name, "value": value, "url": address}
                        for name, value in (("lang", language), ("theme", theme))
                    ]
                )
                page = context.new_page()
                page.goto(f"{address}/login")
                tail = f"{language}-{theme}-{width}.png"
                if only in "login":
                    page.screenshot(path=into / f"login-{tail}", full_page=True)
                page.fill("[name=password]", serving.PASSWORD)
                page.fill("[name=name]", "Dana")
                page.press("[name=name]", "Enter")
                page.wait_for_selector("#main h1")
                for name, path in PAGES.items():
                    if only in name:
                        _page(page, address + path, into / f"{name}-{tail}")
                context.close()


def _page(page: Page, url: str, path: Path) -> None:
    page.goto(url)
    page.wait_for_selector("h1")
    page.wait_for_function("!document.querySelector('#live') || window.spent.events > 0")
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        sys.stdout.write(f"{path.name}: {wide} px too wide\n")
    page.screenshot(path=path, full_page=True)


def main(folder: str, only: str = "") -> None:
    """Take all pictures, or those of pages whose name holds `only`."""
    from wa_orchestrator.store.embedded import EmbeddedRedis

    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    thread = serving.Thread()
    embedded = EmbeddedRedis(into / "redis")
    redis_url = thread.do(embedded.__aenter__()).url
    try:
        with serving.in_thread(redis_url) as (address, loop), sync_playwright() as playwright:
            loop.do(_furnish(redis_url))
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            _shoot(browser, address, into, only)
            browser.close()
    finally:
        thread.do(embedded.__aexit__(None, None, None))
        thread.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
