"""Takes a picture of every page, in every language, theme and width, into a folder: `make screenshots`."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from redis.asyncio import Redis

from tests.dashboard import serving, stage
from tests.dashboard.browsing import CHROMIUM, FLAGS, log_in, visit
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


def afternoon() -> str:
    """A zone in which it is about two in the afternoon, so that pictures look the same at any hour."""
    ahead = (14 - datetime.now(UTC).hour + 11) % 24 - 11
    return f"Etc/GMT{-ahead:+d}" if ahead else "UTC"


async def _furnish(redis_url: str) -> None:
    redis = Redis.from_url(redis_url, decode_responses=True)
    await redis.flushall()
    await stage.furnish(Scripts(redis), afternoon())
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
    page.wait_for_selector("body[data-live]")
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        sys.stdout.write(f"{path.name}: {wide} px too wide\n")
    page.screenshot(path=path, full_page=True)


#: The pictures of the documentation: what a person sees without scrolling.
SHOWN = {
    "fleet": ("/", "en", "light", 1440, 900),
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
    """Take all pictures, or those of pages whose name holds `only`; `documents` are the six of the documentation."""
    from wa_orchestrator.store.embedded import EmbeddedRedis

    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    thread = serving.Thread()
    embedded = EmbeddedRedis(into / "redis")
    redis_url = thread.do(embedded.__aenter__()).url
    try:
        with serving.in_thread(redis_url, timezone=afternoon()) as (address, loop), sync_playwright() as playwright:
            loop.do(_furnish(redis_url))
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            if only == "documents":
                _documents(browser, address, into)
            else:
                _shoot(browser, address, into, only)
            browser.close()
    finally:
        thread.do(embedded.__aexit__(None, None, None))
        thread.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
