"""A worker that was taken over reports messages of people who talk to other phones, and names that are not theirs."""

from typing import Any

import pytest

from tests.conftest import Clock
from tests.messages.conftest import PHONE, MessageApi, api
from tests.messages.test_incoming import says, tell
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.messages.contacts import UNPROVEN_PER_HOUR

__all__ = ["api"]
OTHER = "972500000002"
ATTACKER = "972519999999"
VICTIMS = [f"9725120000{n:02}" for n in range(UNPROVEN_PER_HOUR + 5)]


@pytest.fixture
async def elsewhere(api: MessageApi) -> MessageApi:
    """All of them talk to the phone of another session."""
    await api.scenario.connect("w2", OTHER)
    for victim in VICTIMS:
        await contacts.set_affinity(api.context.scripts, victim, "w2")
    return api


async def _write(api: MessageApi, person: str, **changes: object) -> None:
    said = {"from": f"{person}@s.whatsapp.net", "phone": person, "lid": None, **changes}
    await says(api, "hello", name=f"HELLO{person}", **said)


async def _taken(api: MessageApi) -> list[str]:
    """Those to whom messages without a named sender leave from the session that was taken over."""
    return [each for each in VICTIMS if await contacts.affinity(api.context.scripts, each) == "w1"]


async def test_of_the_conversations_of_others_it_gets_a_few_an_hour(elsewhere: MessageApi) -> None:
    for victim in VICTIMS:
        await _write(elsewhere, victim)
    assert await _taken(elsewhere) == VICTIMS[:UNPROVEN_PER_HOUR]


async def test_what_its_owner_is_said_to_have_sent_takes_no_more(elsewhere: MessageApi) -> None:
    for victim in VICTIMS:
        told: dict[str, Any] = {"from": f"{victim}@s.whatsapp.net", "phone": victim}
        name = f"OWN{victim}"
        await tell(elsewhere, "MESSAGE_SENT_ELSEWHERE", whatsappId=name, kind="text", text="hello", at=1, **told)
    assert await _taken(elsewhere) == VICTIMS[:UNPROVEN_PER_HOUR]


async def test_who_answers_the_phone_that_wrote_to_them_is_answered_from_it(
    elsewhere: MessageApi, clock: Clock
) -> None:
    for victim in VICTIMS:
        await elsewhere.released(to=victim)
        claimed = await elsewhere.worker().claim()
        assert claimed is not None
        await elsewhere.worker().ack(claimed)
        await clock.pass_ms(60_000)
    for victim in VICTIMS:
        await contacts.set_affinity(elsewhere.context.scripts, victim, "w2")
        await _write(elsewhere, victim)
    assert await _taken(elsewhere) == VICTIMS


async def test_another_device_of_the_phone_and_a_session_that_is_gone_lose_theirs(elsewhere: MessageApi) -> None:
    await elsewhere.scenario.connect("sibling", PHONE)
    for victim in VICTIMS:
        holder = "sibling" if victim == VICTIMS[0] else "gone"
        await contacts.set_affinity(elsewhere.context.scripts, victim, holder)
        await _write(elsewhere, victim)
    assert await _taken(elsewhere) == VICTIMS


async def test_a_message_that_comes_again_does_not_take_the_conversation_back(elsewhere: MessageApi) -> None:
    await _write(elsewhere, VICTIMS[0])
    await contacts.set_affinity(elsewhere.context.scripts, VICTIMS[0], "w2")
    await _write(elsewhere, VICTIMS[0])
    assert await _taken(elsewhere) == []


async def test_it_does_not_give_the_lid_of_a_person_to_another_phone(api: MessageApi) -> None:
    await contacts.set_names(api.context.scripts, VICTIMS[0], "88001")
    forged = {"from": "88001@lid", "lid": "88001@lid"}
    await api.released(to=ATTACKER)  # that the phone writes to the attacker proves nothing about the victim
    assert await api.worker().claim()
    await _write(api, ATTACKER, **forged)
    for old, new in (("99@lid", "88001@lid"), ("88001@lid", "99@lid")):
        await tell(api, "CONTACT_IDENTITY_CHANGED", phone=f"{ATTACKER}@s.whatsapp.net", oldLid=old, newLid=new)
    assert await contacts.phone_of_lid(api.context.scripts, "88001") == VICTIMS[0]


