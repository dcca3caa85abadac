"""A write that others overtake every time is an error, and never taken for success or for another outcome."""

from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.orchestrator.session_steps import now, started
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import sessions
from wa_orchestrator.store.engine.compare_and_set import ATTEMPTS, Changed
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import slots

Write = Callable[[Orchestrator, Session], Awaitable[object]]


async def apply(control: Orchestrator, session: Session) -> object:
    return await transitions.apply(control.context, session.id, Event.WORKER_DIED)


async def assign_slot(control: Orchestrator, session: Session) -> object:
    return await placement.assign_slot(control.context, session, ProxyReason.PROXY_FAILED)


async def fence(control: Orchestrator, session: Session) -> object:
    await control.lease.step()
    return await control.pool.fence(session)


@pytest.mark.parametrize(
    ("module", "script", "write"),
    [(sessions, "advance", apply), (slots, "move", assign_slot), (sessions, "register", fence)],
)
async def test_a_write_that_loses_every_race_is_an_error(
    control: Orchestrator,
    api: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    script: str,
    write: Write,
) -> None:
    session = await started(control, api)
    races = 0

    async def overtaken(*_: object, **__: object) -> Changed:
        nonlocal races
        races += 1
        return Changed()

    monkeypatch.setattr(module, script, overtaken)
    with pytest.raises(Unavailable) as raised:
        await write(control, session)
    assert (raised.value.code, races) == ("WRITE_CONFLICT", ATTEMPTS)
    assert session.id in raised.value.text
    assert await now(control.context, session.id) == session
