"""Eleven real sessions and everything that can go wrong with them; pictures of every page meanwhile: `make trouble`.

The product runs as an operator runs it, against the simulated WhatsApp. Each trouble must be in "Needs attention" and in
an alert within ten seconds; the script prints the seconds of each and fails when one is late, or when a page is broken.
Whether the sentences and the numbers on the pictures are true is for a person to see.
"""

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench import _results
from playwright.sync_api import Browser, sync_playwright

from tests.dashboard import serving
from tests.dashboard.browsing import CHROMIUM, FLAGS, log_in, visit
from tests.dashboard.trouble_pages import COMPLETE_LAST, LANGUAGES, Photographer, pages
from tests.dashboard.trouble_stage import PROXIES, SETTINGS, Stage, everyday
from tests.dashboard.troubles import SLOW_S, TROUBLES, Trouble
from tests.orchestrator.product import running_product
from tests.waiting import promised, until_blocking

#: Within which everything that needs a person is on the page and in an alert.
PROMISE_S = 10.0
_GIVE_UP_S = 100.0


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
        if trouble.patience_s < SLOW_S:
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


def restart(stage: Stage, browser: Browser, into: Path) -> None:
    """Restart the server as an upgrade does; an open page says meanwhile that it is gone."""
    address = str(stage.product.api.base_url)
    left_open = []
    for language in LANGUAGES:
        page = log_in(visit(browser, address, language=language), address, serving.PASSWORD)
        page.wait_for_selector("body[data-live]")
        left_open.append((page, into / f"gone-{language}.png"))
    stage.product.end(signal.SIGTERM)
    for page, path in left_open:
        page.wait_for_selector(".live.stale")
        page.screenshot(path=path)
        page.context.close()
    stage.product.start()


def play(stage: Stage, browser: Browser, into: Path) -> int:
    """Link the fleet, make every trouble, restart the server, and take the pictures; return how much is wrong."""
    stage.cast()
    say(f"linked; the proxy of {', '.join(stage.on_dying_proxy)} will die")
    everyday(stage)
    made = make_all(stage)
    restart(stage, browser, into)
    say("restarted")
    photographer = Photographer(browser, str(stage.product.api.base_url).rstrip("/"), into)
    slow = [watch for watch in made if watch.trouble.patience_s == SLOW_S]
    with ThreadPoolExecutor(len(slow)) as threads:  # pictures take as long as what may mend itself is waited for
        waiting = [threads.submit(wait_for, stage, watch) for watch in slow]
        photographer.take({name: path for name, path in pages(stage).items() if name not in COMPLETE_LAST})
        for each in waiting:
            each.result()
    photographer.take({name: path for name, path in pages(stage).items() if name in COMPLETE_LAST})
    return report(made, photographer)


def report(made: Sequence[Watch], photographer: Photographer) -> int:
    """Print and keep what was measured; return how many troubles people learned of too late, and faults of pages."""
    for line in (*made, *photographer.faults, f"{photographer.pictures} pictures"):
        say(str(line))
    seconds = {
        each.trouble.name: {"shown_s": _rounded(each.shown_after_s), "alerted_s": _rounded(each.alerted_after_s)}
        for each in made
    }
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    found = {"pictures": photographer.pictures, "broken_pages": len(photographer.faults)}
    _results.keep(
        "trouble", {"command": "python -m tests.dashboard.trouble", "machine": machine, **found, "troubles": seconds}
    )
    return sum(watch.late for watch in made) + len(photographer.faults)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def main(folder: str) -> int:
    """Run it all; return how much is wrong."""
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wao-trouble-") as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with running_product(Path(home), PROXIES, **SETTINGS) as product:
            wrong = play(Stage(product), browser, into)
        browser.close()
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
