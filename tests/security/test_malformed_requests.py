"""Thousands of malformed requests: never an error of the server, never a trace of its code, never a request that hangs.

The seeds are fixed, so that a request that was answered wrongly is answered wrongly again.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from redis.asyncio import Redis

from tests.orchestrator.fakes import ADMIN, API_KEY
from tests.security.fleet import MINE, PHONES, TwoCustomers, fields_of, two_customers
from tests.security.peers import HEALTH, Peer, Serve
from tests.security.server_log import logged
from tests.security.test_key_walk import ENDLESS
from tests.security.visitor import ORIGIN, Visitor, person
from tests.waiting import PATIENCE_S
from wa_orchestrator.dashboard import login_throttle
from wa_orchestrator.dashboard.routes.actions import ACTIONS
from wa_orchestrator.orchestrator.api import contacts
from wa_orchestrator.orchestrator.api.sessions import changes as sessions
from wa_orchestrator.orchestrator.api.sessions import passkeys

pytestmark = pytest.mark.slow
#: What a field, a parameter or a part of a path may hold that nobody has thought of.
TEXTS: Final = (
    "", " ", "\x00", "\ud800", "\ufeff", "\u202e", "²", "٣", "-1", "0", "1e999", "9" * 5000, "x" * 70_000, "..", "../../x",
    "%00", "%", "{}", "{0.__class__}", "<script>", "'\"`;--", "\r\nX-Injected: 1", "null", "NaN", "2026-13-45T99:99:99Z",
    "http://[", "https://\x7f/", "socks5h://", "socks5h://[::1", "972500000001", "+" * 300, "*", "session:", "a:b:c", "\n" * 999,
)  # fmt: skip
VALUES: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 2**31, 2**63, 10**400, -1e308, [], {}, [[]], [None] * 50, {"a": {"b": {}}}, {"": None}, ["\ud800"],
    *TEXTS,
)  # fmt: skip
BODIES: Final = (
    b"", b"{", b"[]", b"null", b"1e400", b"NaN", b'"x"', b"\xff\xfe\x00", b"\xef\xbb\xbf{}", b"[" * 100_000, b'{"a":' * 50_000,
    b'{"a":1,"a":2}', b'{"\\ud800":1}', b"\x00" * 1000, b"{}" * 1000, b"--x\r\n\r\n", b"a=b&" * 5000,
)  # fmt: skip
_WAITS: Final = ("_REMOVED_WITHIN_S", "_CODE_WITHIN_S", "_REPORTED_WITHIN_S")
KINDS: Final = ("application/json", "text/plain", "multipart/form-data", "multipart/form-data; boundary=x", "\xff", "")


@pytest.fixture
async def fleet(redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TwoCustomers]:
    for module, name in ((contacts, "_WAIT_S"), (passkeys, "_WITHIN_S"), *((sessions, each) for each in _WAITS)):
        monkeypatch.setattr(module, name, 0.01)  # there are no workers to wait for
    made = await two_customers(redis, tmp_path)
    yield made
    await made.client.aclose()


@pytest.fixture(autouse=True)
def no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails a test whose requests left an error in the server's log."""
    with logged(caplog) as lines:
        yield
    assert [each for each in lines if not isinstance(each, dict) or each["log_level"] != "warning"] == []


async def _ask(client: httpx.AsyncClient, method: str, path: str, **request: Any) -> str:
    """Return what is wrong with the answer to a request; '' where nothing is."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            answer = await client.request(method, path, **request)
    except TimeoutError:
        return f"{method} {path[:200]} hangs: {str(request)[:300]}"
    except (httpx.InvalidURL, UnicodeError, httpx.LocalProtocolError):
        return ""  # no client can send this
    if answer.status_code < 500 or (answer.status_code == 503 and "STORE_UNAVAILABLE" not in answer.text):
        assert "Traceback" not in answer.text
        return ""
    return f"{method} {path[:200]}: {answer.status_code} {answer.text[:200]} {str(request)[:300]}"


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def _operations(fleet: TwoCustomers) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every operation of the API, without the stream that has no end."""
    described = fleet.app.openapi()["paths"]
    found = [
        (method.upper(), path, operation)
        for path, methods in described.items()
        for method, operation in methods.items()
        if f"{method.upper()} {path}" != ENDLESS
    ]
    assert len(found) > 90, "the walk has lost its way"
    return found


def _filled(fleet: TwoCustomers, path: str) -> str:
    known = {"session_id": MINE, "message_id": fleet.messages[MINE], "phone": PHONES[MINE], "recipient": PHONES[MINE]}
    for name in [part.partition("}")[0] for part in path.split("{")[1:]]:
        path = path.replace(f"{{{name}}}", known.get(name, "x_0123456789ab"))
    return path


