"""What the commands of the documents are run against: one product with a simulated world, and what placeholders stand for."""

import base64
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pyrage

from tests.backups import archives
from tests.domain.test_baileys_account import creds
from tests.processes import PRODUCT, Program, bare_environment
from tests.waiting import PATIENCE_S, until_blocking
from wa_orchestrator.server import secrets

#: The small fleet of `up --simulate --fleet 2`.
FLEET = {"support": "972500000001", "sales": "972500000002"}
FRIEND = "972527700001"
STRANGER = "972527700002"
ASKING = "972527700003"
SETTINGS = {
    "TIMEZONE": "UTC", "TIME_SCALE": "20", "PROVISIONING_INTERVAL_MS": "100", "COLD_PER_DAY": "1000",
    "COLD_PER_MINUTE": "1000", "RATE_LIMIT_PER_MINUTE": "100000", "ALLOW_PRIVATE_URLS": "true",
}  # fmt: skip
_SENT = ("sent", "delivered", "read")
_PICTURE = base64.b64encode(bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9")).decode()
#: Not bound by anybody: deliveries of a webhook are refused there at once.
_NOBODY = "http://127.0.0.1:9"


@dataclass
class World:
    """A running product, its simulated phones, and what the examples of the documents need."""

    home: Path
    url: str
    api_key: str
    api: httpx.Client
    phones: httpx.Client
    backup_key: pyrage.x25519.Identity = field(default_factory=pyrage.x25519.Identity.generate)
    delivery: str = ""
    """The one that was queued last."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    # -- calls --------------------------------------------------------------------------------------------------------

    def get(self, path: str, **query: Any) -> Any:
        """Return what the server answers."""
        return self.api.get(path, params=query).raise_for_status().json()

    def post(self, path: str, **body: Any) -> Any:
        """Return what the server answers."""
        answer = self.api.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else {}

    def control(self, path: str, **body: Any) -> Any:
        """Let something happen in the simulated world."""
        answer = self.phones.post(path, json=body or None)
        assert answer.is_success, answer.text
        return answer.json()

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _status(self, session_id: str) -> str:
        answer = self.api.get(f"/api/sessions/{session_id}/status")
        return str(answer.json()["status"]) if answer.is_success else ""

    def connected(self, session_id: str = "support") -> str:
        """Return a session that is connected."""
        until_blocking(lambda: self._status(session_id) == "connected", f"{session_id} to be connected")
        return session_id

    def new_session(self, session_id: str = "", **body: Any) -> str:
        """Return a session that nobody has linked; one of this name is used again."""
        name = session_id or f"spare_{next(self._numbers)}"
        if not self._status(name):
            self.post("/api/sessions/provision", sessionId=name, **body)
        return name

    def with_code(self, session_id: str = "") -> str:
        """Return a session that shows a code."""
        name = self.new_session(session_id)
        until_blocking(lambda: self._status(name) == "qr_ready", f"{name} to show a code")
        return name

    def scan(self, session_id: str, phone: str, is_over: Callable[[], bool] = lambda: False) -> None:
        """Scan or type each code that a session shows with a simulated phone, until it is connected."""
        used: set[str] = set()

        def step() -> bool:
            answer = self.api.get(f"/api/sessions/{session_id}/qr", headers={"Accept": "application/json"})
            shown = answer.json() if answer.status_code == httpx.codes.OK else {}
            code = shown.get("qr") or shown.get("code")
            if code and code not in used:
                used.add(code)
                how = ("scan", {"qr": code}) if "qr" in shown else ("enter-code", {"code": code})
                self.phones.post(f"/phones/{phone}/{how[0]}", json=how[1])
            return is_over() or self._status(session_id) == "connected"

        until_blocking(step, f"{session_id} to be linked")

    def scan_new(self, before: set[str], is_over: Callable[[], bool]) -> None:
        """Link the session that was not there before, as the person with its phone would."""
        until_blocking(lambda: is_over() or self.session_ids() - before, "a new session")
        for made in self.session_ids() - before:
            named = self.get(f"/api/sessions/{made}/status")["phone"]
            self.scan(made, named or self.new_phone(), is_over)

    def session_ids(self) -> set[str]:
        """All sessions."""
        return {str(each["sessionId"]) for each in self.get("/api/sessions", limit=500)["sessions"]}

    def new_phone(self) -> str:
        """Return a phone that nobody has used."""
        return str(972501000000 + next(self._numbers))

    # -- messages -----------------------------------------------------------------------------------------------------

    def send(self, **body: Any) -> str:
        """Accept a message."""
        asked = {"to": FRIEND, "message": "Hello", "sessionId": self.connected()} | body
        return str(self.post("/api/v1/send", **asked)["messageId"])

    def _ends_as(self, message_id: str, *statuses: str) -> str:
        until_blocking(
            lambda: self.get(f"/api/v1/messages/{message_id}")["status"] in statuses, f"{message_id} to be {statuses}"
        )
        return message_id

    def sent(self) -> str:
        """Return a message that WhatsApp has."""
        return self._ends_as(self.send(), *_SENT)

    def scheduled(self) -> str:
        """Return a message that waits."""
        return self.send(sendAt=(datetime.now(UTC) + timedelta(days=30)).isoformat())

    def failed(self) -> str:
        """Return a message that was refused, whose cause is gone."""
        phone = self.new_phone()
        self.control(f"/phones/{phone}/unregister")
        return self._ends_as(self.send(to=phone), "failed")

    def received(self) -> str:
        """Return a message that somebody wrote."""
        text = f"Good morning {next(self._numbers)}"
        self.control(f"/phones/{FRIEND}/say", to=FLEET[self.connected()], text=text)
        return self._incoming(lambda data: data.get("text") == text)

    def received_picture(self) -> str:
        """Return a message with a file that somebody sent."""
        name = f"{next(self._numbers)}"
        picture = {"kind": "image", "data": _PICTURE, "mimetype": "image/jpeg", "caption": name}
        self.control(f"/phones/{FRIEND}/say-media", to=FLEET[self.connected()], **picture)
        return self._incoming(lambda data: bool(data.get("media")) and name in json.dumps(data))

    def _incoming(self, fits: Callable[[dict[str, Any]], bool]) -> str:
        def look() -> str | None:
            found = self.get("/api/v1/events", types="message.received", after="0", limit=500)["events"]
            return next((str(each["data"]["messageId"]) for each in found if fits(each["data"])), None)

        return until_blocking(look, "the message that came in")

    def conversation(self) -> str:
        """Return a conversation that somebody began."""
        self.received()
        look = lambda: self.get("/api/v1/conversations")["conversations"]  # noqa: E731
        return str(until_blocking(look, "a conversation")[0]["conversationId"])

    def group(self) -> str:
        """Return a group of the session and two people."""
        members = [FRIEND, STRANGER]
        return str(self.control("/groups", phone=FLEET[self.connected()], subject="Team", members=members)["jid"])

    def group_with_request(self) -> str:
        """Return a group that somebody asks to join."""
        made = self.group()
        path = f"/api/sessions/support/groups/{made}"
        self.api.patch(path, json={"joinApproval": True}).raise_for_status()
        self.control(f"/phones/{ASKING}/join", link=self.get(f"{path}/link")["link"])
        return made

    # -- everything else ----------------------------------------------------------------------------------------------

    def tag(self) -> str:
        """Return a tag that a session has."""
        self.api.patch("/api/sessions/sales", json={"tags": ["north"]}).raise_for_status()
        return "north"

    def profile(self) -> str:
        """Return what a session shows as."""
        return str(self.get("/api/v1/inventory")["profiles"][0]["name"])

    def hold(self) -> str:
        """Return the hold of everything; others are lifted, so that what follows may leave."""
        holds = self.get("/api/anti-ban/holds")["holds"]
        for each in holds[1:]:
            self.api.delete(f"/api/anti-ban/holds/{each['id']}").raise_for_status()
        return str(holds[0]["id"])

    def campaign(self) -> str:
        """Return a draft with more recipients than are written to while this runs."""
        return str(self.post("/api/v1/campaigns", **self._draft())["id"])

    def started_campaign(self) -> str:
        """Return one that runs."""
        made = self.campaign()
        self.post(f"/api/v1/campaigns/{made}/start")
        return made

    def paused_campaign(self) -> str:
        """Return one that is paused."""
        made = self.started_campaign()
        self.post(f"/api/v1/campaigns/{made}/pause")
        return made

    def _draft(self) -> dict[str, Any]:
        rows = "\n".join(str(972527800000 + n) for n in range(30))
        return {
            "name": f"Campaign {next(self._numbers)}", "text": "Hello. To stop, answer STOP.", "consent": "the form of the shop",
            "csv": f"phone\n{rows}\n", "withCold": True,
        }  # fmt: skip

    def backup(self) -> str:
        """Return the newest backup, as a restore names it."""
        return str(self.get("/api/v1/backups")["backups"][0]["id"])

    def encrypted_backup(self) -> str:
        """Return the id of a copy of the newest backup that only `key.txt` opens."""
        newest = self.get("/api/v1/backups")["backups"][0]
        directory = self.home / "backups"
        if not (directory / "backup_2026-02-28.zip.age").exists():
            sealed = pyrage.encrypt((directory / newest["file"]).read_bytes(), [self.backup_key.to_public()])
            (directory / "backup_2026-02-28.zip.age").write_bytes(sealed)
        return "backup_2026-02-28"

    def backup_with_secrets(self) -> str:
        """Return the file of an encrypted backup, which has the secrets of its installation."""
        place = self.home / self.file()
        files = archives.contents(place) | {"secrets.json": json.dumps({"api_key": self.api_key}).encode()}
        plain = archives.write(place / "backup.zip", [("manifest.json", archives.manifest(files)), *files.items()])
        sealed = place / "backup_2026-02-28.zip.age"
        sealed.write_bytes(pyrage.encrypt(plain.read_bytes(), [self.backup_key.to_public()]))
        return str(sealed)

    def new_proxy_url(self) -> str:
        """Return the URL of a proxy that the server does not know."""
        return str(self.control("/proxies")["url"])

    def proxy(self) -> str:
        """Return a proxy of the server without sessions."""
        return str(self.post("/api/v1/proxies", url=self.new_proxy_url())["id"])

    def fleet_proxy(self) -> str:
        """Return the proxy of a session."""
        return str(self.get("/api/sessions/sales/status")["proxy"])

    def person(self) -> str:
        """Return an account."""
        return str(self.post("/api/v1/people", name=f"Person {next(self._numbers)}", role="operator")["id"])

    def key(self) -> str:
        """Return an API key's id."""
        return str(self.post("/api/v1/keys", name="CRM", scopes=["send"])["id"])

    def webhook(self) -> str:
        """Return a webhook whose server is not there."""
        return str(self.post("/api/v1/webhooks", url=_NOBODY, events=["*"])["id"])

    def webhook_with_delivery(self) -> str:
        """Return a webhook that has something to replay."""
        made = self.webhook()
        self.send()
        look = lambda: self.get(f"/api/v1/webhooks/{made}/deliveries")["deliveries"]  # noqa: E731
        self.delivery = str(until_blocking(look, "a delivery")[0]["number"])
        return made

    def login(self) -> str:
        """Return the login of somebody in a browser."""
        password = secrets.stored_secrets(self.home / "data")["dashboard_password"]
        with httpx.Client(base_url=self.url, timeout=PATIENCE_S) as browser:
            browser.post("/login", data={"password": password}, headers={"Origin": self.url})
        return str(self.get("/api/v1/logins")["logins"][0]["id"])

    def trash(self) -> str:
        """Return the credentials of a deleted session."""
        name = self.new_session("thrown_away")
        self.scan(name, self.new_phone())
        self.api.delete(f"/api/sessions/{name}").raise_for_status()
        look = lambda: [each for each in self.get("/api/v1/trash")["trash"] if each["sessionId"] == name]  # noqa: E731
        return str(until_blocking(look, "credentials in the trash")[0]["id"])

    def logged_out(self) -> str:
        """Return a session whose credentials are in the trash, because it was logged out."""
        name = self.new_session()
        self.scan(name, self.new_phone())
        self.post(f"/api/sessions/{name}/logout")
        look = lambda: name in [each["sessionId"] for each in self.get("/api/v1/trash")["trash"]]  # noqa: E731
        until_blocking(look, "credentials in the trash")
        return name

    def file(self, suffix: str = "") -> str:
        """Return the name of a file that is not there yet."""
        return f"out-{next(self._numbers)}{suffix}"


@contextmanager
def documented_world(home: Path) -> Iterator[World]:
    """Run `up --simulate` with a small linked fleet, and put the files of the examples into its directory."""
    command = (*PRODUCT, "up", "--simulate", "--fleet", str(len(FLEET)), "--port", "0", "--gateway-port", "0")
    program = Program(command, log=home / "log", env=bare_environment() | SETTINGS, cwd=home)
    try:
        url = program.said(r"is ready: (http://\S+)")[1]
        key = secrets.stored_secrets(home / "data")["api_key"]
        with httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=PATIENCE_S) as api:
            place = api.get("/api/v1/simulator").raise_for_status().json()["control"]
            with httpx.Client(base_url=place, timeout=PATIENCE_S) as phones:
                world = World(home, url, key, api, phones)
                _write_files(home, world)
                for session_id in FLEET:
                    until_blocking(lambda session_id=session_id: world._status(session_id), "the fleet")  # type: ignore[misc]
                    world.connected(session_id)
                yield world
    finally:
        program.end(signal.SIGINT)  # ends its workers too


def _write_files(home: Path, world: World) -> None:
    files: Mapping[str, bytes] = {
        "people.csv": f"phone,name\n{FRIEND},Dana\n{STRANGER},Oren\n".encode(),
        "messages.jsonl": json.dumps(
            {"to": FRIEND, "poll": {"question": "When?", "options": ["Today", "Later"]}}
        ).encode(),
        "menu.pdf": b"%PDF-1.4\n%%EOF\n",
        "sessions.csv": b"id,phone,label\nlisted,972501000900,Listed\n",
        "opted-out.csv": b"phone\n972527700090\n",
        "proxies.txt": world.new_proxy_url().encode(),
        "key.txt": str(world.backup_key).encode(),
        "noweb/creds.json": json.dumps(creds()).encode(),
    }
    for name, content in files.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_bytes(content)
    for number in range(2):  # room for the sessions of the examples
        assert world.proxy(), number
