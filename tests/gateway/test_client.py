"""The client against a real gateway, and what it does about errors."""

import time
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tests.gateway.conftest import API_KEY, Gate, serve
from wa_orchestrator.client import AsyncClient, Client, errors
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import queues
from wa_orchestrator.store.messages.message_keys import Place


@pytest.fixture
async def client(gate: Gate) -> AsyncIterator[AsyncClient]:
    """A client of the gateway."""
    async with serve(gate.gateway) as transport, AsyncClient("http://x", API_KEY, transport=transport) as one:
        yield one


async def test_a_message_is_sent_found_and_cancelled(gate: Gate, client: AsyncClient) -> None:
    sent = await client.send("972511111111", "hello", reference="r")
    place = Place(sent["messageId"], "972500000001", "w1")
    await queues.route(gate.scripts, place, to="972511111111", reference="r")
    assert (await client.message(sent["messageId"]))["status"] == "queued"
    found = [message["messageId"] async for message in client.all_messages(reference="r", limit=1)]
    assert found == [sent["messageId"]]
    assert (await client.queue("w1"))["total"] == 1
    assert (await client.cancel(sent["messageId"]))["status"] == "cancelled"
    assert (await client.stats("w1", days=1))["total"]["sent"] == 0


async def test_files_and_batches_travel_too(client: AsyncClient) -> None:
    upload = await client.upload(b"%PDF", mimetype="application/pdf", filename="תפריט.pdf")
    sent = await client.send("972511111111", media={"upload": upload["uploadId"]})
    assert sent["queued"]
    batch = await client.send_batch([{"to": "972511111111", "message": "a"}, {"to": "1", "message": "b"}])
    assert (batch["accepted"], batch["refused"]) == (1, 1)
    assert (await client.waiting(batch_id=batch["batchId"]))["total"] == 1
    assert (await client.cancel_waiting(batch_id=batch["batchId"]))["cancelled"] == 1


async def test_errors_have_their_own_kinds(gate: Gate, client: AsyncClient) -> None:
    await gate.redis.hset(keys.session("w1"), "limits", '{"per_day": 1}')
    with pytest.raises(errors.InvalidError) as invalid:
        await client.send("1", "")
    assert {each["path"] for each in invalid.value.errors} == {"to", "message"}
    with pytest.raises(errors.NotFoundError) as missing:
        await client.message("m_000000000000000000")
    assert missing.value.code == "NO_SUCH_MESSAGE"
    await client.send("972511111111", "a", idempotency_key="k")
    with pytest.raises(errors.ConflictError):
        await client.send("972511111111", "b", idempotency_key="k")
    with pytest.raises(errors.TooManyError) as full:
        await client.send("972511111111", "c")
    assert full.value.details["limit"] == 1


def _server(answers: list[httpx.Response | Exception]) -> tuple[list[httpx.Request], httpx.MockTransport]:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        told = answers.pop(0)
        if isinstance(told, Exception):
            raise told
        return told

    return seen, httpx.MockTransport(answer)


def _error(status: int, **details: object) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": "X", "message": "x", **details}})


def test_a_send_is_repeated_with_the_same_key_when_the_answer_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, transport = _server(
        [httpx.ReadTimeout("late"), _error(503, retryAfterS=2), httpx.Response(202, json={"ok": 1})]
    )
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with Client("http://x", API_KEY, transport=transport) as client:
        assert client.send("972511111111", "hi") == {"ok": 1}
    assert len({request.headers["idempotency-key"] for request in seen}) == 1
    assert (len(seen), pauses[1]) == (3, 2.0)


@pytest.mark.parametrize(
    ("call", "answer", "kind", "tries"),
    [
        (lambda one: one.retry("m_1"), _error(503), errors.UnavailableError, 1),
        (lambda one: one.send("9725", "x"), _error(429, retryAfterS=3600), errors.TooManyError, 1),
        (lambda one: one.send("9725", "x"), _error(422), errors.InvalidError, 1),
        (lambda one: one.message("m_1"), httpx.ConnectError("no"), errors.NoAnswerError, 3),
        (lambda one: one.sessions(), httpx.Response(502, text="<html>"), errors.ApiError, 1),
        (lambda one: one.sessions(), _error(403), errors.NotAllowedError, 1),
    ],
)
def test_only_what_is_harmless_and_hopeful_is_repeated(
    call: Callable[[Client], object],
    answer: httpx.Response | Exception,
    kind: type[Exception],
    tries: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, transport = _server([answer] * 5)
    monkeypatch.setattr(time, "sleep", lambda _s: None)
    with Client("http://x", API_KEY, transport=transport) as client, pytest.raises(kind):
        call(client)
    assert len(seen) == tries


def test_what_takes_long_is_waited_for_and_a_server_that_is_away_is_noticed_all_the_same() -> None:
    seen, transport = _server([httpx.Response(202, json={})] * 3)
    with Client("http://x", API_KEY, transport=transport) as client:
        client.restore_backup("backup_2026-01-31")
        client.move_session("w1", "node-2", wait=60)
        client.message("m_1")
    waits = [request.extensions["timeout"] for request in seen]
    assert [each["read"] for each in waits] == [1800, 90, 30]
    assert {each["connect"] for each in waits} == {30}


def test_names_cannot_leave_their_place_in_a_path() -> None:
    seen, transport = _server([httpx.Response(200, json={})])
    with Client("http://x", API_KEY, transport=transport) as client:
        client.session("../v1/proxies?x=1")
    assert seen[0].url.raw_path == b"/api/sessions/..%2Fv1%2Fproxies%3Fx%3D1"
