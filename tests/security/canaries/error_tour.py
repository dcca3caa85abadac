"""Provokes the errors of an installation with planted secrets, and keeps everything that it says meanwhile."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any, Final

import httpx

from tests.backups import archives
from tests.dispatcher.scenario import Scenario, settle
from tests.messages.conftest import Worker
from tests.orchestrator.fakes import Teller
from tests.security.canaries.planted import NEW_PROXY, PROXY, SECRETS, Said
from tests.security.fleet import MINE, TwoCustomers, fields_of
from tests.security.test_key_walk import ENDLESS
from tests.security.visitor import ORIGIN, Visitor, person
from wa_orchestrator.dashboard import second_factor_seal
from wa_orchestrator.dashboard.app import PAGES
from wa_orchestrator.dashboard.routes.actions import ACTIONS
from wa_orchestrator.domain.access.permissions import Only, Scope
from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.domain.proxies.proxy_health import ProxyFailure
from wa_orchestrator.domain.sessions.session import Reason
from wa_orchestrator.domain.workers.worker_events import TYPES
from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.orchestrator import installation_check
from wa_orchestrator.orchestrator.backups.sent_journal import SentJournal
from wa_orchestrator.orchestrator.backups.service import BackupService
from wa_orchestrator.orchestrator.notifications.alert_texts import Alert, text_of
from wa_orchestrator.orchestrator.notifications.alerts import Alerts
from wa_orchestrator.orchestrator.notifications.webhooks import WebhookDeliverer
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store import keys, proxies, records
from wa_orchestrator.store.access import people
from wa_orchestrator.store.engine import durability
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.texts.catalogue import languages

ADMIN: Final = {"X-API-Key": SECRETS["API_KEY"]}
#: What a person may type, or a worker report, where no secret belongs.
TYPED: Final = f"{NEW_PROXY} {SECRETS['age key']} Bearer {SECRETS['another API key']}"
#: Archives that this version does not write.
NEWER, UNSAFE = "backup_2026-01-30", "backup_2026-01-31"


class ErrorTour:
    """Asks, and notes every answer and its code."""

    def __init__(self, fleet: TwoCustomers) -> None:
        self.fleet = fleet
        self.context = fleet.context
        self.said = Said()
        self.met: set[str] = set()

    async def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Make a request as the administrator, unless it has other headers."""
        answer = await self.fleet.client.request(method, path, **{"headers": ADMIN} | request)
        self.note(f"{method} {path[:60]}", answer)
        return answer

    def note(self, where: str, answer: httpx.Response) -> None:
        """Keep what was answered. What a person has typed may be shown to that person, but in no error."""
        self.said.add(where, f"{answer.text} {answer.headers}", is_error=answer.is_error)
        if answer.headers.get("content-type", "").startswith("application/json"):
            self.met.update(_codes(answer.json()))

    async def plant(self) -> None:
        """Put the secrets where an installation keeps them."""
        scripts = self.context.scripts
        await installation_check.add_configured_proxies(self.context)
        hook = webhooks.Webhook("w_canary", "http://127.0.0.1:1/x", (), SECRETS["webhook secret"], "0-0", 1)
        await webhooks.put(scripts, hook)
        await self.context.redis.set(keys.phone_of(HIDDEN_LID), "")  # somebody has written who hides the phone
        account = await person(self.fleet, "Dana", password=SECRETS["account password"])
        sealed = second_factor_seal.close(self.context.settings, account, SECRETS["second factor"].encode())
        await people.update(scripts, await person(self.fleet, "Gal"), totp=sealed)

    # -- clients ------------------------------------------------------------------------------------------------------

    async def clients(self) -> None:
        """Ask every operation with secrets in everything that can be typed, and some with keys that do not open it."""
        for method, path, body in _REFUSED_REQUESTS:
            await self.ask(method, path, json=body)
        limited = await self.fleet.key(Scope.READ, reach=Only(sessions=frozenset({MINE})))
        for method, path, operation in self._operations():
            there = _filled(self.fleet, path)
            await self.ask(method, there, content=f'{{"a": "{NEW_PROXY}"'.encode())
            names = fields_of(self.fleet, operation)
            await self.ask(method, there, json=dict.fromkeys([*names, "extra"], TYPED), params={"cursor": TYPED})
        for headers in ({}, {"X-API-Key": SECRETS["another API key"]}, limited):
            await self.ask("GET", "/api/v1/proxies", headers=headers)
        await self.ask("POST", "/api/v1/keys", headers=await self.fleet.key(Scope.SEND), json={})

    def _operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for path, methods in self.fleet.app.openapi()["paths"].items():
            for method, operation in methods.items():
                if f"{method.upper()} {path}" != ENDLESS:
                    yield method.upper(), path, operation

    # -- workers ------------------------------------------------------------------------------------------------------

    async def workers(self) -> None:
        """Let workers report every failure, every event and every end of a connection, with secrets in their words."""
        async with self._worker_client() as client:
            await self._failures(client)
            teller = Teller(self.context, client)
            for kind, shape in TYPES.items():
                words = {_json_name(each.name): f"cannot connect: {PROXY}" for each in fields(shape)}
                self.note(kind, await teller.tell(MINE, kind, words))
                usual = {"code": 408, "at": 1, "status": "proxy", "qr": "2@x", "stage": "failed", "active": True}
                self.note(kind, await teller.tell(MINE, kind, words | usual))
            for code in (401, 402, 403, 405, 406, 408, 428, 440, 503, 515):
                self.note("DISCONNECTED", await teller.disconnected(MINE, code, f"via {PROXY}"))
            self.note("no signature", await teller.tell(MINE, "PING", {}, secret="whsec_" + "A" * 44))

    async def _failures(self, client: httpx.AsyncClient) -> None:
        """A worker gives a message back for every reason that there is."""
        scenario = Scenario(self.context.scripts, self.context.settings)
        waiting = {}
        for number, failure in enumerate(Failure):
            await scenario.connect(f"f{number}", f"97254{number:07d}")
            waiting[failure] = Worker(client, self.context.settings, f"f{number}", scenario.epochs[f"f{number}"])
            await scenario.accept(f"f{number}", f"97254{number:07d}", to=f"97253{number:07d}")
        await settle(scenario.dispatcher())
        for failure, worker in waiting.items():
            claimed = await worker.claim()
            assert claimed is not None, failure
            body = {"code": failure, "error": f"cannot connect: {PROXY}", "retryable": True}
            self.note(failure, await worker.call(f"{claimed['messageId']}/nack", body))
            self.note(failure, await worker.call(f"{claimed['messageId']}/ack", {"whatsappId": TYPED}))

    @asynccontextmanager
    async def _worker_client(self) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(self.fleet.workers, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            yield client

    # -- backups, Redis, receivers ------------------------------------------------------------------------------------

    async def backups(self) -> None:
        """Make a backup whose copies fail, one that cannot be made, and restore what cannot be restored."""
        settings = self.context.settings
        await self.fleet.control.lease.step()
        archives.auth_db(credential_files.directory(settings, MINE) / "auth.db", MINE)
        service = BackupService(self.context, self.fleet.control.pool, SentJournal(self.context))
        for _ in range(2):
            await self.ask("POST", "/api/v1/backups/create")
            await service.step()
            (credential_files.directory(settings, MINE) / "auth.db").write_bytes(b"SQLite format 3\0 and no more")
        listed = (await self.ask("GET", "/api/v1/backups")).json()
        made = listed["backups"][0]
        assert made["copied"] is False
        assert listed["latest"][0]["error"]
        self.said.add("note of a backup", (settings.backups_dir / f"{made['file']}.json").read_text())
        restore = f"/api/v1/backups/restore/{made['id']}"
        await self.ask("POST", restore, json={})
        await self.ask("POST", restore, json={"identity": SECRETS["another API key"]})
        opened = {"identity": SECRETS["age key"]}
        await self.ask("POST", restore, json=opened | {"dryRun": True})
        await self.ask("POST", restore, json=opened | {"sessions": ["nobody"], "acceptOlder": True})
        path = settings.backups_dir / made["file"]
        path.write_bytes(path.read_bytes()[:-40])
        await self.ask("POST", restore, json=opened)
        self._refused_archives()
        for name in (NEWER, UNSAFE):
            await self.ask("POST", f"/api/v1/backups/restore/{name}", json=opened)

    def _refused_archives(self) -> None:
        directory = self.context.settings.backups_dir
        files = archives.contents(self.context.settings.data_dir)
        newer = [("manifest.json", archives.manifest(files, format=99)), *files.items()]
        archives.write(directory / f"{NEWER}.zip", newer)  # type: ignore[arg-type]
        outside = files | {"../outside": TYPED.encode()}
        unsafe = [("manifest.json", archives.manifest(outside)), *outside.items()]
        archives.write(directory / f"{UNSAFE}.zip", unsafe)  # type: ignore[arg-type]

    async def redis_away(self) -> None:
        """Ask for a Redis that does not answer."""
        try:
            await durability.check(f"redis://:{SECRETS['password of Redis']}@127.0.0.1:1/0")
        except OrchestratorError as error:
            self.met.add(error.code)
            self.said.add("Redis that is away", f"{error.text} {error.details}")

    async def receivers(self) -> None:
        """Deliver alerts and events to receivers that are away, and read what the alerts say."""
        for language in languages():
            told: Any = await self.context.redis.xrange(keys.EVENTS)
            alerts = [
                Alert(each["type"], each.get("session", ""), each.get("reason", each.get("note", "")), 0)
                for _, each in told
            ]
            self.said.add("alerts", text_of(alerts, language))
            self.said.add("events", json.dumps(told))
        alerts_loop = Alerts(self.context, gap_s=0)
        for _ in range(2):
            await alerts_loop.step()
        deliverer = WebhookDeliverer(self.context)
        await deliverer.step()
        await deliverer.idle()

    # -- people -------------------------------------------------------------------------------------------------------

    async def pages(self) -> None:
        """Look at every page in every language, with a session for every reason and a proxy for every failure."""
        for number, reason in enumerate(Reason):
            await self.context.redis.hset(
                keys.session(f"f{number}"), mapping={"reason": reason, "status": "failed", "note": TYPED}
            )
        for failure in ProxyFailure:
            name = f"p_{failure.lower()}"[:20]
            await proxies.add(self.context.scripts, name, url=PROXY, masked="proxy.example.com:1080", origin="operator")
            await self.context.redis.hset(keys.proxy(name), mapping={"status": "BAD", "reason": failure})
        dana = Visitor(self.fleet)
        await self._strangers(dana)
        await dana.log_in("Dana", password=SECRETS["account password"])
        csrf = {"Origin": ORIGIN, "X-CSRF-Token": await dana.token()}
        known = [f"f{number}" for number in range(len(Reason))]
        for language in languages():
            await dana.client.post("/choose", headers=csrf, data={"language": language, "back": "/"})
            for path in PAGES:
                self.note(path, await dana.client.get(path.replace("{id}", known[0])))
            self.note("/account", await dana.client.get("/account"))
            self.note("/messages", await dana.client.get("/messages", params={"state": "failed"}))
        for one in known[1:4]:  # the page of the fleet has them all
            self.note(f"/sessions/{one}", await dana.client.get(f"/sessions/{one}"))
        for action in ACTIONS:
            form = dict.fromkeys(("id", "url", "proxy", "name", "text", "session", "phone", "identity", "key"), TYPED)
            self.note(action, await dana.client.post(f"/do/{action}", headers=csrf, data=form))
        for path in ("/account/password", "/account/factor-confirm", "/account/factor-off"):
            form = {"current": SECRETS["account password"] + "x", "password": "x", "code": "1", "new": "x"}
            self.note(path, await dana.client.post(path, headers=csrf, data=form))
        self.note("/do/hold", await dana.client.post("/do/hold", headers={"Origin": "https://evil.example.com"}))

    async def _strangers(self, visitor: Visitor) -> None:
        """Mistype passwords: they are right but for one letter."""
        for name, secret in (("", "DASHBOARD_PASSWORD"), ("", "VIEWER_PASSWORD"), ("Gal", "account password")):
            form = {"name": name, "password": f"{SECRETS[secret]}x"}
            self.note("/login", await visitor.client.post("/login", headers={"Origin": ORIGIN}, data=form))

    async def broken(self) -> None:
        """Let the server itself fail, with an address and a token in the words of the error."""
        token = tokens.mint(self.context.settings, MINE, 1).token
        before = records.sessions

        async def fails(*_: Any, **__: Any) -> Any:
            raise RuntimeError(f"no connection to {PROXY} with {token} and {SECRETS['TELEGRAM_BOT_TOKEN']}")

        records.sessions = fails
        try:
            await self.ask("GET", "/metrics")
            await self.ask("GET", "/api/sessions")
        finally:
            records.sessions = before
        self.note("/metrics", await self.fleet.client.get("/metrics"))


HIDDEN_LID: Final = "123456789012345"
_CAMPAIGN: Final = {"name": "x", "text": "hello", "consent": "They signed up in the shop."}
#: Requests that are refused with more than a fixed sentence.
_REFUSED_REQUESTS: Final[tuple[tuple[str, str, Any], ...]] = (
    (
        "POST",
        "/api/v1/send",
        {"to": "972531111111", "media": {"url": f"http://u:{SECRETS['age key']}@127.0.0.1:1/x.png"}},
    ),
    ("POST", "/api/v1/send", {"to": "972531111111", "media": {"url": "http://127.0.0.1:1/x.png"}}),
    ("POST", "/api/v1/send", {"to": "0501234567", "message": "x"}),
    ("POST", "/api/v1/opt-outs", {"phone": HIDDEN_LID}),
    ("POST", "/api/v1/send", {"to": "972531111111", "message": "x", "sessionId": "nobody"}),
    ("POST", "/api/v1/proxies", {"url": NEW_PROXY.replace("socks5h", "http")}),
    ("POST", "/api/v1/proxies", {"url": PROXY}),
    ("POST", "/api/v1/proxies/import", {"text": f"{NEW_PROXY.replace('socks5h', 'http')}\n{PROXY}\n:::{TYPED}"}),
    ("POST", "/api/sessions/provision", {"sessionId": "new", "proxy": NEW_PROXY}),
    ("PATCH", "/api/sessions/mine", {"proxy": NEW_PROXY}),
    ("POST", "/api/v1/inventory/profiles", {"name": "Ubuntu"}),
    ("POST", "/api/v1/inventory/profiles", {"name": "/"}),
    ("DELETE", "/api/v1/inventory/profiles?name=Ubuntu", None),
    ("DELETE", "/api/v1/inventory/profiles?name=Nowhere", None),
    ("DELETE", "/api/anti-ban/tag-limits?tag=nobody", None),
    ("PATCH", "/api/sessions/mine", {"proxy": "p_0000000000"}),
    ("POST", "/api/sessions/import", {"files": {"creds.json": TYPED}, "oldPlaceIsOff": True}),
    ("POST", "/api/sessions/import-list", {"text": f"id,phone,proxy\nx1,,{NEW_PROXY}\nx2,,{PROXY}x\n"}),
    ("POST", "/api/anti-ban/holds", {"group": "nobody"}),
    ("POST", "/api/v1/jobs/nothing/run", {}),
    ("POST", "/api/v1/people", {"name": "Dana", "role": "viewer"}),
    ("POST", "/api/v1/campaigns", _CAMPAIGN | {"csv": "phone\n"}),
    ("POST", "/api/v1/campaigns", _CAMPAIGN | {"text": "STOP ends it", "csv": "phone\n0501\n", "skipBadLines": True}),
    (
        "POST",
        "/api/v1/campaigns",
        _CAMPAIGN | {"text": "hello, to stop answer STOP", "csv": "phone\n0501\n972531111111\n"},
    ),
)


def _codes(body: Any) -> Iterator[str]:
    """Yield the codes of an answer, also those of its rows."""
    match body:
        case dict():
            for name, value in body.items():
                if name in ("code", "reason", "error") and isinstance(value, str):
                    yield value
                else:
                    yield from _codes(value)
        case list():
            for each in body:
                yield from _codes(each)


def _json_name(attribute: str) -> str:
    first, *others = attribute.removesuffix("_ms").split("_")
    return "from" if attribute == "sender" else first + "".join(map(str.capitalize, others))


def _filled(fleet: TwoCustomers, path: str) -> str:
    """A path with the ids of the first customer; one that nobody has where there is none."""
    known = {
        "session_id": MINE,
        "message_id": fleet.messages[MINE],
        "conversation_id": fleet.conversations[MINE],
    }
    for name in [part.partition("}")[0] for part in path.split("{")[1:]]:
        path = path.replace(f"{{{name}}}", known.get(name, "x_0123456789ab"))
    return path
