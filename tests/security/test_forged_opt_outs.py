"""A worker that was taken over reports stop words of people who never wrote them."""

from tests.conftest import Clock
from tests.dispatcher.scenario import settle
from tests.messages.conftest import PHONE, MessageApi, api
from tests.messages.test_incoming import says
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages.contacts import UNPROVEN_PER_HOUR

__all__ = ["api"]
OTHER = "972500000002"
VICTIMS = [f"9725120000{n:02}" for n in range(UNPROVEN_PER_HOUR + 5)]


async def stops(api: MessageApi, person: str, **changes: object) -> None:
    whole = {"from": f"{person}@s.whatsapp.net", "phone": person, "lid": None, **changes}
    await says(api, "STOP", name=f"STOP{person}", **whole)


async def silenced(api: MessageApi) -> list[str]:
    """Those whom no phone writes to any more."""
    return [each for each in VICTIMS if await api.context.redis.hexists(keys.OPT_OUTS, each)]


async def test_of_people_whom_its_phone_never_wrote_to_a_few_an_hour_are_believed_and_people_are_told(
    api: MessageApi, clock: Clock
) -> None:
    for victim in VICTIMS:
        await stops(api, victim)
    assert await silenced(api) == VICTIMS[:UNPROVEN_PER_HOUR]
    [told] = await api.scenario.events("session.opt_outs_unproven")
    assert (told["session"], told["phone"]) == ("w1", PHONE)
    await clock.pass_ms(3_600_000)
    await stops(api, VICTIMS[-1])
    assert await silenced(api) == [*VICTIMS[:UNPROVEN_PER_HOUR], VICTIMS[-1]]


async def test_a_message_that_it_reports_first_proves_nothing(api: MessageApi) -> None:
    for victim in VICTIMS:
        await says(api, "hello", name=f"HELLO{victim}", **{"from": f"{victim}@s.whatsapp.net", "phone": victim})
        await stops(api, victim)
    assert len(await silenced(api)) == UNPROVEN_PER_HOUR


async def test_a_name_that_opted_out_is_not_lent_to_others(api: MessageApi) -> None:
    """By claiming that people have the id of somebody who did opt out."""
    await says(api, "STOP", phone=None, **{"from": "77001@lid"})
    for victim in VICTIMS:
        said = {"from": "77001@lid", "phone": victim, "lid": "77001@lid"}
        await says(api, "hello", name=f"HELLO{victim}", **said)
    assert len(await silenced(api)) <= UNPROVEN_PER_HOUR


async def test_the_phone_itself_writes_no_more_to_who_is_not_believed_and_others_do(api: MessageApi) -> None:
    await api.scenario.connect("w2", OTHER)
    for victim in VICTIMS[:-1]:
        await stops(api, victim)
    last = VICTIMS[-1]
    waits, elsewhere = await api.scenario.accept("w1", PHONE, to=last), await api.scenario.accept("w2", OTHER, to=last)
    await settle(api.scenario.dispatcher())
    await stops(api, last)
    later = await api.scenario.accept("w1", PHONE, to=last)
    await settle(api.scenario.dispatcher())
    assert [await api.scenario.status(each) for each in (waits, later)] == ["cancelled", "cancelled"]
    assert await api.scenario.status(elsewhere) == "scheduled"
    listed = (await api.client.get("/api/v1/opt-outs")).json()["optOuts"]
    assert [each["onlyFrom"] for each in listed if each["phone"] == last] == [PHONE]
    assert (await api.client.delete(f"/api/v1/opt-outs/{last}")).status_code == 200
    again = await api.scenario.accept("w1", PHONE, to=last)
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(again) != "cancelled"


async def test_who_is_not_believed_under_a_lid_is_remembered_when_the_phone_is_known(api: MessageApi) -> None:
    for victim in VICTIMS:
        await stops(api, victim)
    await says(api, "STOP", name="LID", phone=None, **{"from": "77001@lid", "lid": "77001@lid"})
    person = "972513333333"
    waits = await api.scenario.accept("w1", PHONE, to=person)
    await settle(api.scenario.dispatcher())
    await says(api, "hello", name="LATER", phone=person, **{"from": "77001@lid", "lid": "77001@lid"})
    await settle(api.scenario.dispatcher())
    assert await api.scenario.status(waits) == "cancelled"


async def test_whom_the_phone_has_written_to_opts_out_everywhere_however_many_do(api: MessageApi, clock: Clock) -> None:
    for victim in VICTIMS:
        await api.released(to=victim)
        claimed = await api.worker().claim()
        assert claimed is not None
        await api.worker().ack(claimed)
        await clock.pass_ms(60_000)
    for victim in VICTIMS:
        await stops(api, victim)
    assert await silenced(api) == VICTIMS
    assert await api.scenario.events("session.opt_outs_unproven") == []
