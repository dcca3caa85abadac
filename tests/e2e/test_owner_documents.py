"""The owner's documents as a client and as a worker: endpoints, payloads and settings as they are written there.

Elsewhere: names of containers and their restart (tests/runner/test_docker.py), the compose file and its addresses
(tests/deploy/test_files.py), its commands (tests/deploy/test_compose.py), presence and the message to oneself
(tests/worker/test_life.py, worker/test/keepalive.test.ts).
"""

import json
import os
import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from standardwebhooks.webhooks import Webhook

from tests.processes import PRODUCT, Program, bare_environment, whole_server
from tests.waiting import PATIENCE_S, until_blocking
from wa_orchestrator.domain.pacing import limits
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.errors import BadSettings
from wa_orchestrator.server import secrets as generated
from wa_orchestrator.settings import Settings, build, read
from wa_orchestrator.store.engine import embedded_redis

pytestmark = pytest.mark.slow

PHONE = "972501234567"
CHAT = "-1001234567890"
#: The first session gets a worker at once. The next one would start after this, so a test speaks for its worker.
START_INTERVAL_MS = 6 * 3_600_000


@dataclass
class Installation:
    """A running server, and an outside world for its first session."""

    api: httpx.Client
    phones: httpx.Client
    proxies: list[str] = field(repr=False)
    data_dir: Path
    redis: Redis = field(repr=False)

    def worker_of(self, session_id: str) -> "Worker":
        """A worker that is written from the documents, with what `worker-env` prints."""
        printed = subprocess.run(
            [*PRODUCT, "sessions", "worker-env", session_id, "--json", "--data-dir", str(self.data_dir)],
            env=bare_environment(), cwd=self.data_dir, capture_output=True, check=True, timeout=PATIENCE_S,
        )  # fmt: skip
        return Worker(json.loads(printed.stdout))


@dataclass(frozen=True, repr=False)
class Worker:
    """Sends events of four fields and claims messages."""

    env: dict[str, str]

    def report(self, kind: str, data: dict[str, Any], path: str = "/webhook") -> None:
        """`POST` to `WEBHOOK_URL`: `{sessionId, type, data, timestamp}`."""
        now = datetime.now(UTC)
        event = {"sessionId": self.env["SESSION_ID"], "type": kind, "data": data, "timestamp": _now_ms()}
        body, event_id = json.dumps(event), f"evt_{secrets.token_hex(8)}"
        answer = httpx.post(
            self.env["WEBHOOK_URL"].removesuffix("/webhook") + path,
            content=body,
            headers={
                "webhook-id": event_id,
                "webhook-timestamp": str(int(now.timestamp())),
                "webhook-signature": Webhook(self.env["WEBHOOK_SECRET"]).sign(event_id, now, body),
            },
            timeout=PATIENCE_S,
        )
        assert (answer.status_code, answer.json()) == (200, {"accepted": True})

    def outbox(self, path: str, **body: Any) -> httpx.Response:
        """`POST /api/worker/sessions/<id>/outbox/…`."""
        headers = {"Authorization": f"Bearer {self.env['WORKER_TOKEN']}"}
        return httpx.post(f"{self.env['OUTBOX_URL']}/{path}", json=body, headers=headers, timeout=PATIENCE_S)


def _now_ms() -> int:
    return round(time.time() * 1000)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """`up` with three proxies and a simulated WhatsApp behind them."""
    home = tmp_path_factory.mktemp("owner")
    command = (*PRODUCT, "simulate", "--json", "--data-dir", str(home / "world"), "--proxies", "4")
    world = Program(command, log=home / "world.log", env=dict(os.environ))
    try:
        ready = json.loads(world.said(r'^{"control".*')[0])
        proxies = ready["proxies"]
        settings = {f"PROXY_URL_{number}": url for number, url in enumerate(proxies[:3], 1)} | {
            "NODE_ENV": "production",
            "MAX_SESSIONS_PER_PROXY": "4",
            "MAX_SESSIONS_PER_PHONE": "4",
            "MONITOR_INTERVAL_MS": str(START_INTERVAL_MS),  # else it would start the workers that a test speaks for
            "WATCHDOG_INTERVAL_MS": "60000",
            "PING_TIMEOUT_MS": "180000",
            "PROVISIONING_INTERVAL_MS": str(START_INTERVAL_MS),
            "WORKER_CA_FILE": ready["caFile"],
            "COLD_HOURS": "00:00-00:00",
            "TIMEZONE": "UTC",
            "BACKUP_TIME": f"{datetime.now(UTC) + timedelta(hours=12):%H:%M}",  # a test counts the backups
            "TELEGRAM_BOT_TOKEN": f"123456789:{secrets.token_urlsafe(26)}",
            "TELEGRAM_CHAT_ID": CHAT,
            "TELEGRAM_API_URL": ready["telegram"],
        }
        with whole_server(home, **settings) as (url, key):
            api = httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=PATIENCE_S)
            phones = httpx.Client(base_url=ready["control"], timeout=PATIENCE_S)
            redis = Redis.from_url(embedded_redis.url_in(home / "data"), decode_responses=True)
            with api, phones, redis:
                yield Installation(api, phones, proxies, home / "data", redis)
    finally:
        world.end()


@pytest.fixture(scope="module")
def worker_1(installation: Installation) -> str:
    """The first session: provisioned without a body, and linked by a scan."""
    made = installation.api.post("/api/sessions/provision")
    assert (made.status_code, made.json()["sessionId"], made.json()["status"]) == (201, "worker_1", "pending")

    def scanned() -> bool:
        shown = installation.api.get("/api/sessions/worker_1/qr")
        if shown.status_code != 200:
            assert shown.json()["error"]["code"] == "NO_QR"
            return False
        assert "2@" in shown.json()["qr"]
        return installation.phones.post(f"/phones/{PHONE}/scan", json={"qr": shown.json()["qr"]}).is_success

    until_blocking(scanned, "a QR that can be scanned")
    until_blocking(lambda: _status(installation, "worker_1") == "connected", "CONNECTED")
    return "worker_1"


