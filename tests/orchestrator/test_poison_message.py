"""A message that kills its worker is given up before its session is."""

import httpx

from tests.orchestrator.fakes import FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import PHONE, linked, now
from wa_orchestrator.domain.messages.retry import MOST_CRASHES
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.restart_limit import MAX_RESTARTS
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import admission, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place

MESSAGE, TO = "m_000000000000000001", "972520000001"
PLACE = Place(MESSAGE, PHONE, "s1")


async def queued(scripts: Scripts) -> None:
    """The message waits in the queue of its phone."""
    message = admission.NewMessage(MESSAGE, "3EB0000000000000000001", PHONE, "s1", TO)
    assert isinstance(await admission.accept(scripts, message, admission.Room(9, 9, 0)), admission.Accepted)
    assert await queues.route(scripts, PLACE, to=TO) == queues.Queued()


async def claimed(control: Orchestrator) -> None:
    """The session's worker has the message in hand."""
    scripts = control.context.scripts
    session, now_ms = await now(control.context, "s1"), await scripts.now_ms()
    day = (now_ms - 1000, now_ms + 60_000)
    permit = queues.Permit(0, 100, 1000, *day, *day, lease_ms=60_000)
    assert isinstance(await queues.release(scripts, PLACE, permit, other_name=TO), queues.Released)
    taken = await outbox.claim(scripts, "s1", phone=PHONE, epoch=session.epoch, lease_ms=60_000)
    assert isinstance(taken, tuple)


async def standing(control: Orchestrator) -> tuple[str, str]:
    """The message's status and reason."""
    message = await records.message(control.context.scripts, MESSAGE)
    assert message is not None
    return message.status, message.reason


async def test_a_message_that_kills_its_worker_is_given_up_and_its_session_goes_on(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await queued(control.context.scripts)
    for _ in range(MAX_RESTARTS):
        await claimed(control)
        runner.die("s1")
        await part(control, ExitWatcher).step()
        await drive(control)
        await teller.connected("s1", PHONE)
    assert await standing(control) == ("unknown", "WORKER_CRASHED")  # it may have been written
    assert await control.context.redis.zrange(keys.DEAD, 0, -1) == [MESSAGE]
    assert (await now(control.context, "s1")).status == "connected"


async def test_a_message_that_two_workers_died_with_is_sent_by_the_third(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await queued(control.context.scripts)
    for _ in range(2):
        await claimed(control)
        runner.die("s1")
        await part(control, ExitWatcher).step()
        assert await standing(control) == ("queued", "NEW_EPOCH")  # at once: a sibling may send it
        await drive(control)
        await teller.connected("s1", PHONE)
    await claimed(control)
    assert await standing(control) == ("sending", "")


async def test_a_message_is_not_blamed_when_a_person_restarts_its_session_again_and_again(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await queued(control.context.scripts)
    for _ in range(MOST_CRASHES):
        await claimed(control)
        await api.post("/api/sessions/s1/restart")
        await drive(control)
        await teller.connected("s1", PHONE)
    assert await standing(control) == ("queued", "NEW_EPOCH")
