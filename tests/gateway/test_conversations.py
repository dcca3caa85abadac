"""Who has the conversation with a recipient, where a client reaches some sessions only."""

import pytest

from tests.gateway.conftest import Gate
from wa_orchestrator.domain.access.permissions import Only, Scope
from wa_orchestrator.store import keys
from wa_orchestrator.store.access import api_keys

RECIPIENT = "972511111111"
MINE = frozenset({"w2", "w3"})


@pytest.fixture
async def mine(gate: Gate) -> dict[str, str]:
    """A key of a customer who has the sessions w2 and w3. The session w1 is another's."""
    await gate.add_session("w2", "972500000002")
    await gate.add_session("w3", "972500000003")
    _, secret = await api_keys.create(gate.scripts, "crm", [Scope.SEND], reach=Only(sessions=MINE))
    return {"X-API-Key": secret}


async def sender(gate: Gate, headers: dict[str, str] | None = None, **body: str) -> str:
    return str((await gate.send(headers=headers, **body)).json()["sessionId"])


async def test_a_limited_key_takes_no_conversation_from_a_session_of_others(gate: Gate, mine: dict[str, str]) -> None:
    await gate.redis.set(keys.affinity(RECIPIENT), "w1")
    for _ in range(3):
        assert await sender(gate, mine) in MINE
    await gate.send(headers=mine, sessionId="w3")
    assert await gate.redis.get(keys.affinity(RECIPIENT)) == "w1"
    assert await sender(gate) == "w1"


async def test_whom_a_limited_key_wrote_to_first_others_do_not_write_to_from_its_phone(
    gate: Gate, mine: dict[str, str]
) -> None:
    """Else the customer would read what others write to this person."""
    first = await sender(gate, mine)
    named = await sender(gate, mine, to="972522222222", sessionId="w3")
    assert (first in MINE, named) == (True, "w3")
    assert await gate.redis.mget(keys.affinity(RECIPIENT), keys.affinity("972522222222")) == [None, None]
    batch = await gate.client.post(
        "/api/v1/send/batch", headers=mine, json={"messages": [{"to": "972533333333", "message": "hello"}] * 3}
    )
    assert len({each["sessionId"] for each in batch.json()["items"]}) == 1
    assert await gate.redis.get(keys.affinity("972533333333")) is None


async def test_messages_of_a_limited_key_to_one_person_leave_from_one_phone(gate: Gate, mine: dict[str, str]) -> None:
    await gate.redis.set(keys.affinity(RECIPIENT), "w1")
    assert len({await sender(gate, mine) for _ in range(6)}) == 1
    other, secret = await api_keys.create(gate.scripts, "shop", [Scope.SEND], reach=Only(sessions=MINE))
    await gate.redis.set(keys.affinity(f"{other.id}:{RECIPIENT}"), "w3")
    assert {await sender(gate, {"X-API-Key": secret}) for _ in range(3)} == {"w3"}


async def test_a_limited_key_goes_on_from_the_phone_that_the_person_wrote_to(gate: Gate, mine: dict[str, str]) -> None:
    first = await sender(gate, mine)
    (other,) = MINE - {first}
    await gate.redis.set(keys.affinity(RECIPIENT), other)  # as an incoming message does
    assert [await sender(gate, mine) for _ in range(2)] == [other, other]
    await gate.redis.set(keys.affinity(RECIPIENT), "w1")  # to a phone of somebody else
    assert await sender(gate, mine) == other
