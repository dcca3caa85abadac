"""Eleven real sessions and everything that can go wrong with them; pictures of every page meanwhile: `make trouble`.

The product runs as an operator runs it, against the simulated WhatsApp. Each trouble must be in "Needs attention" and in
an alert within ten seconds; the script prints the seconds of each and fails when one is late. Whether the sentences and
the numbers on the pictures are true is for a person to see.
"""

import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from playwright.sync_api import Browser, sync_playwright

from tests.dashboard import serving
from tests.dashboard.browsing import CHROMIUM, FLAGS, log_in, visit
from tests.dashboard.screenshots import Camera, Scene, afternoon
from tests.orchestrator.product import Product, running_product
from tests.processes import free_port
from tests.waiting import promised, until_blocking
from wa_orchestrator.domain.proxy import Patience
from wa_orchestrator.orchestrator.notifications.lasting_troubles import PATIENCE_MS

#: Session ids and labels; some people write theirs in Hebrew.
LABELS = {
    "haifa": "Haifa branch",
    "jerusalem": "סניף ירושלים",
    "support": "Support line",
    "sales": "Sales",
    "deliveries": "Deliveries",
    "billing": "גבייה",
    "bookings": "Bookings",
    "repairs": "Repairs",
    "club": "Customers’ club",
    "pharmacy": "Pharmacy",
    "clinic": "Clinic",
}
PROXIES = 3
CAMPAIGN = 1600
_BATCH = 800
_FIRST_PHONE = 972501000001
_FIRST_CUSTOMER = 972524400000
#: Within which everything that needs a person is on the page and in an alert.
PROMISE_S = 10.0
_GIVE_UP_S = 100.0
_HOUR_S = 3600
#: A check that failed is repeated after this time, before a proxy is called bad.
_CONFIRM_S = Patience().confirm_ms / 1000
_SLOW_S = PATIENCE_MS / 1000
SETTINGS = {
    "timezone": afternoon(),
    "dashboard_password": serving.PASSWORD,
    "telegram_bot_token": "123456789:AAExampleExampleExampleExample",
    "telegram_chat_id": "-1001234567890",
    "allow_private_urls": "true",
    "ack_timeout_ms": 6000,
    "queue_limit": 2 * CAMPAIGN,
}


@dataclass
class Stage:
    """The running product, and which session has which part."""

    product: Product
    on_dying_proxy: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    customers: Iterator[int] = field(default_factory=lambda: iter(range(_FIRST_CUSTOMER, _FIRST_CUSTOMER + 10_000)))

    def phone(self, session: str) -> str:
        return str(_FIRST_PHONE + list(LABELS).index(session))

    def cast(self) -> None:
        """Link all sessions, and see which proxies they are on: one with four of them will die."""
        self.product.link(*LABELS, first_phone=_FIRST_PHONE, labels=LABELS)
        proxy_of = {name: each["proxyId"] for name, each in self.product.sessions().items()}
        dying = max(set(proxy_of.values()), key=lambda proxy: (list(proxy_of.values()).count(proxy), proxy))
        self.on_dying_proxy = [name for name in LABELS if proxy_of[name] == dying]
        self.others = [name for name in LABELS if proxy_of[name] != dying]

    def send(self, session: str, count: int = 1) -> list[str]:
        """Send so many messages from a session to new customers; return their ids."""
        text = "Your order is ready. We are open until seven."
        body = {"message": text, "sessionId": session, "onLimit": "defer"}
        batch = [body | {"to": str(next(self.customers))} for _ in range(count)]
        answer = self.product.api.post("/api/v1/send/batch", json={"messages": batch})
        assert answer.is_success, answer.text
        assert answer.json()["refused"] == 0, answer.text
        return [each["messageId"] for each in answer.json()["items"]]

    def send_until(self, session: str, status: str) -> None:
        """Send a message, and wait until it has this status."""
        (message,) = self.send(session)
        path = f"/api/v1/messages/{message}"
        self.product.until(lambda: self.product.api.get(path).json()["status"] == status, f"a message is {status}")

    def fault(self, session: str, kind: str, **more: object) -> None:
        self.product.fault({"phone": self.phone(session)}, kind, **more)

    def needs(self) -> list[str]:
        """Return the lines of "Needs attention"."""
        found = self.product.api.get("/api/v1/dashboard/stats").json()["alerts"]
        return [f"{each['what']} {each['do']}" for each in found]

    def alerts(self) -> list[dict[str, Any]]:
        """Return what Telegram got."""
        return list(self.product.world.get("/telegram").json())


