"""Pictures of every page of a fleet in trouble, and what a program can find wrong with them."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import Browser, Page

from tests.dashboard import serving
from tests.dashboard.browsing import log_in, visit
from tests.dashboard.trouble_stage import Stage, conversations

LANGUAGES = {"en": "ltr", "he": "rtl"}
THEMES = ("light", "dark")
WIDTHS = (1440, 390)
#: The narrowest screen: nothing runs over its edge, but it is not worth a picture of its own.
NARROW = 320
#: What a program shows that forgot to say something.
NOT_WORDS = ("None", "undefined", "NaN", "[object", "{n}", "{since}", "Traceback")
_MISSING = "missing"
#: Pages with troubles that show only after some minutes; a one-time link is valid for some.
COMPLETE_LAST = frozenset({"fleet", "session-cut", "groups-cut", "live-log", "settings", "guest"})


def guest_page(stage: Stage, session: str) -> str:
    """Return the page of a one-time link to a session's code."""
    made = stage.product.api.post(f"/api/sessions/{session}/scan-link")
    assert made.is_success, made.text
    return str(urlsplit(made.json()["link"]).path)


def pages(stage: Stage) -> dict[str, str]:
    """Return every page, with the trouble that belongs there."""
    cut, unlinked, banned, suspended, locked, campaign, refused = stage.others
    parts = {"cut": cut, "unlinked": unlinked, "banned": banned, "suspended": suspended, "locked": locked}
    parts |= {"campaign": campaign, "refused": refused, "unconfirmed": stage.on_dying_proxy[0]}
    parts |= {"held": stage.on_dying_proxy[1], "slowed": stage.on_dying_proxy[3]}
    chats = conversations(stage)
    return {
        "fleet": "/",
        "scan": f"/scan?id={unlinked}",
        "import": "/import",
        "passkey": f"/link/{unlinked}/passkey",
        **{f"session-{name}": f"/sessions/{session}" for name, session in parts.items()},
        **{f"inbox-{name}": f"/inbox?c={chats[session]}" for name, session in parts.items() if session in chats},
        **{
            f"groups-{name}": f"/sessions/{session}/groups?{urlencode({'group': stage.groups.get(session, '')})}"
            for name, session in {"cut": cut, "banned": banned, "refused": refused}.items()
        },
        "inbox": "/inbox",
        "contacts": "/contacts",
        "contact-opted-out": f"/contacts?who={stage.opted_out}",
        "campaigns": "/campaigns",
        "campaign-paused": f"/campaigns/{stage.campaign}",
        "guest": guest_page(stage, unlinked),
        "messages": "/messages",
        "messages-failed": "/messages?status=failed",
        "messages-unknown": "/messages?status=unknown",
        "messages-queued": "/messages?status=queued",
        "proxies": "/proxies",
        "anti-ban": "/anti-ban",
        "live-log": "/live-log",
        "radar": "/radar",
        "backups": "/backups",
        "jobs": "/jobs",
        "nodes": "/nodes",
        "people": "/people",
        "audit": "/audit",
        "settings": "/settings",
        _MISSING: "/nope",
    }


@dataclass
class Photographer:
    """Takes every page in both languages, both themes and both widths, and notes what is broken on it.

    A page is opened once for each language; its theme and its width are changed as a person does.
    """

    browser: Browser
    address: str
    into: Path
    pictures: int = 0
    faults: list[str] = field(default_factory=list)

    def take(self, pages: Mapping[str, str]) -> None:
        for language in LANGUAGES:
            page = log_in(visit(self.browser, self.address, language=language), self.address, serving.PASSWORD)
            for name, path in pages.items():
                self._take(page, f"{name}-{language}", path)
            page.context.close()

    def _take(self, page: Page, name: str, path: str) -> None:
        errors: list[str] = []
        page.on("pageerror", note := lambda error: errors.append(str(error)))
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        answer = page.goto(self.address + path)
        page.wait_for_selector("h1")
        if page.locator('[data-watch]:not([data-watch=""])').count():  # the page of a one-time link has none
            page.wait_for_selector("body[data-live]")
        page.evaluate("document.querySelectorAll('details.fold').forEach((each) => { each.open = true; })")
        text = page.inner_text("body")
        (self.into / f"{name}.txt").write_text(text + "\n", "utf-8")
        for width, theme in itertools.product(WIDTHS, THEMES):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate("(theme) => { document.documentElement.dataset.theme = theme }", theme)
            page.screenshot(path=self.into / f"{name}-{theme}-{width}.png", full_page=True, animations="disabled")
            self.pictures += 1
        page.remove_listener("pageerror", note)
        expected = 404 if name.startswith(_MISSING) else 200
        if answer is None or answer.status != expected:
            errors.append(f"answered {answer.status if answer else 'nothing'}")
        self.faults += [f"{name}: {fault}" for fault in (*errors, *_broken(page, name[-2:], text))]


def _broken(page: Page, language: str, text: str) -> Iterator[str]:
    """Say what a program can see: it runs over the edge, runs the wrong way, or shows what is no text."""
    for width in (*WIDTHS, NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if over > 0:
            yield f"{over} px too wide at {width} px"
    shown = page.evaluate("[document.documentElement.lang, document.documentElement.dir]")
    if shown != [language, LANGUAGES[language]]:
        yield f"is {shown}"
    yield from (f"says {word!r}" for word in NOT_WORDS if word in text)
