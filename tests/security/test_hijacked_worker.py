"""A hijacked worker speaks for its own messages only, and answers only what it was asked."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.messages.conftest import Worker
from tests.orchestrator.fakes import Teller, drive
from tests.orchestrator.session_steps import OTHER, PHONE, asked, linked, now
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator.api import worker_outbox
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers import command_calls
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.messages import admission, queues
from wa_orchestrator.store.messages.message_keys import Place

VICTIM, THIEF = "victim", "thief"
MESSAGE, WHATSAPP_ID = "m_00000000000000000a", "3EB000000000000000000A"

Said = Callable[[Worker, Teller], Awaitable[httpx.Response]]
#: Everything that a worker can say about a message.
SAYINGS: dict[str, Said] = {
    "ack": lambda worker, _: worker.call(f"{MESSAGE}/ack", {"whatsappId": WHATSAPP_ID}),
    "nack": lambda worker, _: worker.call(f"{MESSAGE}/nack", {"code": "NOT_ON_WHATSAPP", "retryable": False}),
    "nack banned": lambda worker, _: worker.call(f"{MESSAGE}/nack", {"code": "BANNED", "retryable": False}),
    "renew": lambda worker, _: worker.call(f"{MESSAGE}/renew"),
    "write": lambda worker, _: worker.call(f"{MESSAGE}/renew", {"beforeWrite": True}),
    "MESSAGE_SENT": lambda worker, teller: teller.tell(
        worker.session, "MESSAGE_SENT", {"messageId": MESSAGE, "whatsappId": WHATSAPP_ID}
    ),
    "MESSAGE_FAILED": lambda worker, teller: teller.tell(
        worker.session, "MESSAGE_FAILED", {"messageId": MESSAGE, "code": 463}
    ),
    "delivered": lambda worker, teller: teller.tell(
        worker.session, "MESSAGE_STATUS", {"whatsappId": WHATSAPP_ID, "status": "delivered", "at": 1}
    ),
    "read": lambda worker, teller: teller.tell(
        worker.session, "MESSAGE_STATUS", {"whatsappId": WHATSAPP_ID, "status": "read", "at": 1}
    ),
}


@pytest.fixture
async def workers(
    control: Orchestrator, api: httpx.AsyncClient, client: httpx.AsyncClient, teller: Teller
) -> dict[str, Worker]:
    """The victim's worker and the thief's; a message waits for the victim."""
    await linked(control, api, teller, VICTIM, OTHER)
    await linked(control, api, teller, THIEF, PHONE)
    scripts = control.context.scripts
    message = admission.NewMessage(MESSAGE, WHATSAPP_ID, OTHER, VICTIM, "97251")
    assert isinstance(await admission.accept(scripts, message, admission.Room(9, 9, 0)), admission.Accepted)
    assert await queues.route(scripts, Place(MESSAGE, OTHER, VICTIM), to="97251") == queues.Queued()
    await drive(control)
    return {
        name: Worker(client, control.context.settings, name, (await now(control.context, name)).epoch)
        for name in (VICTIM, THIEF)
    }


@pytest.mark.parametrize("saying", SAYINGS)
async def test_what_it_says_about_a_message_of_another_session_is_refused_and_changes_nothing(
    control: Orchestrator, teller: Teller, workers: dict[str, Worker], saying: str
) -> None:
    before = await records.message(control.context.scripts, MESSAGE)
    answer = await SAYINGS[saying](workers[THIEF], teller)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "NOT_YOUR_MESSAGE")
    assert await records.message(control.context.scripts, MESSAGE) == before
    assert await control.context.redis.zrange(keys.queue(OTHER), 0, -1) == [MESSAGE]
    assert not await control.context.redis.hgetall(keys.HOLDS)


@pytest.mark.parametrize("saying", ["ack", "MESSAGE_SENT", "delivered", "read"])
async def test_its_own_messages_are_its_own(
    control: Orchestrator, teller: Teller, workers: dict[str, Worker], saying: str
) -> None:
    assert (await SAYINGS[saying](workers[VICTIM], teller)).status_code == 200
    message = await records.message(control.context.scripts, MESSAGE)
    assert message is not None
    assert message.status in ("sent", "delivered", "read")


async def test_a_second_device_of_the_phone_may_report_what_the_first_one_sent(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, workers: dict[str, Worker]
) -> None:
    await linked(control, api, teller, "sibling", OTHER)
    sibling = Worker(workers[VICTIM].client, control.context.settings, "sibling", 1)
    assert (await SAYINGS["read"](sibling, teller)).status_code == 200


# -- commands ---------------------------------------------------------------------------------------------------------


async def test_only_the_session_that_was_asked_answers_a_command_and_only_once(
    control: Orchestrator, workers: dict[str, Worker]
) -> None:
    call = asyncio.create_task(command_calls.call(control.context, VICTIM, "logout", timeout_s=30))
    command = await asked(control, VICTIM)
    path = f"commands/{command['id']}/result"
    stolen = await workers[THIEF].call(path, {"ok": False, "code": "STOLEN"})
    assert (stolen.status_code, stolen.json()["error"]["code"]) == (403, "NOT_ASKED")
    assert (await workers[VICTIM].call(path, {"ok": True})).status_code == 200
    assert (await call)["ok"] is True
    again = await workers[VICTIM].call(path, {"ok": True})
    assert (again.status_code, again.json()["error"]["code"]) == (403, "NOT_ASKED")


async def test_results_that_nobody_asked_for_take_no_memory(control: Orchestrator, workers: dict[str, Worker]) -> None:
    for number in range(8):
        answer = await workers[THIEF].call(f"commands/c_{number:018x}/result", {"ok": True, "x": "x" * 100_000})
        assert answer.status_code == 403
    with pytest.raises(Unavailable):
        await command_calls.call(control.context, THIEF, "logout", timeout_s=0.01)
    assert not await control.context.redis.keys("command:*")


async def test_a_result_that_is_too_long_is_refused_before_it_is_read_whole(
    control: Orchestrator, workers: dict[str, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_outbox, "MAX_RESULT_BYTES", 1000)
    call = asyncio.create_task(command_calls.call(control.context, THIEF, "logout", timeout_s=30))
    command = await asked(control, THIEF)
    path = f"commands/{command['id']}/result"
    answer = await workers[THIEF].call(path, {"ok": True, "x": "x" * 1000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "BODY_TOO_LONG")
    assert (await workers[THIEF].call(path, {"ok": True})).status_code == 200
    await call


async def test_a_command_to_a_worker_that_is_not_awaited_leaves_no_result(
    control: Orchestrator, workers: dict[str, Worker]
) -> None:
    from wa_orchestrator.store.sessions import commands

    await commands.push(control.context.scripts, THIEF, "logout")
    command = await asked(control, THIEF)
    answer = await workers[THIEF].call(f"commands/{command['id']}/result", {"ok": True})
    assert answer.status_code == 200
    assert not await control.context.redis.exists(keys.command_result(command["id"]))