# -- what goes wrong --------------------------------------------------------------------------------------------------


def add_failing_webhook(stage: Stage) -> None:
    body = {"url": f"http://127.0.0.1:{free_port()}/events", "events": ["session.*"]}
    assert stage.product.api.post("/api/v1/webhooks", json=body).is_success
    stage.fault(stage.others[6], "drop")  # an event to deliver


def cut_off(stage: Stage) -> None:
    stage.fault(stage.others[0], "drop", seconds=_HOUR_S)


def unlink_on_the_phone(stage: Stage) -> None:
    stage.send(stage.others[1], 3)
    stage.product.world.post(f"/phones/{stage.phone(stage.others[1])}/unlink")


def ban(stage: Stage) -> None:
    stage.send(stage.others[2], 2)
    stage.fault(stage.others[2], "ban")


def ban_for_an_hour(stage: Stage) -> None:
    stage.fault(stage.others[3], "temporary_ban", seconds=_HOUR_S)


def lock_reachout(stage: Stage) -> None:
    stage.fault(stage.others[4], "reachout_lock", seconds=_HOUR_S)


def submit_campaign(stage: Stage) -> None:
    for _ in range(CAMPAIGN // _BATCH):
        stage.send(stage.others[5], _BATCH)


def refuse_a_message(stage: Stage) -> None:
    stage.fault(stage.others[6], "ack_error", code=400)
    stage.send_until(stage.others[6], "failed")


def never_confirm_a_message(stage: Stage) -> None:
    session = stage.on_dying_proxy[0]
    stage.fault(session, "no_receipts")
    stage.fault(session, "ack_delay", seconds=_HOUR_S)
    stage.send_until(session, "unknown")


def kill_proxy(stage: Stage) -> None:
    """Its sessions need four slots and the others have one free; those that failed or must be scanned give theirs."""
    via = {each["phone"]: each["proxy"] for each in stage.product.connections()}
    dead = {"proxy": via[stage.phone(stage.on_dying_proxy[0])]}
    stage.product.fault(dead, "refuse")
    stage.product.fault(dead, "drop")


def ask_to_send_less(stage: Stage) -> None:
    session = stage.on_dying_proxy[3]
    stage.fault(session, "ack_error", code=429)
    stage.send(session)


def fail_backup(stage: Stage) -> None:
    """Directories where the file of today's backup should be, and tomorrow's; also root cannot replace them."""
    api, today = stage.product.api, datetime.now(ZoneInfo(afternoon()))
    for day in (today, today + timedelta(days=1)):
        (stage.product.home / "data" / "backups" / f"backup_{day:%Y-%m-%d}.zip").mkdir(parents=True)
    assert api.post("/api/v1/backups/create").is_success
    stage.product.until(lambda: any(each["error"] for each in api.get("/api/v1/backups").json()["latest"]), "a failure")


@dataclass(frozen=True)
class Trouble:
    """Something that needs a person: how to make it, and what people must be told."""

    name: str
    make: Callable[[Stage], None] | None
    """None: it follows from the trouble before it."""
    shown: str
    alerted: str
    patience_s: float = 0
    """It may mend itself: it is shown, and need be alerted, only after this time."""


TROUBLES = (
    Trouble("webhook fails", add_failing_webhook, "webhook", "webhook", _SLOW_S),
    Trouble("disconnected for long", cut_off, "offline since", "Disconnected", _SLOW_S),
    Trouble("unlinked on the phone", unlink_on_the_phone, "unlinked on the phone at .* 3 messages wait", "unlinked"),
    Trouble("banned", ban, "WhatsApp banned", "banned"),
    Trouble("temporarily banned", ban_for_an_hour, "WhatsApp suspended", "suspended|[Tt]emporar"),
    Trouble("reach-out lock", lock_reachout, "locked", "new contacts"),
    Trouble("message given up", refuse_a_message, "1 message failed", "could not be sent|failed"),
    Trouble("message never confirmed", never_confirm_a_message, "never confirmed", "never confirmed"),
    Trouble("asked to send less", ask_to_send_less, "asked .* to send less", "asked to send less"),
    Trouble("backup failed", fail_backup, "The last backup failed", "backup failed"),
    Trouble("proxy dead", kill_proxy, "proxy .* is bad", "Proxy failed", _CONFIRM_S),
    Trouble("waiting for a slot", None, "proxy slot", "proxy slot", _CONFIRM_S),
    Trouble("a queue of days", submit_campaign, "The queue of", "queue"),
)


@dataclass
class Watch:
    """A trouble that was made, and when people learned of it."""

    trouble: Trouble
    made_at: float
    alerts_before: int
    shown_after_s: float | None = None
    alerted_after_s: float | None = None

    def look(self, stage: Stage) -> bool:
        """Note whether it is shown and alerted by now; return whether both are."""
        due_at = self.made_at + self.trouble.patience_s
        if self.shown_after_s is None and any(re.search(self.trouble.shown, line) for line in stage.needs()):
            self.shown_after_s = max(0.0, time.time() - due_at)
        if self.alerted_after_s is None:
            sent = [each for each in stage.alerts() if each["n"] > self.alerts_before]
            if found := [each["at"] for each in sent if re.search(self.trouble.alerted, each["text"])]:
                self.alerted_after_s = max(0.0, found[0] - due_at)
        return self.shown_after_s is not None and self.alerted_after_s is not None

    @property
    def late(self) -> bool:
        seconds = (self.shown_after_s, self.alerted_after_s)
        return any(each is None or each > promised(PROMISE_S) for each in seconds)

    def __str__(self) -> str:
        told = ("never" if each is None else f"{each:.1f} s" for each in (self.shown_after_s, self.alerted_after_s))
        return "{:26} shown {:>8}  alerted {:>8}{}".format(self.trouble.name, *told, "  LATE" if self.late else "")


def make_all(stage: Stage) -> list[Watch]:
    """Make one trouble after the other; wait until people know of each that does not take long."""
    made: list[Watch] = []
    for trouble in TROUBLES:
        cause = made[-1] if trouble.make is None else None
        watch = Watch(trouble, cause.made_at, cause.alerts_before) if cause else make(stage, trouble)
        if trouble.patience_s < _SLOW_S:
            wait_for(stage, watch)
        made.append(watch)
    return made


def make(stage: Stage, trouble: Trouble) -> Watch:
    """Make a trouble. Where a message has to fail first, it begins when that has happened."""
    before = max((each["n"] for each in stage.alerts()), default=0)
    asked_at = time.time()
    assert trouble.make is not None
    trouble.make(stage)
    return Watch(trouble, asked_at if trouble.patience_s else time.time(), before)


def wait_for(stage: Stage, watch: Watch) -> None:
    """Wait until people know of a trouble, but not forever."""
    try:
        until_blocking(lambda: watch.look(stage), watch.trouble.name, watch.trouble.patience_s + _GIVE_UP_S)
    except AssertionError:
        say(f"Needs attention: {stage.needs()}")
        say(f"alerts: {[each['text'] for each in stage.alerts() if each['n'] > watch.alerts_before]}")
    say(str(watch))


def say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


# -- what needs nobody, but belongs on the pages ----------------------------------------------------------------------


def everyday(stage: Stage) -> None:
    """Everybody sends something, one customer opts out; the operator pauses a session and changes two others."""
    for session in LABELS:
        stage.send(session)
    session = stage.others[4]
    customer = str(_FIRST_CUSTOMER + list(LABELS).index(session))
    arrived = f"{customer} has a message of {session}"
    stage.product.until(lambda: stage.product.world.get(f"/phones/{customer}/inbox").json(), arrived)
    stage.product.world.post(f"/phones/{customer}/say", json={"to": stage.phone(session), "text": "STOP"})
    api = stage.product.api
    stage.product.until(lambda: api.get("/api/v1/opt-outs").json()["optOuts"], "an opt-out")
    body = {"sessionId": stage.on_dying_proxy[1], "why": "Stocktaking until Monday"}
    assert api.post("/api/anti-ban/holds", json=body).is_success
    assert api.put(f"/api/sessions/{stage.others[4]}/presence", json={"presence": "never"}).is_success
    assert api.put(f"/api/anti-ban/sessions/{stage.others[6]}/limits", json={"perDay": 15}).is_success
    stage.product.until(lambda: stage.product.sessions()[stage.others[4]]["status"] == "connected", "a new presence")


def restart(stage: Stage, browser: Browser, into: Path) -> None:
    """Restart the server as an upgrade does; an open page says meanwhile that it is gone."""
    address = str(stage.product.api.base_url)
    pages = []
    for language in ("en", "he"):
        page = log_in(visit(browser, address, language=language), address, serving.PASSWORD)
        page.wait_for_selector("body[data-live]")
        pages.append((page, into / f"gone-{language}.png"))
    stage.product.end(signal.SIGTERM)
    for page, path in pages:
        page.wait_for_selector(".live.stale")
        page.screenshot(path=path)
        page.context.close()
    stage.product.start()


def pages(stage: Stage) -> dict[str, str]:
    """Return every page, with the trouble that belongs there."""
    cut, unlinked, banned, suspended, locked, campaign, refused = stage.others
    parts = {"cut": cut, "unlinked": unlinked, "banned": banned, "suspended": suspended, "locked": locked}
    parts |= {"campaign": campaign, "refused": refused, "unconfirmed": stage.on_dying_proxy[0]}
    parts |= {"held": stage.on_dying_proxy[1], "slowed": stage.on_dying_proxy[3]}
    return {
        "fleet": "/",
        "scan": f"/scan?id={unlinked}",
        **{f"session-{name}": f"/sessions/{session}" for name, session in parts.items()},
        "messages": "/messages",
        "messages-failed": "/messages?status=failed",
        "messages-unknown": "/messages?status=unknown",
        "messages-queued": "/messages?status=queued",
        "proxies": "/proxies",
        "anti-ban": "/anti-ban",
        "live-log": "/live-log",
        "settings": "/settings",
    }


def photograph(stage: Stage, browser: Browser, into: Path) -> None:
    """Take every page in both languages, both themes and both widths."""
    camera = Camera(browser, str(stage.product.api.base_url).rstrip("/"), into, lambda: None)
    camera.shoot(Scene(pages(stage)), "")


def play(stage: Stage, browser: Browser, into: Path) -> list[Watch]:
    """Link the fleet, make every trouble, restart the server, and take the pictures."""
    stage.cast()
    say(f"linked; the proxy of {', '.join(stage.on_dying_proxy)} will die")
    everyday(stage)
    made = make_all(stage)
    restart(stage, browser, into)
    say("restarted")
    for watch in made:
        if watch.trouble.patience_s == _SLOW_S:
            wait_for(stage, watch)
    photograph(stage, browser, into)
    return made


def main(folder: str) -> int:
    """Run it all; return how many troubles people learned of too late."""
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wao-trouble-") as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with running_product(Path(home), PROXIES, **SETTINGS) as product:
            made = play(Stage(product), browser, into)
        browser.close()
    return report(made)


def report(made: Sequence[Watch]) -> int:
    for watch in made:
        say(str(watch))
    return sum(watch.late for watch in made)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
