"""Services that run separately: the orchestrator's port has all APIs."""

import signal
from pathlib import Path

import httpx
from redis import Redis

from tests.processes import PRODUCT, Program, bare_environment
from tests.redis_server import FORGETFUL, redis_server
from tests.waiting import PATIENCE_S, until
from wa_orchestrator.server import address

API_KEY = "wao_a-key-for-the-tests-0123456789"


async def test_messages_are_served_on_the_port_of_a_separate_orchestrator(tmp_path: Path) -> None:
    with redis_server(*FORGETFUL) as redis:
        environment = bare_environment() | {"REDIS_URL": redis.url, "API_KEY": API_KEY, "ORCH_PORT": "0"}
        command = (*PRODUCT, "orchestrator", "--data-dir", str(tmp_path / "d"))
        server = Program(command, log=tmp_path / "log", env=environment, cwd=tmp_path)
        try:
            url = await until(lambda: address.find(tmp_path / "d"), "the orchestrator listens")
            async with httpx.AsyncClient(base_url=url, headers={"X-API-Key": API_KEY}, timeout=PATIENCE_S) as client:
                for path in ("/api/send", "/api/v1/send"):
                    answer = await client.post(path, json={"to": "972511111111", "message": "hello"})
                    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "NO_SENDER")
                assert (await client.get("/api/v1/messages")).json() == {"messages": [], "next": None, "complete": True}
                assert (await client.get("/api/v1/stats")).status_code == 200
                queue = await client.get("/api/v1/queue/worker_1")
                assert queue.json()["error"]["code"] == "NO_SUCH_SESSION"
        finally:
            server.end(signal.SIGTERM)


def test_a_service_refuses_a_redis_in_which_another_program_took_a_key(tmp_path: Path) -> None:
    with redis_server(*FORGETFUL) as redis:
        with Redis.from_url(redis.url) as client:
            client.set("gateway:jobs", "mine")
        environment = bare_environment() | {"REDIS_URL": redis.url, "API_KEY": API_KEY}
        command = (*PRODUCT, "dispatcher", "--data-dir", str(tmp_path / "d"))
        server = Program(command, log=tmp_path / "log", env=environment, cwd=tmp_path)
        server.said("the key gateway:jobs is a string and must be a list")
        assert server.process.wait() != 0
