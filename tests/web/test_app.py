"""What every HTTP service shares: error responses, headers, health, worker tokens, paging."""

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import structlog
from fastapi import APIRouter, Request
from pydantic import SecretStr
from redis.asyncio import Redis

from wa_orchestrator import context as contexts
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.dashboard import live
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.errors import Broken, Refused, Unavailable
from wa_orchestrator.orchestrator.api.sessions import changes
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, leases
from wa_orchestrator.store.events import event_tail
from wa_orchestrator.store.sessions import CONTROL_LEASE
from wa_orchestrator.web import health, paging
from wa_orchestrator.web.app import make_app


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: rendering tracebacks takes longer than the tests."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.fixture
def context(redis: Redis, tmp_path: Path) -> Context:
    return make_context(
        Settings(
            api_key=SecretStr("wao_5vR8kq2LxZt7mB1nWd9s"),
            webhook_secret=SecretStr("whsec_Tm90IGEgcmVhbCBzZWNyZXQsIGZvciB0ZXN0cw=="),
            data_dir=tmp_path,
        ),
        redis,
    )


def routes(context: Context) -> APIRouter:
    made = APIRouter()

    @made.get("/api/fails/{how}")
    async def fails(how: str) -> None:
        match how:
            case "refused":
                raise Refused("NO_TEA", "There is no tea. Drink water.", 418, left=0)
            case "unavailable":
                raise Unavailable("TEA_COOKS", "Wait a little.", retryAfterS=7)
            case "broken":
                raise Broken("canary-secret in the text")
            case _:
                raise RuntimeError("canary-secret in the text")

    @made.post("/api/takes")
    async def takes(body: dict[str, str]) -> None:
        raise AssertionError(body)

    @made.get("/api/worker/sessions/{session_id}")
    async def worker(session_id: str, request: Request) -> dict[str, int]:
        return {"epoch": (await tokens.authenticate_worker(context, request, session_id)).epoch}

    return made


@pytest.fixture
async def client(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    app = make_app(context, [routes(context), health.router(context)])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as made:
        yield made


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("refused", 418, "NO_TEA"),
        ("unavailable", 503, "TEA_COOKS"),
        ("broken", 500, "BROKEN"),
        ("other", 500, "BROKEN"),
    ],
)
async def test_every_error_has_one_form_and_reveals_no_internals(
    client: httpx.AsyncClient, how: str, status: int, code: str
) -> None:
    answer = await client.get(f"/api/fails/{how}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert "canary" not in answer.text


async def test_an_error_carries_its_details_and_retry_after(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/fails/refused")).json()["error"]["left"] == 0
    assert (await client.get("/api/fails/unavailable")).headers["retry-after"] == "7"


async def test_unknown_routes_and_methods_get_the_same_form(client: httpx.AsyncClient) -> None:
    assert (await client.get("/nowhere")).json()["error"]["code"] == "NOT_FOUND"
    assert (await client.put("/health")).json()["error"]["code"] == "METHOD_NOT_ALLOWED"


async def test_responses_have_security_headers_and_are_not_cached(client: httpx.AsyncClient) -> None:
    headers = (await client.get("/api/fails/refused")).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


async def test_a_body_with_a_too_large_content_length_is_not_read(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/takes", content=b"", headers={"Content-Length": str(64 << 20)})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "BODY_TOO_LONG")


async def test_a_body_without_content_length_is_cut_at_the_limit(context: Context) -> None:
    context.settings = context.settings.model_copy(update={"max_body_bytes": 1000})
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(1000):
            given += 100
            yield b"x" * 100

    made = APIRouter()

    @made.post("/takes")
    async def takes(body: dict[str, str]) -> None:
        raise AssertionError(body)

    @made.post("/reads")
    async def reads(request: Request) -> None:
        raise AssertionError(await request.body())

    transport = httpx.ASGITransport(make_app(context, [made]))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        for path in ("/takes", "/reads"):
            given = 0
            answer = await client.post(path, content=endless())
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "BODY_TOO_LONG")
            assert given <= 1200


async def test_no_blocking_redis_call_is_longer_than_the_socket_timeout(context: Context, redis_url: str) -> None:
    async with contexts.opened(context.settings, redis_url) as opened:
        limit_s = opened.redis.connection_pool.connection_kwargs["socket_timeout"]
    waits_s = {
        "tail": event_tail._BLOCK_MS / 1000,
        "pages": live._READ_BLOCK_MS / 1000,
        "worker": changes._CODE_WITHIN_S,
    }
    assert {name: wait_s for name, wait_s in waits_s.items() if wait_s >= limit_s} == {}


async def test_without_redis_a_service_is_healthy_but_not_ready(context: Context) -> None:
    without_redis = make_context(context.settings, Redis(host="127.0.0.1", port=1))
    app = make_app(without_redis, [health.router(without_redis)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        assert (await client.get("/health")).status_code == 200
        answer = await client.get("/ready")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "STORE_UNAVAILABLE")


async def test_ready_knows_the_leader_the_dispatcher_and_the_workers(context: Context) -> None:
    app = make_app(context, [health.router(context)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        alone = await client.get("/ready")
        assert alone.status_code == 200
        assert alone.json() == {"status": "degraded", "leader": False, "dispatcher": False, "workers": 0}
        await leases.acquire_lease(context.scripts, CONTROL_LEASE, owner="test", lease_ms=60_000)
        await context.redis.sadd(keys.SESSIONS_ACTIVE, "s1", "s2")
        assert (await client.get("/ready")).json()["status"] == "degraded"
        await Dispatcher(context).step()
        assert (await client.get("/ready")).json() == {
            "status": "ready", "leader": True, "dispatcher": True, "workers": 2,
        }  # fmt: skip
    assert 0 < await context.redis.pttl(keys.DISPATCHER_BEAT) <= 10_000


async def record(context: Context, session_id: str, epoch: int) -> None:
    fields = {"id": session_id, "status": "connected", "epoch": epoch, "version": 1}
    await context.redis.hset(keys.session(session_id), mapping=fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("owner", "epoch", "spoil", "status", "code"),
    [
        ("s1", 3, "", 200, ""),
        ("s1", 3, "x", 401, "WORKER_TOKEN_WRONG"),
        ("s1", 2, "", 409, "FENCED"),
        ("s2", 3, "", 403, "OTHER_SESSION"),
        ("gone", 3, "", 403, "OTHER_SESSION"),
    ],
)
async def test_a_worker_token_is_valid_for_its_session_and_epoch_only(
    context: Context, client: httpx.AsyncClient, owner: str, epoch: int, spoil: str, status: int, code: str
) -> None:
    await record(context, "s1", 3)
    token = tokens.mint(context.settings, owner, epoch).token + spoil
    answer = await client.get("/api/worker/sessions/s1", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json().get("error", {}).get("code", "")) == (status, code)


async def test_no_token_and_another_scheme_are_refused(context: Context, client: httpx.AsyncClient) -> None:
    await record(context, "s1", 3)
    token = tokens.mint(context.settings, "s1", 3).token
    for headers in ({}, {"Authorization": f"Basic {token}"}, {"Authorization": "Bearer wwt_s1.x.y"}):
        answer = await client.get("/api/worker/sessions/s1", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "WORKER_TOKEN_WRONG")


def test_pages_cover_a_list_without_gap_or_overlap() -> None:
    items = [f"{number:03}" for number in range(23)]
    shown: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = paging.page(items, cursor, 5, str)
        shown += page
        if cursor is None:
            break
    assert shown == items