async def test_no_body_is_an_error_of_the_server(fleet: TwoCustomers) -> None:
    wrong, dice = [], random.Random(1)
    for method, path, _ in _operations(fleet):
        for body in BODIES:
            headers = ADMIN | {"Content-Type": dice.choice(KINDS).encode("latin-1")}
            wrong.append(await _ask(fleet.client, method, _filled(fleet, path), headers=headers, content=body))
    assert [each for each in wrong if each] == []


async def test_no_field_of_a_body_is_an_error_of_the_server(fleet: TwoCustomers) -> None:
    wrong, asked = [], 0
    headers = ADMIN | {"Content-Type": "application/json"}
    for method, path, operation in _operations(fleet):
        names = fields_of(fleet, operation)
        for name in names:
            for value in VALUES:
                asked += 1
                body = _dump({name: value})
                wrong.append(await _ask(fleet.client, method, _filled(fleet, path), headers=headers, content=body))
        for value in VALUES:
            body = _dump(dict.fromkeys(names, value))
            wrong.append(await _ask(fleet.client, method, _filled(fleet, path), headers=headers, content=body))
    assert asked > 3000, "the walk has lost its way"
    assert [each for each in wrong if each] == []


async def test_no_parameter_and_no_id_is_an_error_of_the_server(fleet: TwoCustomers) -> None:
    wrong = []
    for method, path, operation in _operations(fleet):
        names = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
        for text in TEXTS:
            shown = text.encode("utf-8", "surrogatepass")
            for name in (*names, "unknown"):
                query = httpx.QueryParams({name: shown.decode("utf-8", "replace")[:2000]})
                wrong.append(await _ask(fleet.client, method, _filled(fleet, path), headers=ADMIN, params=query))
            for part in [part.partition("}")[0] for part in path.split("{")[1:]]:
                quoted = "".join(f"%{each:02x}" for each in shown[:2000])
                spelled = _filled(fleet, path.replace(f"{{{part}}}", quoted))
                wrong.append(await _ask(fleet.client, method, spelled, headers=ADMIN))
    assert [each for each in wrong if each] == []


async def test_no_form_and_no_page_is_an_error_of_the_server(
    fleet: TwoCustomers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_throttle, "LONGEST_S", 0)
    await person(fleet, "Dana")
    dana = Visitor(fleet)
    await dana.log_in("Dana")
    headers = {"Origin": ORIGIN, "X-CSRF-Token": await dana.token()}
    names = (
        "id", "scope", "why", "per_day", "per_minute", "acknowledge", "days", "scopes", "labels", "sessions", "name", "role",
        "url", "types", "text", "to", "message", "session", "reference", "phone", "proxy", "presence", "pairing", "label",
        "trash", "number", "answer", "identity", "what", "listed", "queued", "confirm", "key", "defer",
    )  # fmt: skip
    wrong, dice = [], random.Random(7)
    for action in ACTIONS:
        for text in dice.sample(TEXTS, 12):
            form = {name: text.encode("utf-8", "replace").decode() for name in names}
            wrong.append(await _ask(dana.client, "POST", f"/do/{action}", headers=headers, data=form))
    for path in (
        "/",
        "/scan",
        "/messages",
        "/proxies",
        "/anti-ban",
        "/live-log",
        "/backups",
        "/people",
        "/audit",
        "/jobs",
        "/campaigns",
    ):
        for text in TEXTS:
            query = dict.fromkeys(
                ("id", "q", "state", "page", "cursor", "kind", "after", "at", "phone", "to", "newest", "before", "ids"),
                text[:2000],
            )
            wrong.append(await _ask(dana.client, "GET", path, params=query))
    for text in TEXTS:
        spelled = {
            "Origin": text.encode("utf-8", "surrogatepass")[:200],
            "Cookie": text.encode("utf-8", "replace")[:200],
        }
        wrong.append(await _ask(Visitor(fleet).client, "POST", "/login", headers=spelled, data={"password": "x"}))
    for text in TEXTS[::5]:  # a password takes its time to be checked
        given = {
            name: text.encode("utf-8", "replace").decode() for name in ("name", "password", "code", "token", "back")
        }
        for path in ("/login", "/login/code", "/enter", "/choose"):
            wrong.append(await _ask(Visitor(fleet).client, "POST", path, headers={"Origin": ORIGIN}, data=given))
    assert [each for each in wrong if each] == []


