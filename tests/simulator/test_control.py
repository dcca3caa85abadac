"""The control API: forwarded calls and refused requests."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from wa_orchestrator.simulator.control.app import ControlApi
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.proxies.pool import SocksPool
from wa_orchestrator.simulator.telegram import Telegram
from wa_orchestrator.simulator.whatsapp.scenarios import Attempt


class FakeWhatsApp:
    """Records its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        async def note(*values: Any, **options: Any) -> str:
            self.asked.append((name, *values, options))
            return "3EB0FAKE"

        return note

    async def scan(self, phone: str, qr: str) -> None:
        if qr == "stale":
            raise SimulatorError("UNKNOWN_QR", "Nobody shows this QR now; take a fresh one.")
        self.asked.append(("scan", phone, qr))

    def describe_account(self, phone: str, **account: Any) -> None:
        self.asked.append(("describe_account", phone, account))

    def play(self, sender: str, recipient: str, attempts: list[Attempt]) -> None:
        self.asked.append(("play", sender, recipient, attempts))

    def unregister(self, phone: str) -> None:
        self.asked.append(("unregister", phone))

    def media_of(self, phone: str, message_id: str) -> bytes:
        if message_id == "nothing":
            raise SimulatorError("NO_MEDIA", "There is no file in it.")
        return b"picture"

    def arrivals(self, after: int = 0) -> list[dict[str, Any]]:
        return [{"n": n, "text": "hello"} for n in (1, 2, 3) if n > after]


@pytest.fixture
def whatsapp() -> FakeWhatsApp:
    return FakeWhatsApp()


@pytest.fixture
def telegram() -> Telegram:
    return Telegram()


@pytest.fixture
async def pool() -> AsyncIterator[SocksPool]:
    pool = SocksPool()
    await pool.add()
    yield pool
    await pool.close()


@pytest.fixture
async def control(whatsapp: FakeWhatsApp, pool: SocksPool, telegram: Telegram) -> AsyncIterator[httpx.AsyncClient]:
    app = ControlApi(whatsapp, pool, telegram, pool.add).app()  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:1") as client:
        yield client