def _status(installation: Installation, session_id: str) -> str:
    return str(installation.api.get(f"/api/sessions/{session_id}/status").json()["status"])


def _proxy_id(installation: Installation, session_id: str) -> str:
    return str(installation.api.get(f"/api/sessions/{session_id}/status").json()["proxyId"])


def _proxy(installation: Installation, proxy_id: str) -> Any:
    return installation.api.get(f"/api/v1/proxies/{proxy_id}").json()


def _url_of(installation: Installation, proxy_id: str) -> str:
    """The whole URL of a proxy, which the server shows without its password."""
    place = _proxy(installation, proxy_id)["url"].rsplit("@")[1]
    return next(url for url in installation.proxies if url.rsplit("@")[1] == place)


def _provision(installation: Installation, session_id: str, **body: Any) -> Worker:
    made = installation.api.post("/api/sessions/provision", json={"sessionId": session_id, **body})
    assert made.status_code == 201, made.text
    return installation.worker_of(session_id)


# -- settings ----------------------------------------------------------------------------------------------------------

DOT_ENV = f"""
NODE_ENV=production
API_KEY={secrets.token_urlsafe(24)}
WEBHOOK_SECRET={secrets.token_urlsafe(24)}
REDIS_URL=redis://redis:6379
ORCH_PORT=3001
MAX_SESSIONS_PER_PROXY=4
MAX_SESSIONS_PER_PHONE=4
PROVISIONING_INTERVAL_MS=2000
MONITOR_INTERVAL_MS=30000
WATCHDOG_INTERVAL_MS=60000
PING_TIMEOUT_MS=180000
PROXY_URL_1=socks5h://user-account-ip-1.2.3.4:fake_password@example.com:10001
PROXY_URL_2=socks5h://user:pass@example.com:10002
PROXY_URL_3=socks5h://user:pass@example.com:10003
TELEGRAM_BOT_TOKEN=123456789:{secrets.token_urlsafe(26)}
TELEGRAM_CHAT_ID=-1001234567890
SESSIONS_DIR=./sessions
BACKUPS_DIR=./backups
MAX_BACKUPS=7
"""


