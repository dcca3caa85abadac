"""A hijacked worker speaks for its own messages only, and answers only what it was asked."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.messages.conftest import Worker
from tests.orchestrator.fakes import Teller
from tests.orchestrator.session_steps import OTHER, asked, linked
from tests.security.redis_content import content
from tests.security.two_workers import MESSAGE, THIEF, VICTIM, WHATSAPP_ID, workers
from wa_orchestrator.domain.workers import event_parser
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.messages import storage
from wa_orchestrator.orchestrator.api.workers import events, outbox
from wa_orchestrator.orchestrator.messages.media_fetch import MediaFetch
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers import command_calls, tokens
from wa_orchestrator.store import keys, records

__all__ = ["workers"]
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


async def test_half_of_a_surrogate_pair_neither_stops_the_server_nor_loses_the_message(
    control: Orchestrator, teller: Teller, workers: dict[str, Worker]
) -> None:
    """A text that was cut in the middle of an emoji: no UTF-8, which Redis would take, can spell it."""
    data = {"whatsappId": "3EB0CUT", "from": "97252@s.whatsapp.net", "kind": "text", "at": 1, "text": "cut \ud83d"}
    told, other = await asyncio.gather(
        teller.tell(THIEF, "MESSAGE_RECEIVED", data), workers[VICTIM].call("claim", {"waitMs": 0})
    )
    assert (told.status_code, other.status_code // 100) == (200, 2)
    assert "cut ?" in str(await content(control.context.redis))


async def test_a_text_that_no_phone_can_send_is_cut_and_neither_holds_up_the_server_nor_fills_redis(
    control: Orchestrator, teller: Teller, workers: dict[str, Worker]
) -> None:
    """Forty events of 4 MB took 160 MB of Redis and the server's attention for minutes."""
    data = {"whatsappId": "3EB0LONG", "from": "97252@s.whatsapp.net", "kind": "text", "at": 1, "text": "x" * 200_000}
    assert (await teller.tell(THIEF, "MESSAGE_RECEIVED", data)).status_code == 200
    stored = await control.context.redis.hget(keys.incoming(THIEF, "3EB0LONG"), "text")
    assert stored == "x" * event_parser.LONGEST_STRING


async def test_a_worker_reports_so_many_bytes_a_minute_and_its_messages_wait(
    teller: Teller, workers: dict[str, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_BYTES_PER_MINUTE", 500_000)
    data = {"whatsappId": "3EB0", "from": "97252@s.whatsapp.net", "kind": "text", "at": 1, "padding": "x" * 200_000}
    told = [await teller.tell(THIEF, "MESSAGE_RECEIVED", {**data, "whatsappId": f"3EB0{n}"}) for n in range(3)]
    assert [each.status_code for each in told] == [200, 200, 429], "429: it repeats the event later"
    assert (await teller.tell(VICTIM, "MESSAGE_RECEIVED", data)).status_code == 200


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
    monkeypatch.setattr(outbox, "MAX_RESULT_BYTES", 1000)
    call = asyncio.create_task(command_calls.call(control.context, THIEF, "logout", timeout_s=30))
    command = await asked(control, THIEF)
    path = f"commands/{command['id']}/result"
    answer = await workers[THIEF].call(path, {"ok": True, "x": "x" * 1000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "BODY_TOO_LONG")
    assert (await workers[THIEF].call(path, {"ok": True})).status_code == 200
    await call


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"[]", b"\xff", b'{"ok": NaN, "x": "\\ud800"}'])
async def test_a_malformed_result_is_no_error_of_the_server(
    control: Orchestrator, workers: dict[str, Worker], body: bytes
) -> None:
    call = asyncio.create_task(command_calls.call(control.context, THIEF, "logout", timeout_s=60))
    command, thief = await asked(control, THIEF), workers[THIEF]
    token = tokens.mint(thief.settings, THIEF, thief.epoch).token
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    path = f"/api/worker/sessions/{THIEF}/outbox/commands/{command['id']}/result"
    answer = await thief.client.post(path, content=body, headers=headers)
    assert answer.status_code in (200, 400)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_a_command_to_a_worker_that_is_not_awaited_leaves_no_result(
    control: Orchestrator, workers: dict[str, Worker]
) -> None:
    from wa_orchestrator.store.sessions import commands

    await commands.push(control.context.scripts, THIEF, "logout")
    command = await asked(control, THIEF)
    answer = await workers[THIEF].call(f"commands/{command['id']}/result", {"ok": True})
    assert answer.status_code == 200
    assert not await control.context.redis.exists(keys.command_result(command["id"]))


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [{"file": "../elsewhere", "size": 1}, {"file": "c_of_another"}, {"file": None}, {}])
async def test_it_cannot_have_another_file_shown_as_that_of_its_message(
    control: Orchestrator, workers: dict[str, Worker], answer: dict[str, object]
) -> None:
    """It was asked for a file, sends none, and names one of the server's own: of another session, or elsewhere."""
    directory = storage.directory(control.context.settings, storage.Shelf.RECEIVED)
    directory.mkdir(parents=True)
    others = [directory / "c_of_another.part", directory.parent / "elsewhere.part"]
    for each in others:
        each.write_bytes(b"a secret of another session")
    fetch = asyncio.create_task(MediaFetch(control.context).file("i_AAAA", THIEF, "3EB0A"))
    command = await asked(control, THIEF)
    told = await workers[THIEF].call(f"commands/{command['id']}/result", {"ok": True, **answer})
    assert told.status_code == 200
    with pytest.raises(Unavailable) as refusal:
        await fetch
    assert refusal.value.code == "MEDIA_UNREACHABLE"
    assert all(each.exists() for each in others)
    assert not (directory / "i_AAAA").exists()
