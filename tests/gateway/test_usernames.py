"""A message to a username goes to the person whom WhatsApp names, once it has; opt-outs hold whichever name is used."""

import asyncio
from functools import partial
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import BOTH_MODES, PHONE, Gate, code_of
from tests.waiting import until
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.history import erasures
from wa_orchestrator.store.messages import contacts, holds
from wa_orchestrator.store.sessions import commands
from wa_orchestrator.timestamps import FOREVER_MS

pytestmark = BOTH_MODES
LID, OTHER_LID, FRIEND = "123456789012345", "123456789012346", "972511111111"


async def sent(
    gate: Gate, to: str, *answers: dict[str, Any], session: str = "w1", **body: Any
) -> tuple[list[dict[str, Any]], httpx.Response]:
    """Send a message; the worker answers as often as there are answers. Returns what it was asked, and the response."""
    request = asyncio.create_task(gate.send(to=to, **body))
    asked: list[dict[str, Any]] = []
    for answer in answers:
        command = await until(partial(_taken, gate, session, request), "the worker is asked, or the request ends")
        if not isinstance(command, dict):
            break
        asked.append(command)
        await commands.put_result(gate.scripts, session, command["id"], answer)
    return asked, await request


async def _taken(gate: Gate, session: str, request: asyncio.Task[httpx.Response]) -> dict[str, Any] | bool | None:
    return await commands.take(gate.scripts, session) or (request.done() or None)


async def recipient_of(gate: Gate, response: httpx.Response) -> str:
    assert response.status_code == 202, response.text
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    return message.to


async def test_whatsapp_is_asked_once_a_day_whose_a_username_is(gate: Gate) -> None:
    asked, response = await sent(gate, "@Dana.Levi", {"ok": True, "lid": LID})
    assert await recipient_of(gate, response) == f"lid:{LID}"
    assert [(each["kind"], each["to"], each.get("text")) for each in asked] == [("find_username", "dana.levi", None)]
    asked, response = await sent(gate, "@dana.levi")
    assert (asked, await recipient_of(gate, response)) == ([], f"lid:{LID}")
    assert 0 < await gate.redis.pttl(keys.username(PHONE, "dana.levi")) <= 86_400_000


@pytest.mark.parametrize("listed", [FRIEND, f"lid:{LID}"])
async def test_who_opted_out_under_any_name_is_not_written_to_by_username(gate: Gate, listed: str) -> None:
    if listed == FRIEND:
        await contacts.set_names(gate.scripts, FRIEND, LID)
    await contacts.opt_out(gate.scripts, listed, word="stop", via="reply")
    _, response = await sent(gate, "@dana.levi", {"ok": True, "lid": LID})
    assert (response.status_code, code_of(response)) == (422, "OPTED_OUT")
    assert await gate.queued() == []


@pytest.mark.parametrize("code", ["UNKNOWN_USERNAME", "USERNAME_KEY_NEEDED"])
async def test_a_name_that_does_not_resolve_is_refused_with_what_to_do_and_nothing_is_accepted(
    gate: Gate, code: str
) -> None:
    _, response = await sent(gate, "@dana.levi", {"ok": False, "code": code})
    assert (response.status_code, code_of(response)) == (422, code)
    assert await gate.queued() == []


async def test_a_key_is_passed_on_and_whoever_has_none_profits_nothing(gate: Gate) -> None:
    asked, response = await sent(gate, "@dana.levi:0042", {"ok": True, "lid": LID})
    assert (asked[0]["to"], asked[0]["text"], await recipient_of(gate, response)) == ("dana.levi", "0042", f"lid:{LID}")
    _, response = await sent(gate, "@dana.levi", {"ok": False, "code": "USERNAME_KEY_NEEDED"})
    assert code_of(response) == "USERNAME_KEY_NEEDED"


async def test_a_worker_that_names_no_lid_is_not_believed(gate: Gate) -> None:
    for lid in ("", "x", f"{LID}@s.whatsapp.net"):
        _, response = await sent(gate, "@dana.levi", {"ok": True, "lid": lid})
        assert (response.status_code, code_of(response)) == (503, "ACT_UNANSWERED")


async def test_what_one_phone_was_told_does_not_hold_for_another(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    await sent(gate, "@dana.levi", {"ok": True, "lid": LID}, sessionId="w1")
    asked, response = await sent(gate, "@dana.levi", {"ok": True, "lid": OTHER_LID}, session="w2", sessionId="w2")
    assert (len(asked), await recipient_of(gate, response)) == (1, f"lid:{OTHER_LID}")


async def test_a_look_up_counts_as_a_number_check(gate: Gate) -> None:
    most = gate.gateway.context.settings.number_checks_per_day
    for number in range(most):
        await sent(gate, f"@name{number}", {"ok": True, "lid": LID})
    _, response = await sent(gate, "@one.more")
    assert (response.status_code, code_of(response)) == (429, "ACTS_LIMITED")


async def test_a_session_on_hold_does_not_ask_where_another_can(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    await holds.put(gate.scripts, holds.Hold("session:w1", FOREVER_MS, "test", "somebody"))
    for number in range(4):  # the name decides who asks
        asked, _ = await sent(gate, f"@name{number}", {"ok": True, "lid": LID}, session="w2")
        assert len(asked) == 1


async def test_without_a_connected_session_nobody_can_say(gate: Gate) -> None:
    await gate.redis.hset(keys.session("w1"), "status", "disconnected")
    _, response = await sent(gate, "@dana.levi")
    assert (response.status_code, code_of(response)) == (503, "SESSION_NOT_CONNECTED")


async def test_an_erased_person_is_not_found_by_the_name(gate: Gate) -> None:
    await contacts.set_username(gate.scripts, PHONE, "dana.levi", LID)
    await contacts.set_username(gate.scripts, PHONE, "noa.levi", OTHER_LID)
    await erasures.erase_facts(gate.scripts, FRIEND, LID)
    assert await contacts.lid_of_username(gate.scripts, PHONE, "dana.levi") == ""
    assert await contacts.lid_of_username(gate.scripts, PHONE, "noa.levi") == OTHER_LID