def test_the_env_file_of_the_documents_is_taken(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(DOT_ENV, "utf-8")
    settings = build(read(tmp_path / ".env"))
    assert (settings.orch_port, settings.provisioning_interval_ms, settings.monitor_interval_ms) == (3001, 2000, 30000)
    assert (settings.watchdog_interval_ms, settings.ping_timeout_ms) == (60000, 180000)
    assert (settings.max_sessions_per_proxy, settings.max_sessions_per_phone) == (4, 4)
    assert len(settings.proxy_urls) == 3
    assert (settings.sessions_dir.name, settings.backups_dir.name, settings.max_backups) == ("sessions", "backups", 7)
    assert settings.backup_time == "03:00", "the daily backup"
    assert (settings.telegram_chat_id, settings.redis_url is not None) == ("-1001234567890", True)


def test_nothing_set_has_the_numbers_of_the_documents(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert (settings.max_sessions_per_proxy, settings.max_sessions_per_phone) == (4, 4)
    assert (settings.provisioning_interval_ms, settings.monitor_interval_ms) == (2000, 30000)
    assert (settings.watchdog_interval_ms, settings.ping_timeout_ms) == (60000, 180000)
    assert (settings.backup_time, settings.max_backups, settings.orch_port) == ("03:00", 7, 3001)
    settings, _ = generated.ensure(settings)
    for secret in (settings.api_key, settings.webhook_secret):
        assert secret is not None
        assert len(secret.get_secret_value()) >= 32


@pytest.mark.parametrize(
    ("name", "placeholder"),
    [
        ("API_KEY", "<random-32-chars>"),
        ("API_KEY", "<random-32>"),
        ("WEBHOOK_SECRET", "<random-32-chars>"),
        ("WEBHOOK_SECRET", "<random-32>"),
        ("TELEGRAM_BOT_TOKEN", "<bot-token>"),
        ("TELEGRAM_CHAT_ID", "<chat-id>"),
        ("PROXY_URL_1", "socks5h://user:pass@host:port"),
    ],
)
def test_a_placeholder_of_the_documents_is_no_value(tmp_path: Path, name: str, placeholder: str) -> None:
    lines = [line for line in DOT_ENV.splitlines() if not line.startswith(f"{name}=")]
    (tmp_path / ".env").write_text("\n".join([*lines, f"{name}={placeholder}"]), "utf-8")
    with pytest.raises(BadSettings, match=name):
        build(read(tmp_path / ".env"))


def test_the_deployment_is_verified_with_health_and_no_key(installation: Installation) -> None:
    assert httpx.get(f"{installation.api.base_url}/health", timeout=PATIENCE_S).status_code == 200


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_session_is_provisioned_scanned_and_connected(installation: Installation, worker_1: str) -> None:
    shown = installation.api.get(f"/api/sessions/{worker_1}/status").json()
    assert (shown["status"], shown["phone"], shown["trust"]) == ("connected", PHONE, "cold")
    assert shown["proxy"].startswith("socks5h://")
    assert shown["lastPingAt"] or shown["connectedAt"]


def test_a_proxy_given_by_hand_is_used_under_either_name(installation: Installation, worker_1: str) -> None:
    given = installation.proxies[3]
    for session_id, name in (("session_123", "proxyOverride"), ("session_124", "proxy")):
        body = {"sessionId": session_id, name: given}
        made = installation.api.post("/api/sessions/provision", json=body)
        assert made.status_code == 201, made.text
        assert made.json()["proxy"].rsplit("@")[1] == given.rsplit("@")[1]
        assert ":***@" in made.json()["proxy"]
        assert installation.api.delete(f"/api/sessions/{session_id}").json() == {
            "sessionId": session_id,
            "deleted": True,
        }


def test_a_phone_and_its_proxy_can_be_given_together(installation: Installation, worker_1: str) -> None:
    """`{"phone": "972501234567", "proxy": "socks5h://user:fake-password@example.com:10001"}`, each optional."""
    phone, given = "972501115533", installation.proxies[3]
    made = installation.api.post("/api/sessions/provision", json={"phone": phone, "proxy": given})
    assert made.status_code == 201, made.text
    session_id = made.json()["sessionId"]
    assert (made.json()["status"], made.json()["proxy"].rsplit("@")[1]) == ("pending", given.rsplit("@")[1])
    assert re.fullmatch(r"worker_\d+", session_id)
    assert installation.api.get(f"/api/sessions/{session_id}/status").json()["phone"] == phone
    installation.api.delete(f"/api/sessions/{session_id}")


def test_a_given_proxy_is_used_also_where_the_phone_has_one_and_stays_with_the_phone(
    installation: Installation, worker_1: str
) -> None:
    phone, api = "972501115544", installation.api
    _provision(installation, "sticky-3").report("CONNECTED", {"phoneNumber": phone})
    had = _proxy_id(installation, "sticky-3")
    api.delete("/api/sessions/sticky-3")
    other = next(url for url in installation.proxies if url != _url_of(installation, had))
    worker = _provision(installation, "sticky-4", phone=phone, proxyOverride=other)
    worker.report("CONNECTED", {"phoneNumber": phone})
    chosen = _proxy_id(installation, "sticky-4")
    assert (_url_of(installation, chosen), installation.redis.get(f"phone:proxy:{phone}")) == (other, chosen)
    api.delete("/api/sessions/sticky-4")


@pytest.mark.parametrize("proxy", ["socks5://user:pass@example.com:10001", "http://example.com:10001", "nonsense"])
def test_a_proxy_of_another_format_is_refused(installation: Installation, worker_1: str, proxy: str) -> None:
    answer = installation.api.post("/api/sessions/provision", json={"sessionId": "refused", "proxyOverride": proxy})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_PROXY_URL")


@pytest.mark.parametrize("phone", ["12", "not a phone", "9725012345678901"])
def test_a_phone_of_another_format_is_refused(installation: Installation, worker_1: str, phone: str) -> None:
    answer = installation.api.post("/api/sessions/provision", json={"sessionId": "refused", "phone": phone})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_PHONE")


def test_a_code_is_given_as_json_and_as_a_picture(installation: Installation, worker_1: str) -> None:
    _provision(installation, "session_127").report("QR_CODE", {"qr": "2@ABC"})
    address = "/api/sessions/session_127/qr"
    assert installation.api.get(address).json()["qr"] == "2@ABC"
    for kind, begins in (("image/png", b"\x89PNG"), ("image/svg+xml", b"<")):
        picture = installation.api.get(address, headers={"Accept": kind})
        assert (picture.status_code, picture.headers["content-type"].split(";")[0]) == (200, kind)
        assert picture.content.lstrip().startswith(begins)
    installation.api.delete("/api/sessions/session_127")
    gone = installation.api.get(f"/api/sessions/{worker_1}/qr")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "NO_QR")


def test_what_the_server_knows_of_a_session(installation: Installation, worker_1: str) -> None:
    """Status, phone, proxy, the worker that holds it, when it was created, the last ping."""
    shown = installation.api.get(f"/api/sessions/{worker_1}/status").json()
    assert shown["worker"]["epoch"] >= 1
    kept = installation.redis.hgetall(f"session:{worker_1}")
    assert abs(int(float(kept["created_at"])) - _now_ms()) < 3_600_000, "in milliseconds"
    assert installation.redis.sismember(f"phone:sessions:{PHONE}", worker_1)


def test_a_new_session_gets_the_least_loaded_proxy(installation: Installation, worker_1: str) -> None:
    loads = {each["id"]: len(each["sessions"]) for each in installation.api.get("/api/v1/proxies").json()["proxies"]}
    _provision(installation, "least-loaded")
    chosen = installation.api.get("/api/sessions/least-loaded/status").json()["proxyId"]
    assert loads[chosen] == min(loads.values())
    installation.api.delete("/api/sessions/least-loaded")


def test_a_phone_keeps_its_proxy(installation: Installation, worker_1: str) -> None:
    phone, api = "972501115500", installation.api
    _provision(installation, "sticky-1").report("CONNECTED", {"phoneNumber": phone})
    before = api.get("/api/sessions/sticky-1/status").json()["proxyId"]
    api.delete("/api/sessions/sticky-1")
    assert api.post("/api/sessions/provision", json={"sessionId": "sticky-2", "phone": phone}).status_code == 201
    assert api.get("/api/sessions/sticky-2/status").json()["proxyId"] == before
    api.delete("/api/sessions/sticky-2")


def test_a_proxy_never_has_more_than_four_sessions(installation: Installation, worker_1: str) -> None:
    api, made = installation.api, []
    while (answer := api.post("/api/sessions/provision")).status_code == 201:
        made.append(answer.json()["sessionId"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "NO_PROXY_CAPACITY")
    assert {len(each["sessions"]) for each in api.get("/api/v1/proxies").json()["proxies"]} == {4}
    _told(installation, "📉")
    for session_id in made:
        api.delete(f"/api/sessions/{session_id}")


def test_the_worked_example_of_the_documents(installation: Installation, worker_1: str) -> None:
    """A has two sessions, B one, C four: a new one goes to D."""
    api, first = installation.api, _url_of(installation, _proxy_id(installation, worker_1))
    api.post("/api/v1/proxies", json={"url": installation.proxies[3]})  # refused where an earlier test added it
    second, third, fourth = (url for url in installation.proxies if url != first)
    made = [f"example-{number}" for number in range(7)]
    for session_id, url in zip(made, [first, second, third, third, third, third], strict=False):
        _provision(installation, session_id, proxy=url)
    _provision(installation, made[-1])
    assert _url_of(installation, _proxy_id(installation, made[-1])) == fourth
    refused = api.post("/api/sessions/provision", json={"sessionId": "fifth", "proxy": third})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "PROXY_FULL")
    for session_id in made:
        api.delete(f"/api/sessions/{session_id}")


def test_a_phone_has_at_most_four_sessions_all_on_one_proxy(installation: Installation, worker_1: str) -> None:
    api, body = installation.api, {"phone": "972501115511"}
    made = [api.post("/api/sessions/provision", json=body).json()["sessionId"] for _ in range(4)]
    assert len({_proxy_id(installation, session_id) for session_id in made}) == 1
    fifth = api.post("/api/sessions/provision", json=body)
    assert (fifth.status_code, fifth.json()["error"]["code"]) == (409, "PHONE_FULL")
    for session_id in made:
        api.delete(f"/api/sessions/{session_id}")


def test_a_session_that_is_made_again_gets_the_proxy_it_had(installation: Installation, worker_1: str) -> None:
    _provision(installation, "session_125", proxy=installation.proxies[3])
    had = _proxy_id(installation, "session_125")
    installation.api.delete("/api/sessions/session_125")
    assert installation.redis.get("session:proxy:session_125") == had
    _provision(installation, "session_125")
    assert _proxy_id(installation, "session_125") == had
    installation.api.delete("/api/sessions/session_125")


def test_a_worker_is_started_with_the_variables_of_the_documents(installation: Installation, worker_1: str) -> None:
    given = installation.proxies[3]
    env = _provision(installation, "session_126", proxyOverride=given).env
    assert (env["SESSION_ID"], env["PROXY_URL"], env["ENABLE_KEEP_ALIVE"]) == ("session_126", given, "true")
    assert env["WEBHOOK_URL"].endswith("/webhook")
    assert env["WEBHOOK_SECRET"] != installation.worker_of(worker_1).env["WEBHOOK_SECRET"]
    installation.api.delete("/api/sessions/session_126")


#: As the documents write it, but for the proxy and its password.
DOCKER_RUN = """
docker run -d --restart unless-stopped --name wa_session_<SESSION_ID>
  -v /host/data/sessions/<SESSION_ID>:/app/sessions/<SESSION_ID>
  -e SESSION_ID="<SESSION_ID>" -e PROXY_URL="socks5h://user-north-ip-1.2.3.4:fake-password@example.com:10001"
  -e WEBHOOK_URL="http://<ORCHESTRATOR_HOST>:3000/api/webhook" -e WEBHOOK_SECRET="<SECRET>" -e ENABLE_KEEP_ALIVE=true
  whatsapp-worker-image:1.0.0
"""


def test_the_docker_command_of_the_documents_has_nothing_that_a_worker_does_not_get(
    installation: Installation, worker_1: str
) -> None:
    env = installation.worker_of(worker_1).env
    named = dict(re.findall(r'-e (\w+)="?([^"\s]+)', DOCKER_RUN))
    assert named.keys() <= env.keys()
    assert proxy_url.parse(named["PROXY_URL"]).user == "user-north-ip-1.2.3.4"
    assert env["OUTBOX_URL"].startswith(env["WEBHOOK_URL"].removesuffix("/webhook")), "derived where it is not given"


def test_names_are_resolved_by_the_proxy(installation: Installation, worker_1: str) -> None:
    used = [each for each in installation.phones.get("/proxies").json() if each["live"]]
    assert used
    assert {kind for each in used for kind in each["addressTypes"]} == {"domain"}


def test_a_connected_worker_pings(installation: Installation, worker_1: str) -> None:
    address = f"/api/sessions/{worker_1}/status"
    until_blocking(lambda: installation.api.get(address).json()["lastPingAt"], "a PING within 15 s")


def test_a_scan_is_a_line_of_the_log_and_the_log_has_no_password(installation: Installation, worker_1: str) -> None:
    log = installation.data_dir.parent / "log"

    def told() -> list[str]:
        return [
            line for line in log.read_text("utf-8").splitlines() if "session.connected" in line and worker_1 in line
        ]

    until_blocking(told, "a line of the scan")
    written = log.read_text("utf-8")
    assert not [url for url in installation.proxies if url.split(":")[2].split("@")[0] in written]


# -- what Redis has ----------------------------------------------------------------------------------------------------


def test_a_scan_changes_the_keys_of_the_documents(installation: Installation, worker_1: str) -> None:
    redis, phone, session_id = installation.redis, "972501116600", "session_600"
    worker = _provision(installation, session_id)
    proxy = redis.get(f"session:temp:{session_id}")
    assert proxy == _proxy_id(installation, session_id)
    assert not redis.sismember("sessions:active", session_id)
    worker.report("QR_CODE", {"qr": "2@ABC"})
    assert "2@ABC" in str(redis.get(f"session:qr:{session_id}"))
    load = len(_proxy(installation, proxy)["sessions"])

    worker.report("CONNECTED", {"phoneNumber": phone, "fingerprint": "Windows/Chrome/120.0"})
    assert redis.get(f"phone:proxy:{phone}") == proxy
    kept = redis.hgetall(f"session:{session_id}")
    assert (kept["phone"], kept["proxy"], kept["status"]) == (phone, proxy, "connected")
    assert kept["fingerprint"] == "Windows/Chrome/120.0"
    assert abs(int(kept["connected_at"]) - _now_ms()) < PATIENCE_S * 1000
    assert not redis.exists(f"session:temp:{session_id}")
    assert redis.sismember("sessions:active", session_id)
    assert redis.exists(f"session:events:{session_id}")
    assert redis.sismember("proxies:all", proxy)
    assert redis.sismember("proxies:available", proxy)
    assert len(_proxy(installation, proxy)["sessions"]) == load
    installation.api.delete(f"/api/sessions/{session_id}")
    assert not redis.sismember("sessions:active", session_id)
    assert redis.get(f"phone:proxy:{phone}") == proxy


def test_a_message_passes_the_queues_of_the_documents(installation: Installation, worker_1: str) -> None:
    phone, session_id = "972501116611", "session_601"
    _provision(installation, session_id).report("CONNECTED", {"phoneNumber": phone})
    stations = ["gateway:jobs", f"queue:session:{phone}", f"session:outbox:{session_id}"]
    with installation.redis.monitor() as monitor:  # type: ignore[no-untyped-call]
        body = {"to": PHONE, "message": "Hello", "sessionId": session_id}
        message = installation.api.post("/api/v1/send", json=body).json()["messageId"]
        passed: list[str] = []
        deadline = time.monotonic() + PATIENCE_S
        while passed != stations:
            assert time.monotonic() < deadline, passed
            verb, *words = monitor.next_command()["command"].split(" ")
            if verb.upper() in {"LPUSH", "RPUSH", "ZADD"} and words[0] in stations and words[-1] == message:
                passed.append(words[0])
    assert installation.redis.lrange(stations[-1], 0, -1) == [message]
    installation.api.delete(f"/api/sessions/{session_id}")


# -- failover ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("PROXY_ERROR", {"error": "connect ECONNREFUSED"}),
        ("STATUS_CHANGE", {"status": "DISCONNECTED", "error": "proxy connection refused"}),
    ],
)
def test_failover_as_the_documents_list_it(
    installation: Installation, worker_1: str, kind: str, data: dict[str, str]
) -> None:
    api, redis, session_id = installation.api, installation.redis, f"failover-{kind}"
    phone = {"PROXY_ERROR": "972501117700", "STATUS_CHANGE": "972501117711"}[kind]
    worker = _provision(installation, session_id)
    worker.report("CONNECTED", {"phoneNumber": phone})
    old = _proxy_id(installation, session_id)
    with _refusing(installation, old):
        worker.report(kind, data)
        until_blocking(lambda: _proxy_id(installation, session_id) not in {old, None}, "another proxy")
        new = _proxy_id(installation, session_id)
        burned, taken = _proxy(installation, old), _proxy(installation, new)
        assert burned["status"] == "BAD"
        assert (taken["status"], session_id in taken["sessions"]) == ("OK", True)
        assert len(taken["sessions"]) <= 4
        assert not redis.sismember("proxies:available", old)
        assert abs(int(redis.hget(f"proxy:{old}", "changed_at") or 0) - _now_ms()) < PATIENCE_S * 1000, "bad since"
        assert redis.get(f"phone:proxy:{phone}") == redis.hget(f"session:{session_id}", "proxy") == new
        assert installation.worker_of(session_id).env["PROXY_URL"] == _url_of(installation, new)
        _told(installation, "🔄", session_id)
        _told(installation, "🔥")
    assert _proxy_id(installation, session_id) == new
    api.delete(f"/api/sessions/{session_id}")