async def test_no_body_of_a_form_is_an_error_of_the_server(
    fleet: TwoCustomers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_throttle, "LONGEST_S", 0)
    await person(fleet, "Dana")
    dana, wrong = Visitor(fleet), []
    await dana.log_in("Dana")
    headers = {"Origin": ORIGIN, "X-CSRF-Token": await dana.token()}
    part = b'--x\r\nContent-Disposition: form-data; name="id"'
    parts = (
        part + b"\r\n\r\n1\r\n",
        part + b'; filename="\xff"\r\n\r\n1\r\n--x--',
        (part + b"\r\n\r\n\r\n") * 3000,
        b"--x--",
    )
    for kind in (*KINDS, "application/x-www-form-urlencoded", "multipart/form-data; boundary=" + "x" * 300):
        for body in (*BODIES, *parts):
            for path in ("/do/hold", "/choose", "/account/password"):
                given = [(name.encode(), value.encode()) for name, value in headers.items()]
                given.append((b"Content-Type", kind.encode("latin-1")))
                wrong.append(await _ask(dana.client, "POST", path, headers=given, content=body))
    assert [each for each in wrong if each] == []


# -- bytes on a connection --------------------------------------------------------------------------------------------

_SEND: Final = _dump({"to": "972511111111", "message": "hello"})
_WELL_FORMED: Final = (
    HEALTH,
    b"POST /api/v1/send HTTP/1.1\r\nHost: x\r\nX-API-Key: " + API_KEY.encode() + b"\r\nContent-Length: "
    + str(len(_SEND)).encode() + b"\r\n\r\n" + _SEND,
    b"POST /webhook HTTP/1.1\r\nHost: x\r\nwebhook-id: e\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,AAAA\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"GET /api/v1/messages?limit=5 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + API_KEY.encode() + b"\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 10\r\n\r\npassword=x",
)  # fmt: skip
_PIECES: Final = (
    b"\r\n", b"\n", b"\r", b"\x00", b" ", b"\t", b":", b"\xff", b"%", b"%00", b"\x0b", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: \x0bchunked\r\n", b"Expect: 100-continue\r\n", b"Expect: x\r\n", b"Upgrade: websocket\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\n", b"Host: y\r\n", b"X-API-Key: y\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"HTTP/9.9", b"HTTP/2.0",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET http://169.254.169.254/ HTTP/1.1\r\n", b"CONNECT x:443 HTTP/1.1\r\n", b" folded: y\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"A" * 9000, b"X" * 70_000 + b": y\r\n", b"../" * 2000, b"?" * 3000,
)  # fmt: skip


def _mutated(dice: random.Random) -> bytes:
    """A request with some bytes changed, removed, repeated or put in."""
    raw = bytearray(dice.choice(_WELL_FORMED))
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(raw) + 1)
        match dice.randrange(5):
            case 0:
                raw[at : at + 1] = bytes((dice.randrange(256),))
            case 1:
                del raw[at : at + dice.randint(1, 20)]
            case 2:
                raw[at:at] = raw[max(0, at - dice.randint(1, 40)) : at]
            case 3:
                raw[at:at] = dice.choice(_PIECES)
            case _:  # between two lines of the head, where headers are
                lines = raw.find(b"\r\n", at)
                raw[max(0, lines) : max(0, lines)] = b"\r\n" + dice.choice(_PIECES).rstrip(b"\r\n")
    return bytes(raw)


async def test_no_bytes_are_an_error_of_the_server(serve: Serve) -> None:
    dice = random.Random(13)
    requests = [_mutated(dice) for _ in range(2000)]
    wrong: list[tuple[bytes, bytes]] = []

    async def attack(port: int, raw: bytes) -> None:
        peer = await Peer.connect(port)
        await peer.send(raw)
        peer.writer.write_eof()
        try:
            async with asyncio.timeout(PATIENCE_S):
                said = await peer.rest()
        except TimeoutError:
            wrong.append((b"hangs", raw[:300]))
            return
        finally:
            peer.close()
        answered = [line for line in said.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
        if (
            (said and not answered)
            or any(each[9:12] in (b"500", b"501", b"502") for each in answered)
            or b"Traceback" in said
        ):
            wrong.append((said[:300], raw[:300]))

    async with serve(per_address=100, head_s=5.0, body_s=5.0) as port:
        for at in range(0, len(requests), 50):
            await asyncio.gather(*(attack(port, raw) for raw in requests[at : at + 50]))
        peer = await Peer.connect(port)
        await peer.send(HEALTH)
        assert await peer.status() == 200
        peer.close()
    assert wrong == []