@pytest.mark.parametrize(
    ("path", "body", "asked"),
    [
        ("/phones/+972501234567/scan", {"qr": "ref,a,b,c"}, ("scan", "972501234567", "ref,a,b,c")),
        ("/phones/972501234567/enter-code", {"code": "ABCD1234"}, ("enter_code", "972501234567", "ABCD1234", {})),
        ("/phones/972501234567/say", {"to": "+972 50-765-4321", "text": "hi", "expires": 5, "byLid": True},
         ("send_text", "972501234567", "972507654321", "hi", {"expires": 5, "by_lid": True})),
        ("/phones/972501234567/say-media", {"to": "+972 50-765-4321", "kind": "image", "data": base64.b64encode(b"png").decode()},
         ("send_media", "972501234567", "972507654321", "image", b"png", "application/octet-stream", {"caption": None, "name": None, "form": "plain", "album": None, "thumbnail": b""})),
        ("/phones/972501234567/say", {"to": "123-456@g.us", "text": "hi"},
         ("send_text", "972501234567", "123-456@g.us", "hi", {"expires": None, "by_lid": None})),
        ("/phones/972501234567/read", None, ("read", "972501234567", None, {})),
        ("/phones/972501234567/read", {"from": "972507654321"}, ("read", "972501234567", "972507654321", {})),
        ("/phones/972501234567/unlink", None, ("unlink", "972501234567", None, {})),
        ("/phones/972501234567/unlink", {"device": 2}, ("unlink", "972501234567", 2, {})),
        ("/phones/972501234567/unregister", None, ("unregister", "972501234567")),
        ("/phones/972501234567/migrate", None, ("migrate", "972501234567", {})),
        ("/phones/972501234567/account", {"migrated": True, "username": "dana", "usernameKey": "0042", "hidesNumber": True},
         ("describe_account", "972501234567",
          {"migrated": True, "username": "dana", "username_key": "0042", "hides_number": True})),
        ("/groups", {"phone": "972501234567", "subject": "Family", "members": ["+972500000001"]},
         ("create_group", "972501234567", "Family", ["972500000001"], None, {})),
        ("/faults", {"target": {"phone": "972501234567"}, "kind": "ack_error", "code": 463, "delayMs": 7},
         ("fault", "ack_error", {"phone": "972501234567", "seconds": None, "code": 463, "delay_ms": 7})),
        ("/scenarios", {"format": 2, "message": {"kind": "text"}, "expected": [], "sender": "+972501234567",
                        "recipient": "972507654321", "attempts": [{"faults": [{"kind": "needs_token", "firstContact": False}]}]},
         ("play", "972501234567", "972507654321", [Attempt([{"kind": "needs_token", "first_contact": False}])])),
        ("/faults", {"target": "whatsapp", "kind": "drop", "seconds": 3},
         ("fault", "drop", {"phone": None, "seconds": 3.0, "code": None})),
    ],
)  # fmt: skip
async def test_a_request_calls_whatsapp_with_its_parameters(
    control: httpx.AsyncClient, whatsapp: FakeWhatsApp, path: str, body: dict[str, Any] | None, asked: tuple[Any, ...]
) -> None:
    answer = await control.post(path, json=body)
    assert answer.is_success, answer.text
    assert whatsapp.asked == [asked]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/phones/972501234567/scan", {"qr": "stale"}, 409, "UNKNOWN_QR"),
        ("/phones/972501234567/scan", {}, 422, "INVALID"),
        ("/phones/972501234567/scan", {"qr": "x", "qr2": "y"}, 422, "INVALID"),
        ("/phones/12/scan", {"qr": "x"}, 422, "INVALID"),
        ("/phones/972501234567/say-media", {"to": "9", "kind": "image", "data": "%"}, 409, "BAD_DATA"),
        ("/phones/972501234567/say", {"to": "somebody", "text": "hi"}, 409, "BAD_PHONE"),
        ("/faults", {"target": {"proxy": "proxy-9"}, "kind": "drop"}, 404, "UNKNOWN_PROXY"),
        ("/faults", {"target": {"proxy": "proxy-1"}, "kind": "explode"}, 409, "UNKNOWN_FAULT"),
        ("/scenarios", {"format": 1, "sender": "972501234567", "recipient": "972507654321", "attempts": []}, 422, "INVALID"),
        ("/scenarios", {"format": 2, "sender": "972501234567", "recipient": "972507654321",
                        "attempts": [{"faults": [{"kind": "explode"}]}]}, 409, "UNKNOWN_FAULT"),
        ("/faults", {"target": {"planet": "x"}, "kind": "drop"}, 422, "INVALID"),
        ("/faults", {"target": "whatsapp", "kind": "drop", "seconds": -1}, 422, "INVALID"),
        ("/nowhere", {}, 404, "NOT_FOUND"),
        ("/arrivals", {}, 405, "METHOD_NOT_ALLOWED"),
    ],
)  # fmt: skip
async def test_an_invalid_request_is_refused_in_json(
    control: httpx.AsyncClient, whatsapp: FakeWhatsApp, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    answer = await control.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["error"]
    assert whatsapp.asked == []


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}, {"Host": "evil.example.com"}, {"Host": "0.0.0.0"}]
)
async def test_a_request_of_a_web_page_is_refused(
    control: httpx.AsyncClient, whatsapp: FakeWhatsApp, headers: dict[str, str]
) -> None:
    answer = await control.post("/phones/972501234567/read", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    assert whatsapp.asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:4000", "localhost:4000", "[::1]:4000"])
async def test_a_program_on_this_machine_is_served(control: httpx.AsyncClient, host: str) -> None:
    assert (await control.get("/arrivals", params={"after": 2}, headers={"Host": host})).json() == [
        {"n": 3, "text": "hello"}
    ]


async def test_faults_of_proxies_and_telegram_reach_them_and_end_together(
    control: httpx.AsyncClient, pool: SocksPool, telegram: Telegram
) -> None:
    proxy = pool.find("proxy-1")
    url = proxy.account.url
    await control.post("/faults", json={"target": {"proxy": url}, "kind": "slow", "latencyMs": 5})
    await control.post("/faults", json={"target": {"proxy": proxy.account.port}, "kind": "refuse"})
    await control.post("/faults", json={"target": "telegram", "kind": "rate_limit", "code": 3})
    (shown,) = (await control.get("/proxies")).json()
    assert shown["faults"] == ["refuse", "slow"]
    await control.delete("/faults")
    (shown,) = (await control.get("/proxies")).json()
    assert shown["faults"] == []
    await control.post("/faults", json={"target": "telegram", "kind": "error"})
    telegram.clear_faults()
    assert (await control.get("/telegram")).json() == []


async def test_the_proxies_can_be_shown_without_their_logs(control: httpx.AsyncClient, pool: SocksPool) -> None:
    port = pool.find("proxy-1").account.port
    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x05\x01\x00")  # offers no password
    await _reader.read()
    writer.close()
    (whole,) = (await control.get("/proxies")).json()
    (short,) = (await control.get("/proxies", params={"log": "false"})).json()
    assert [entry["outcome"] for entry in whole["connections"]] == ["no_credentials"]
    assert short == {**whole, "connections": []}


async def test_a_proxy_can_be_added(control: httpx.AsyncClient, pool: SocksPool) -> None:
    answer = await control.post("/proxies")
    assert answer.status_code == 201
    assert [proxy.account.url for proxy in pool][1] == answer.json()["url"]


async def test_the_front_page_lists_every_path(control: httpx.AsyncClient) -> None:
    page = (await control.get("/")).text
    for path in ("/phones/{phone}/scan", "/arrivals", "/connections", "/proxies", "/telegram", "/faults", "/groups"):
        assert path in page


async def test_the_file_of_a_message_is_returned_and_a_missing_one_is_not_found(
    control: httpx.AsyncClient,
) -> None:
    assert (await control.get("/phones/972501234567/inbox/3EB0/media")).content == b"picture"
    assert (await control.get("/phones/972501234567/inbox/nothing/media")).status_code == 404


async def test_the_docs_page_loads_nothing_from_other_hosts(control: httpx.AsyncClient) -> None:
    page = await control.get("/docs")
    assert (page.status_code, re.findall(r"https?://|[\"'(]//", page.text)) == (200, [])