@contextmanager
def _refusing(installation: Installation, proxy_id: str) -> Iterator[None]:
    """A proxy that refuses connections; healthy again afterwards, for the next test."""
    target = {"proxy": _url_of(installation, proxy_id)}
    for kind in ("refuse", "drop"):
        installation.phones.post("/faults", json={"target": target, "kind": kind}).raise_for_status()
    try:
        yield
    finally:
        installation.phones.delete("/faults")
        installation.api.post(f"/api/v1/proxies/{proxy_id}/reinstate")


# -- alerts ------------------------------------------------------------------------------------------------------------


def test_telegram_tells_of_a_session_that_connects_and_disconnects(installation: Installation, worker_1: str) -> None:
    worker = _provision(installation, "session_700")
    worker.report("CONNECTED", {"phoneNumber": "972501118800"})
    _told(installation, "✅", "session_700")
    worker.report("DISCONNECTED", {"reason": "Connection Lost", "code": 408})
    _told(installation, "⚠️", "session_700")
    worker.report("DISCONNECTED", {"reason": "loggedOut", "code": 401})
    _told(installation, "⚠️", "Unlinked on the phone", "session_700")
    installation.api.delete("/api/sessions/session_700")


def _told(installation: Installation, *words: str) -> None:
    """Wait for a line in the operator's chat."""

    def told() -> bool:
        messages = installation.phones.get("/telegram").json()
        assert {each["chatId"] for each in messages} <= {CHAT}
        lines = [line for each in messages for line in each["text"].splitlines()]
        return any(all(word in line for word in words) for line in lines)

    until_blocking(told, f"{words} at Telegram")


