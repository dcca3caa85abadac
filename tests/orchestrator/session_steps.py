"""What tests do to sessions again and again, as a client and as a worker."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeCheck, FakeRunner, Teller, drive
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.orchestrator import service
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import commands

PHONE = "972501234567"
OTHER = "972507654321"
THIRD = "972501112222"
IDS = [proxy_url.proxy_id(url) for url in PROXIES]
GIVEN = "socks5h://user:canary-password-9@given.example.com:1080"


async def another(context: Context, runner: FakeRunner) -> Orchestrator:
    """A second orchestrator on the same Redis, with the same engine."""
    return service.assemble(make_context(context.settings, context.redis), runner, FakeCheck())


async def started(control: Orchestrator, api: httpx.AsyncClient, session_id: str = "s1", **body: Any) -> Session:
    """A session whose worker runs."""
    answer = await api.post("/api/sessions/provision", json={"sessionId": session_id, **body})
    assert answer.status_code == 201, answer.text
    await drive(control)
    return await now(control.context, session_id)


async def now(context: Context, session_id: str) -> Session:
    """The session as it is recorded."""
    session = await records.session(context.scripts, session_id)
    assert session is not None
    return session


async def provision(api: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await api.post("/api/sessions/provision", json=body)


async def condemned(control: Orchestrator, proxy_id: str) -> None:
    """Check a dead proxy until that is proven: twice."""
    for _ in range(2):
        await control.proxy_health.check(proxy_id)


async def code_of(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


async def fill(api: httpx.AsyncClient, proxy: str) -> None:
    """Take all slots of a proxy."""
    while (await provision(api, proxy=proxy)).status_code == 201:
        pass


async def linked(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, session_id: str, phone: str, **body: Any
) -> None:
    """A session that is connected; one that is not the phone's first was provisioned for it."""
    if await control.context.redis.exists(keys.sessions_of_phone(phone)):
        body = {"phone": phone} | body
    await started(control, api, session_id, **body)
    await teller.qr(session_id)
    await teller.connected(session_id, phone)
    await drive(control)


async def relinked(control: Orchestrator, api: httpx.AsyncClient, teller: Teller, session_id: str) -> None:
    """A session that was logged out and shows a new code."""
    assert (await teller.disconnected(session_id, 401)).status_code == 200
    await drive(control)
    assert (await teller.qr(session_id)).status_code == 200


async def confirmed(control: Orchestrator, api: httpx.AsyncClient, teller: Teller, session_id: str, phone: str) -> None:
    """A session whose worker reported a phone of another session, which a person has confirmed; it starts again."""
    assert (await teller.connected(session_id, phone)).status_code == 200
    answer = await api.post(f"/api/sessions/{session_id}/confirm-phone", json={"phone": phone})
    assert answer.status_code == 200, answer.text
    await drive(control)


def with_credentials(control: Orchestrator, text: str, session_id: str = "s1") -> Path:
    """Give a session a file of credentials, as its worker would; where it is."""
    directory = control.context.settings.sessions_dir / session_id
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "auth.db"
    file.write_text(text)
    return file


async def asked(control: Orchestrator, session_id: str = "s1") -> dict[str, Any]:
    """Take, as the worker would, what the server asks of it."""
    found: Any = await control.context.redis.blpop([keys.commands(session_id)], timeout=30)
    assert found is not None, "nothing was asked"
    command: dict[str, Any] = json.loads(found[1])
    return command


async def done(control: Orchestrator, command: dict[str, Any]) -> None:
    """Answer, as the worker would, that it is done."""
    session_id = str(await control.context.redis.get(keys.command_question(command["id"]))).partition(" ")[2]
    assert await commands.put_result(control.context.scripts, session_id, command["id"], {"ok": True})


async def delete(control: Orchestrator, api: httpx.AsyncClient, session_id: str, **params: Any) -> httpx.Response:
    request = asyncio.create_task(api.delete(f"/api/sessions/{session_id}", params=params))
    while not request.done():
        await drive(control)
        await asyncio.sleep(0.01)
    answer = await request
    assert answer.json() == {"sessionId": session_id, "deleted": True}
    return answer
