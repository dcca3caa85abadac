"""Takes the moving picture of the README from the demo: a phone is linked by its QR, its message is read: `make picture`."""

import io
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.dashboard.browsing import CHROMIUM, FLAGS, log_in, visit
from tests.dashboard.screenshots import afternoon
from tests.processes import PRODUCT, Program, bare_environment
from tests.waiting import until_blocking

FLEET = 3
SESSION, LABEL, PHONE, RECIPIENT = "tel-aviv", "Tel Aviv branch", "972500000044", "972500000001"
TEXT = "Your glasses are ready. We are open until seven."
WIDTH, HEIGHT = 1200, 675
MOST_BYTES = 1_000_000
_MOMENT_S = 90.0


@dataclass
class Film:
    """Pictures of a page, each with how long it is shown."""

    page: Page
    pictures: list[Image.Image] = field(default_factory=list)
    shown_ms: list[int] = field(default_factory=list)

    def take(self, shown_ms: int) -> None:
        """Take a picture of what is in sight."""
        self.pictures.append(Image.open(io.BytesIO(self.page.screenshot())).convert("RGB"))
        self.shown_ms.append(shown_ms)

    def save(self, path: Path) -> int:
        """Write an animated WebP; return its size."""
        first, *others = self.pictures
        first.save(
            path, save_all=True, append_images=others, duration=self.shown_ms, loop=0, quality=70, method=6,
            minimize_size=True,
        )  # fmt: skip
        return path.stat().st_size


@dataclass(frozen=True)
class Demo:
    """The running demo: its address, its password, its API and its phones."""

    url: str
    password: str
    api: httpx.Client
    phones: httpx.Client

    def status(self, path: str) -> str:
        """The status of a session or a message."""
        return str(self.api.get(path).json().get("status"))


@contextmanager
def demo(home: Path) -> Iterator[Demo]:
    """`up --simulate --fleet 3`, when all of it is linked and read."""
    ports = ("--port", "0", "--gateway-port", "0", "--worker-port", "0")
    command = (*PRODUCT, "up", "--simulate", "--fleet", str(FLEET), "--data-dir", str(home / "d"), *ports)
    environment = {**bare_environment(), "TIMEZONE": afternoon(), "PROVISIONING_INTERVAL_MS": "500"}
    program = Program(command, cwd=home, env=environment, log=home / "demo.log")
    try:
        program.said("messages were read", 240)
        url = program.said(r"ready: (http://\S+)")[1]
        secrets = json.loads((home / "d" / "secrets.json").read_text("utf-8"))
        with httpx.Client(base_url=url, headers={"X-API-Key": secrets["api_key"]}, timeout=60) as api:
            control = api.get("/api/v1/simulator").json()["control"]
            with httpx.Client(base_url=control, timeout=60) as phones:
                yield Demo(url, secrets["dashboard_password"], api, phones)
    finally:
        program.end(signal.SIGINT)


def act(running: Demo, film: Film) -> None:
    """The fleet, a new session with its code, the scan, a message on its way, the message read, the fleet again."""
    page = film.page
    _open(page, f"{running.url}/")
    film.take(2500)

    body = {"sessionId": SESSION, "label": LABEL, "phone": PHONE}
    running.api.post("/api/sessions/provision", json=body).raise_for_status()
    until_blocking(lambda: running.status(f"/api/sessions/{SESSION}/status") == "qr_ready", "a code", _MOMENT_S)
    _open(page, f"{running.url}/scan?id={SESSION}")
    page.wait_for_selector("#qr-card .qr[data-s=qr_ready] svg.code")
    film.take(3000)

    def linked() -> bool:
        shown = running.api.get(f"/api/sessions/{SESSION}/qr")
        if shown.is_success:
            running.phones.post(f"/phones/{PHONE}/scan", json={"qr": shown.json()["qr"]})
        return running.status(f"/api/sessions/{SESSION}/status") == "connected"

    until_blocking(linked, "the phone is linked", _MOMENT_S)
    page.wait_for_selector("#qr-card[data-state=connected]")
    film.take(2500)

    sent = running.api.post("/api/v1/send", json={"to": RECIPIENT, "message": TEXT, "sessionId": SESSION})
    message = sent.raise_for_status().json()["messageId"]
    until_blocking(lambda: running.status(f"/api/v1/messages/{message}") in ("sent", "delivered"), "sent", _MOMENT_S)
    _open(page, f"{running.url}/messages?q={message}")
    film.take(2500)
    until_blocking(lambda: running.status(f"/api/v1/messages/{message}") == "read", "read", _MOMENT_S)
    _open(page, f"{running.url}/messages?q={message}")
    film.take(3500)

    _open(page, f"{running.url}/")
    film.take(2500)


def _open(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("body[data-live]")


def main(target: str) -> int:
    """Write the picture. Fails where it is too heavy for a README."""
    with tempfile.TemporaryDirectory() as home, demo(Path(home)) as running, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = log_in(visit(browser, running.url, width=WIDTH), running.url, running.password)
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        film = Film(page)
        act(running, film)
        browser.close()
    size = film.save(Path(target))
    print(f"{target}: {len(film.pictures)} pictures, {size / 1000:.0f} kB")
    return int(size > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