# -- worker events -----------------------------------------------------------------------------------------------------


def test_the_life_of_a_session_as_a_worker_reports_it(installation: Installation, worker_1: str) -> None:
    api, phone = installation.api, "972501112233"
    worker = _provision(installation, "session_200")
    assert _status(installation, "session_200") == "pending"
    worker.report("QR_CODE", {"qr": "2@ABC"})
    assert _status(installation, "session_200") == "qr_ready"
    assert api.get("/api/sessions/session_200/qr").json()["qr"] == "2@ABC"
    worker.report("CONNECTED", {"phoneNumber": phone})
    shown = api.get("/api/sessions/session_200/status").json()
    assert (shown["status"], shown["phone"]) == ("connected", phone)
    worker.report("PING", {"timestamp": _now_ms()})
    assert api.get("/api/sessions/session_200/status").json()["lastPingAt"]
    worker.report("DISCONNECTED", {"reason": "Connection Lost", "code": 408})
    assert _status(installation, "session_200") == "disconnected"
    full = {"phoneNumber": phone, "jid": f"{phone}@s.whatsapp.net", "fingerprint": "Windows/Chrome/120.0"}
    worker.report("CONNECTED", full, path="/api/webhook")
    assert _status(installation, "session_200") == "connected"
    worker.report(
        "MESSAGE_RECEIVED", {"whatsappId": "3EB0", "from": phone, "kind": "text", "text": "Hi", "at": _now_ms()}
    )
    worker.report("AN_EVENT_OF_ANOTHER_VERSION", {"anything": 1})
    # Last: the server checks the proxy and replaces the worker, whose secret ends with it.
    worker.report("STATUS_CHANGE", {"status": "DISCONNECTED", "error": "proxy connection refused"})
    api.delete("/api/sessions/session_200")


