"""The workers' own listener answers the frequent requests without FastAPI: with the same answers as its routes."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.messages.conftest import MessageApi, Worker
from wa_orchestrator.orchestrator.api.workers.outbox import WorkerOutboxRoutes
from wa_orchestrator.web.app import make_worker_app

UNKNOWN = "m_0123456789abcdef01"
ACK = {"whatsappId": "3EB0", "timestamp": 1}
#: Path and body of requests that change nothing.
CALLS: list[tuple[str, Any]] = [
    ("claim", {"waitMs": 0, "accept": ["messages"], "ofANewerWorker": 1}),
    ("claim", {}),
    ("claim", {"waitMs": -1}),
    ("claim", {"waitMs": "soon", "accept": ["tea"]}),
    (f"{UNKNOWN}/ack", ACK),
    (f"{UNKNOWN}/ack", {}),
    (f"{UNKNOWN}/nack", {"code": 500, "retryable": False}),
    (f"{UNKNOWN}/nack", {"error": "no code"}),
    (f"{UNKNOWN}/renew", {}),
    (f"{UNKNOWN}/renew", {"beforeWrite": True}),
    ("not.an.id/ack", ACK),
]


@pytest.fixture
async def quick(api: MessageApi) -> AsyncIterator[Worker]:
    """The worker of `w1`, at a listener that has the handlers and no routes."""
    handlers = WorkerOutboxRoutes(api.context, api.signals).handlers_by_path()
    transport = httpx.ASGITransport(make_worker_app(api.context, [], handlers))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield replace(api.worker(), client=client)


def _told(answer: httpx.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json() if answer.content else None


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_a_handler_answers_as_its_route_does(api: MessageApi, quick: Worker, path: str, body: Any) -> None:
    assert _told(await quick.call(path, body)) == _told(await api.worker().call(path, body))


async def test_handlers_take_a_message_from_claim_to_ack(api: MessageApi, quick: Worker) -> None:
    message = await api.released()
    claimed = await quick.claim()
    assert claimed is not None
    assert claimed["messageId"] == message
    assert (await quick.call(f"{message}/renew", {"beforeWrite": True})).json()["leaseMs"] == claimed["leaseMs"]
    assert (await quick.ack(claimed)).json() == {"status": "sent"}


async def test_handlers_refuse_wrong_tokens_before_they_read(api: MessageApi, quick: Worker) -> None:
    address = "/api/worker/sessions/w1/outbox/claim"
    assert (await quick.client.post(address, content=b"{")).status_code == 401
    assert (await quick.call("claim", to="w2")).status_code == 403
    fenced = await replace(quick, epoch=quick.epoch + 1).call("claim")
    assert (fenced.status_code, fenced.json()["code"]) == (409, "FENCED")


async def test_handlers_refuse_what_is_not_json_and_what_is_too_long(api: MessageApi, quick: Worker) -> None:
    for content, code in ((b"{", "BAD_JSON"), (b"\xff", "BAD_JSON"), (b"[" * 100_000, "BAD_JSON")):
        answer = await _post(quick, content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    long = await _post(quick, b" " * (api.context.settings.max_body_bytes + 1))
    assert (long.status_code, long.json()["error"]["code"]) == (413, "BODY_TOO_LONG")


async def test_a_text_that_was_cut_inside_a_character_is_accepted(api: MessageApi, quick: Worker) -> None:
    message = await api.released()
    assert await quick.claim() is not None
    ack = await _post(quick, b'{"whatsappId": "\\ud83d"}', f"{message}/ack")
    assert (ack.status_code, ack.json()["error"]["code"]) == (409, "OTHER_WHATSAPP_ID")
    nack = await _post(quick, b'{"code": "X\\ud83d", "error": "cut: \\ud83d"}', f"{message}/nack")
    assert nack.status_code == 200, nack.text


async def _post(worker: Worker, content: bytes, path: str = "claim") -> httpx.Response:
    asked = await worker.call("claim", {"waitMs": -1})  # for its headers
    headers = {"Authorization": asked.request.headers["Authorization"], "Content-Type": "application/json"}
    return await worker.client.post(f"/api/worker/sessions/w1/outbox/{path}", content=content, headers=headers)