async def test_it_does_not_take_the_lid_from_a_person_to_whom_it_never_wrote(api: MessageApi) -> None:
    victim = VICTIMS[0]
    await contacts.set_names(api.context.scripts, victim, "88001")
    await _write(api, victim, **{"from": "88001@lid", "lid": "88001@lid"})  # forged: that makes them a contact
    await tell(api, "CONTACT_IDENTITY_CHANGED", phone=f"{victim}@s.whatsapp.net", oldLid="88001@lid", newLid="99@lid")
    assert await contacts.phone_of_lid(api.context.scripts, "88001") == victim
    assert await api.context.redis.get(keys.lid_of(victim)) == "88001"


async def test_it_does_not_give_a_person_another_lid_without_having_written_to_them(api: MessageApi) -> None:
    victim = VICTIMS[0]
    await contacts.set_names(api.context.scripts, victim, "88001")
    await _write(api, victim, **{"from": "99@lid", "lid": "99@lid"})
    assert await contacts.names_of(api.context.scripts, victim) == (victim, "lid:88001")
    await _written(api, victim)
    await says(api, "hello", "NEXT", phone=victim, lid="99@lid")
    assert await contacts.names_of(api.context.scripts, victim) == (victim, "lid:99")


async def _report_other_owner(api: MessageApi, phone: str, old: str, new: str = "99") -> None:
    jid = f"{phone}@s.whatsapp.net"
    await tell(api, "CONTACT_IDENTITY_CHANGED", phone=jid, oldLid=f"{old}@lid", newLid=f"{new}@lid")


async def _written(api: MessageApi, person: str) -> None:
    """The phone has written to a person."""
    await api.released(to=person)
    claimed = await api.worker().claim()
    assert claimed is not None
    await api.worker().ack(claimed)


async def test_that_it_wrote_to_one_lid_gives_it_no_say_about_the_phone_of_another(api: MessageApi) -> None:
    victim = VICTIMS[0]
    await contacts.set_names(api.context.scripts, victim, "88001")
    await _written(api, "lid:55005")
    await _report_other_owner(api, victim, "55005")
    assert await api.context.redis.get(keys.lid_of(victim)) == "88001"
    assert await contacts.phone_of_lid(api.context.scripts, "88001") == victim
    assert await contacts.phone_of_lid(api.context.scripts, "99") == ""


async def test_that_it_wrote_to_somebody_once_gives_it_no_say_about_them_for_ever(
    api: MessageApi, clock: Clock
) -> None:
    """A number is found to have another owner while a message to it is sent."""
    victim = VICTIMS[0]
    await _written(api, victim)
    await contacts.set_names(api.context.scripts, victim, "88001")
    await clock.pass_ms(2 * 86_400_000)
    await _report_other_owner(api, victim, "88001")
    assert await contacts.phone_of_lid(api.context.scripts, "88001") == victim
    assert await api.context.redis.get(keys.lid_of(victim)) == "88001"


async def test_what_it_says_of_a_lid_that_was_replaced_since_changes_nothing(api: MessageApi) -> None:
    victim = VICTIMS[0]
    for lid in ("88001", "88002"):  # the second is what another session has learned since
        await contacts.set_names(api.context.scripts, victim, lid)
    await _written(api, victim)
    await _report_other_owner(api, victim, "88001")
    assert await api.context.redis.get(keys.lid_of(victim)) == "88002"
    for lid in ("88001", "88002"):
        assert await api.context.redis.get(keys.phone_of(lid)) == victim
    assert await contacts.phone_of_lid(api.context.scripts, "99") == ""


@pytest.mark.parametrize("name", [VICTIMS[0], "lid:88001"])
async def test_a_number_that_changed_hands_while_it_was_written_to_is_believed(api: MessageApi, name: str) -> None:
    person = VICTIMS[0]
    await contacts.set_names(api.context.scripts, person, "88001")
    await api.released(to=name)
    assert await api.worker().claim()
    await _report_other_owner(api, person, "88001")
    assert await contacts.phone_of_lid(api.context.scripts, "88001") == ""
    assert await api.context.redis.get(keys.lid_of(person)) == "99"


async def test_who_takes_another_number_is_known_by_it_where_they_were_written_to(api: MessageApi) -> None:
    old, new = VICTIMS[:2]
    await contacts.set_names(api.context.scripts, old, "88001")
    await api.released(to=old)
    assert await api.worker().claim()
    await _write(api, new, **{"from": "88001@lid", "lid": "88001@lid"})
    assert await contacts.phone_of_lid(api.context.scripts, "88001") == new
    assert await api.context.redis.get(keys.lid_of(new)) == "88001"