def test_a_logged_out_session_asks_for_a_new_scan(installation: Installation, worker_1: str) -> None:
    worker = _provision(installation, "session_201")
    worker.report("CONNECTED", {"phoneNumber": "972501112244"})
    worker.report("DISCONNECTED", {"reason": "loggedOut", "code": 401})
    shown = installation.api.get("/api/sessions/session_201/status").json()
    assert (shown["status"], shown["reason"]) == ("pending", "LOGGED_OUT")
    installation.api.delete("/api/sessions/session_201")


def test_a_complaint_about_the_proxy_is_taken(installation: Installation, worker_1: str) -> None:
    worker = _provision(installation, "session_202")
    worker.report("PROXY_ERROR", {"error": "connect ECONNREFUSED"})
    installation.api.delete("/api/sessions/session_202")


def test_broken_credentials_need_a_new_code_and_a_person_can_ask_for_it(
    installation: Installation, worker_1: str
) -> None:
    worker = _provision(installation, "session_203")
    worker.report("CONNECTED", {"phoneNumber": "972501112255"})
    worker.report("AUTH_FAILURE", {"reason": "creds.json is broken"})
    shown = installation.api.get("/api/sessions/session_203/status").json()
    assert (shown["status"], shown["reason"]) == ("failed", "AUTH_FAILURE")
    assert installation.api.post("/api/sessions/session_203/logout").status_code == 200
    until_blocking(lambda: _status(installation, "session_203") == "pending", "a new code")
    installation.api.delete("/api/sessions/session_203")


# -- messages ----------------------------------------------------------------------------------------------------------


def test_both_addresses_take_a_message_and_it_reaches_whatsapp(installation: Installation, worker_1: str) -> None:
    to = "972509876543"
    first = installation.api.post("/api/v1/send", json={"to": to, "message": "Hello", "sessionId": worker_1})
    second = installation.api.post("/api/send", json={"to": to, "text": "Hello again"})
    for answer in (first, second):
        assert (answer.status_code, answer.json()["queued"]) == (202, True)
        assert answer.json()["messageId"]

    def arrived() -> bool:
        found = installation.phones.get("/arrivals", params={"after": 0}).json()
        texts = [each["text"] for each in (found["arrivals"] if isinstance(found, dict) else found)]
        return "Hello" in texts

    until_blocking(arrived, "the message at WhatsApp")


def test_a_message_over_the_daily_limit_is_refused(installation: Installation, worker_1: str) -> None:
    api, address = installation.api, "/api/anti-ban/sessions/session_301/limits"
    _provision(installation, "session_301").report("CONNECTED", {"phoneNumber": "972501113301"})
    assert api.put(address, json={"perDay": 1}).json()["own"] == {"perDay": 1}
    body = {"to": PHONE, "message": "Hello", "sessionId": "session_301"}

    # The gateway reads limits once a second, so more than one may pass.
    def refused() -> httpx.Response | None:
        answer = api.post("/api/v1/send", json=body)
        return None if answer.status_code == 202 else answer

    answer = until_blocking(refused, "a message over the limit")
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "DAILY_LIMIT")
    assert api.delete(address).json()["limits"]["perDay"] == 20
    api.delete("/api/sessions/session_301")


def test_a_request_that_is_repeated_queues_one_message(installation: Installation, worker_1: str) -> None:
    body, headers = {"to": "972509876544", "message": "Once", "sessionId": worker_1}, {"Idempotency-Key": "order-7"}
    first, again = (installation.api.post("/api/v1/send", json=body, headers=headers) for _ in range(2))
    assert first.status_code == 202, first.text
    assert first.json()["messageId"] == again.json()["messageId"]


def test_a_message_needs_a_key_a_phone_and_a_text(installation: Installation, worker_1: str) -> None:
    address = f"{installation.api.base_url}/api/v1/send"
    assert httpx.post(address, json={"to": PHONE, "message": "Hello"}, timeout=PATIENCE_S).status_code == 401
    for wrong in ({"to": "12", "message": "Hello"}, {"to": PHONE, "message": ""}, {"to": PHONE, "message": "x" * 4097}):
        assert installation.api.post("/api/v1/send", json=wrong).status_code == 422


def test_a_worker_claims_a_message_and_acknowledges_it(installation: Installation, worker_1: str) -> None:
    worker = _provision(installation, "session_300")
    worker.report("CONNECTED", {"phoneNumber": "972501113300"})
    body = {"to": PHONE, "message": "Claimed", "sessionId": "session_300"}
    message = installation.api.post("/api/v1/send", json=body).json()["messageId"]
    claimed = until_blocking(lambda: _claimed(worker), "a message in the outbox")
    assert claimed["messageId"] == message
    worker.report("MESSAGE_SENT", {"messageId": message, "whatsappId": claimed["whatsappId"]})
    assert worker.outbox(f"{message}/ack", whatsappId=claimed["whatsappId"], timestamp=_now_ms()).status_code == 200
    assert installation.api.get(f"/api/v1/messages/{message}").json()["status"] == "sent"
    counted = installation.api.get("/api/v1/stats/session_300").json()["total"]
    assert (counted["sent"], counted["failed"]) == (1, 0)
    installation.api.delete("/api/sessions/session_300")


