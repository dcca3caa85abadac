"""Who was rejected on the phone may get a text: once a day, by the door of every message, and never after an opt-out."""

from typing import Any

import pytest

from tests.conftest import Clock
from tests.gateway.conftest import NOON_MS, PHONE, Gate, OpenGate
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.stream_events import CallReported, EventType
from wa_orchestrator.store import records
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import contacts

CALLER, TEXT = "972511111111", "We read messages here, and take no calls."


@pytest.fixture
async def gate(gates: OpenGate) -> Gate:
    """A gateway that answers calls and has looked at everything so far."""
    one = await gates(reject_calls=True, call_reply=TEXT)
    await one.add_session()
    await one.gateway.call_replies.step()
    return one


async def _call(gate: Gate, call: str, caller: str = CALLER, **changes: Any) -> None:
    given = {"outcome": "rejected", "contact_lid": "", **changes}
    ended = CallReported(SessionId("w1"), Phone(PHONE), call, "false", Phone(caller), **given)
    await event_stream.emit(gate.scripts, EventType.CALL_ENDED, ended)
    await gate.gateway.call_replies.step()


async def _texts(gate: Gate) -> list[tuple[str, str, str]]:
    found = [await records.message(gate.scripts, each) for each in await gate.queued()]
    return [(each.to, each.session, each.body) for each in found if each is not None]


async def test_a_rejected_caller_gets_the_text_once_a_day(gate: Gate) -> None:
    await _call(gate, "c1")
    await _call(gate, "c2")
    ((to, session, body),) = await _texts(gate)
    assert (to, session) == (CALLER, "w1")
    assert TEXT in body
    (mark,) = await gate.redis.keys("idempotency:call_reply:*")
    assert 86_000_000 < await gate.redis.pttl(mark) <= 86_400_000
    await _call(gate, "c3", "972522222222")
    assert len(await _texts(gate)) == 2
    await gate.redis.delete(mark)  # as it ends after a day
    await _call(gate, "c4")
    assert [to for to, _, _ in await _texts(gate)] == [CALLER, "972522222222", CALLER]


@pytest.mark.parametrize(
    "changes",
    [{"outcome": "missed"}, {"outcome": "answered"}, {"group": "120363000000000000@g.us"}],
    ids=["missed", "answered", "in a group"],
)
async def test_other_calls_are_not_answered(gate: Gate, changes: dict[str, str]) -> None:
    await _call(gate, "c1", **changes)
    assert await _texts(gate) == []
    await _call(gate, "c2")
    assert len(await _texts(gate)) == 1


async def test_who_opted_out_is_not_answered_and_who_is_known_by_the_lid_only_is(gate: Gate) -> None:
    await contacts.opt_out(gate.scripts, CALLER, word="stop", via="test")
    await _call(gate, "c1")
    assert await _texts(gate) == []
    await _call(gate, "c2", "", contact_lid="123456789012345")
    assert [to for to, _, _ in await _texts(gate)] == ["lid:123456789012345"]


async def test_a_call_of_an_hour_ago_is_not_answered(gate: Gate, clock: Clock) -> None:
    ended = CallReported(SessionId("w1"), Phone(PHONE), "c1", "false", Phone(CALLER), "", outcome="rejected")
    await event_stream.emit(gate.scripts, EventType.CALL_ENDED, ended)
    await clock.set(NOON_MS + 3_600_000)
    await gate.gateway.call_replies.step()
    assert await _texts(gate) == []


async def test_without_a_text_nothing_looks_at_calls(gates: OpenGate) -> None:
    silent, answering = await gates(reject_calls=True), await gates(reject_calls=True, call_reply=TEXT)
    assert silent.gateway.call_replies not in silent.gateway.loops
    assert answering.gateway.call_replies in answering.gateway.loops