def test_a_message_that_a_worker_could_not_send_waits_for_another_attempt(
    installation: Installation, worker_1: str
) -> None:
    worker = _provision(installation, "session_302")
    message = _claimed_message(installation, worker, "972501113302")
    worker.report("MESSAGE_FAILED", {"messageId": message, "code": 500, "error": "internal-server-error"})
    answer = worker.outbox(f"{message}/nack", code=500, error="internal-server-error", retryable=True)
    assert (answer.status_code, answer.json()["status"]) == (200, "queued")
    shown = installation.api.get(f"/api/v1/messages/{message}").json()
    assert (shown["status"], shown["attempts"]) == ("queued", 1)
    assert worker.outbox(f"{message}/nack", code=500).status_code == 409
    installation.api.delete("/api/sessions/session_302")


def test_a_worker_that_needs_longer_renews_its_claim(installation: Installation, worker_1: str) -> None:
    worker = _provision(installation, "session_305")
    message = _claimed_message(installation, worker, "972501113305")
    assert worker.outbox(f"{message}/renew").status_code == 200
    assert installation.api.get(f"/api/v1/messages/{message}").json()["status"] == "sending"
    installation.api.delete("/api/sessions/session_305")


def test_a_message_that_nobody_can_get_fails_and_is_counted(installation: Installation, worker_1: str) -> None:
    worker = _provision(installation, "session_303")
    message = _claimed_message(installation, worker, "972501113303")
    worker.report("MESSAGE_FAILED", {"messageId": message, "code": "NOT_ON_WHATSAPP", "error": "no such account"})
    answer = worker.outbox(f"{message}/nack", code="NOT_ON_WHATSAPP", error="no such account", retryable=False)
    assert answer.json() == {"status": "failed", "reason": "NOT_ON_WHATSAPP"}
    counted = installation.api.get("/api/v1/stats/session_303").json()["total"]
    assert (counted["sent"], counted["failed"]) == (0, 1)
    _told(installation, "✉️", "session_303")
    installation.api.delete("/api/sessions/session_303")


def test_messages_of_a_session_that_is_offline_wait_in_their_order(installation: Installation, worker_1: str) -> None:
    api, phone = installation.api, "972501113304"
    worker = _provision(installation, "session_304")
    worker.report("CONNECTED", {"phoneNumber": phone})
    worker.report("DISCONNECTED", {"reason": "Connection Lost", "code": 408})
    sent = []
    for number in range(3):
        answer = api.post("/api/v1/send", json={"to": PHONE, "message": f"{number}", "sessionId": "session_304"})
        assert (answer.status_code, answer.json()["queued"]) == (202, True)
        sent.append(answer.json()["messageId"])
    until_blocking(lambda: installation.redis.zrange(f"queue:session:{phone}", 0, -1) == sent, "all in the queue")
    worker.report("CONNECTED", {"phoneNumber": phone})
    assert until_blocking(lambda: _claimed(worker), "the first message")["messageId"] == sent[0]
    api.delete("/api/sessions/session_304")


def test_a_worker_types_before_it_sends(installation: Installation, worker_1: str) -> None:
    to = "972509876545"
    installation.api.post("/api/v1/send", json={"to": to, "message": "Hello", "sessionId": worker_1})

    def arrived() -> Any:
        return next((each for each in installation.phones.get("/arrivals").json() if each["to"] == to), None)

    at = until_blocking(arrived, "the message at WhatsApp")["at"]
    states = installation.phones.get("/chatstates").json()
    assert any(each["to"] == to and each["state"] == "composing" and each["at"] < at for each in states), states


def test_a_key_may_come_as_a_bearer_token(installation: Installation) -> None:
    key = installation.api.headers["X-API-Key"]
    address, headers = f"{installation.api.base_url}/api/sessions", {"Authorization": f"Bearer {key}"}
    assert httpx.get(address, headers=headers, timeout=PATIENCE_S).status_code == 200
    assert httpx.get(address, timeout=PATIENCE_S).status_code == 401


def _claimed_message(installation: Installation, worker: Worker, phone: str) -> str:
    """Connect a session, send a message with it and claim that; gives its id."""
    worker.report("CONNECTED", {"phoneNumber": phone})
    body = {"to": PHONE, "message": "Claimed", "sessionId": worker.env["SESSION_ID"]}
    message = str(installation.api.post("/api/v1/send", json=body).json()["messageId"])
    assert until_blocking(lambda: _claimed(worker), "a message in the outbox")["messageId"] == message
    return message


def _claimed(worker: Worker) -> Any:
    answer = worker.outbox("claim", waitMs=1000)
    assert answer.status_code in (200, 204), answer.text
    return answer.json() if answer.status_code == 200 else None


# -- anti-ban and dashboard --------------------------------------------------------------------------------------------


def test_trust_levels_have_the_limits_of_the_documents(installation: Installation) -> None:
    presets = installation.api.get("/api/anti-ban/presets").json()["presets"]
    shown = {
        trust: [
            each["perDay"],
            each["perMinute"],
            each["pauseMinMs"],
            each["pauseMaxMs"],
            each["opens"],
            each["closes"],
        ]
        for trust, each in presets["standard"].items()
    }
    assert shown == {
        "cold": [20, 5, 5000, 8000, "09:00", "21:00"],
        "warm": [100, 15, 3000, 5000, "08:00", "22:00"],
        "hot": [500, 30, 2000, 4000, "07:00", "23:00"],
    }
    conservative = presets["conservative"].values()
    assert [each["perDay"] for each in conservative] == [10, 50, 200]
    pauses = [(each["pauseMinMs"], each["pauseMaxMs"]) for each in conservative]
    assert pauses == [(each * 0.7, each * 1.3) for each in (60_000, 30_000, 10_000)], "30 % to either side"


def test_a_burst_is_noticed_and_nothing_of_it_is_dropped(installation: Installation, worker_1: str) -> None:
    """More than three times what a cold session sends within a minute."""
    _provision(installation, "session_302b").report("CONNECTED", {"phoneNumber": "972501113322"})
    messages = [{"to": PHONE, "message": f"{number}", "sessionId": "session_302b"} for number in range(3 * 5 + 1)]
    answer = installation.api.post("/api/v1/send/batch", json={"messages": messages})
    assert answer.status_code == 202, answer.text
    assert [each["queued"] for each in answer.json()["items"]] == [True] * len(messages)
    _told(installation, "🐇", "session_302b")
    installation.api.delete("/api/sessions/session_302b")


def test_the_limits_of_a_session_are_read_changed_and_taken_back(installation: Installation, worker_1: str) -> None:
    api, address = installation.api, f"/api/anti-ban/sessions/{worker_1}/limits"
    assert (api.get(address).json()["limits"]["perDay"], api.get(address).json()["own"]) == (20, {})
    own = {"perDay": 10, "perMinute": 3, "pauseMinMs": 6000, "pauseMaxMs": 9000, "opens": "10:00", "closes": "18:00"}
    assert api.put(address, json=own).status_code == 200
    shown = api.get(address).json()
    assert (shown["limits"], shown["own"]) == (own, own)
    assert api.delete(address).json()["own"] == {}


@pytest.mark.parametrize(
    ("days", "trust"), [(0, "cold"), (2.99, "cold"), (3, "warm"), (13.99, "warm"), (14, "hot"), (400, "hot")]
)
def test_trust_comes_with_the_days_of_the_documents(days: float, trust: str) -> None:
    """🥶 cold day 0–3, 🌡️ warm day 3–14, 🔥 hot day 14+."""
    connected_at = _now_ms()
    assert limits.trust(connected_at, connected_at + round(days * limits.DAY_MS)) == trust


def test_a_pause_is_drawn_by_the_formula_of_the_documents() -> None:
    """`actualDelay = baseDelay + (Math.random() * jitterRange)`; warm, 0.73: 3000 + 0.73 × 2000 = 4460 ms."""
    assert limits.draw_pause(limits.PRESETS[limits.Preset.STANDARD][limits.Trust.WARM], 0.73) == 4460


def test_the_dashboard_gives_sessions_and_statistics(installation: Installation, worker_1: str) -> None:
    sessions = installation.api.get("/api/v1/dashboard/sessions")
    assert (sessions.status_code, worker_1 in sessions.text) == (200, True)
    assert installation.api.get("/api/v1/dashboard/stats").status_code == 200


@pytest.mark.parametrize("page", ["/", "/index.html", "/scan.html", "/live-log.html", "/anti-ban"])
def test_a_page_leads_a_person_to_the_login(installation: Installation, page: str) -> None:
    answer = httpx.get(f"{installation.api.base_url}{page}", follow_redirects=True, timeout=PATIENCE_S)
    assert answer.status_code == 200
    assert "password" in answer.text


# -- the end of a session ----------------------------------------------------------------------------------------------


def test_restart_and_delete_work_on_one_session(installation: Installation, worker_1: str) -> None:
    _provision(installation, "session_400").report("CONNECTED", {"phoneNumber": "972501114400"})
    restarted = installation.api.post("/api/sessions/session_400/restart")
    assert (restarted.status_code, restarted.json()["sessionId"]) == (200, "session_400")
    deleted = installation.api.delete("/api/sessions/session_400")
    assert deleted.json() == {"sessionId": "session_400", "deleted": True}
    assert installation.api.get("/api/sessions/session_400/status").status_code == 404
    assert _status(installation, worker_1) == "connected"


def test_a_restart_keeps_the_credentials_so_no_scan_is_needed(installation: Installation, worker_1: str) -> None:
    before = installation.api.get(f"/api/sessions/{worker_1}/status").json()["worker"]["epoch"]
    assert installation.api.post(f"/api/sessions/{worker_1}/restart").status_code == 200
    until_blocking(lambda: _epoch_online(installation, worker_1) > before, "connected again, without a scan")


def _epoch_online(installation: Installation, session_id: str) -> int:
    shown = installation.api.get(f"/api/sessions/{session_id}/status").json()
    return int(shown["worker"]["epoch"]) if shown["status"] == "connected" else 0


# -- backups -----------------------------------------------------------------------------------------------------------


def test_a_backup_is_made_listed_and_restored_and_no_scan_is_needed(installation: Installation, worker_1: str) -> None:
    api, address = installation.api, "/api/v1/backups"
    assert api.post(f"{address}/create").status_code == 202
    (made,) = until_blocking(lambda: api.get(address).json()["backups"], "a backup")
    assert re.fullmatch(r"backup_\d{4}-\d{2}-\d{2}\.zip", made["file"])
    assert worker_1 in made["sessions"]
    assert (installation.data_dir / "backups" / made["file"]).is_file()
    assert api.get(address).json()["keep"] == 7
    _told(installation, "🗄️")

    before = _epoch_online(installation, worker_1)
    restored = api.post(f"{address}/restore/{made['id']}", json={"acceptOlder": True})
    assert restored.status_code == 202, restored.text
    until_blocking(lambda: _epoch_online(installation, worker_1) > before, "connected again, without a scan")
    assert installation.api.get(f"/api/sessions/{worker_1}/status").json()["phone"] == PHONE
