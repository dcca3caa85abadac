"""Names and tokens: a message arrives whatever kind of account sends it, and fails with the true reason."""

import contextlib
import itertools
import sqlite3

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.whatsapp.accounts import lid_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

ACCOUNTS = ("migrated", "not migrated", "migrating")
CONTACTS = ("phone", "lid", "username")
#: Nobody has written, they have, or we have: whom we write to gives no token before they answer.
MEETINGS = ("first", "known", "greeted")
_sessions: dict[str, Session] = {}


async def _session(rig: Rig, account: str) -> Session:
    """A session on each kind of account, linked once; one that migrates does so while it is linked."""
    if account not in _sessions:
        session = rig.session()
        rig.world.whatsapp.describe_account(session.phone, migrated=account == "migrated")
        await session.link()
        rig.kept.append(session.worker)
        if account == "migrating":
            await _sent(rig, session, new_phone())
            await rig.world.whatsapp.migrate(session.phone)
        _sessions[account] = session
    return _sessions[account]


async def _sent(rig: Rig, session: Session, to: str) -> None:
    message = await session.say(to, "to a number")
    await rig.server.acked(message)


async def _recipient(rig: Rig, session: Session, person: str, contact: str) -> str:
    """Whom the server writes to: a username is looked up first, and is a LID from then on."""
    if contact == "phone":
        return person
    if contact == "lid":
        return f"{lid_of(person)}@lid"
    asked = await rig.server.command(session.id, "find_username", to=f"name.{person}")
    answer = await rig.server.result(session.id, asked)
    assert isinstance(answer, dict)
    return f"{answer['lid']}@lid"


@pytest.mark.parametrize(
    ("account", "contact", "meeting", "token"),
    list(itertools.product(ACCOUNTS, CONTACTS, MEETINGS, ("token", "no token", "no demand"))),
)
async def test_a_message_arrives_where_it_must_and_fails_with_the_true_reason(
    rig: Rig, account: str, contact: str, meeting: str, token: str
) -> None:
    session, person = await _session(rig, account), new_phone()
    whatsapp = rig.world.whatsapp
    if contact == "username":
        whatsapp.describe_account(person, username=f"name.{person}", hides_number=True)
    if meeting == "known":
        seen = len(session.station.events)
        await whatsapp.send_text(person, session.phone, "we know each other")
        came = await session.event("MESSAGE_RECEIVED", after=seen)
        assert came["data"].get("username") == (f"name.{person}" if contact == "username" else None)
    to = await _recipient(rig, session, person, contact)
    if meeting == "greeted" and (account, contact) != ("not migrated", "username"):
        await _sent(rig, session, to if contact == "username" else person)
    if token != "no demand":
        # A known person has given a token; for a first contact there is the other kind, if WhatsApp takes it.
        await whatsapp.fault("needs_token", phone=session.phone, to=person, first_contact=token == "token")
    message = await session.say(to, "hello")
    # An account that has not moved takes numbers only, and of a person who hides the number there is none.
    is_known = contact == "phone" or (contact == "lid" and meeting != "first")
    if account == "not migrated" and not is_known:
        assert (await rig.server.nacked(message))["code"] == "ADDRESSING"
        assert session.arrivals(to=person) == []
        return
    if meeting != "known" and token == "no token":
        assert (await rig.server.nacked(message))["code"] == "NO_TRUST_TOKEN"
        assert "hello" not in [entry["text"] for entry in whatsapp.inbox(person)]
        return
    await rig.server.acked(message)
    assert [entry["text"] for entry in whatsapp.inbox(person) if not entry["fromMe"]][-1] == "hello"


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_without_any_token_the_failure_is_about_this_person_alone_and_no_lock_is_told(
    rig: Rig, account: str
) -> None:
    session, wary, other = await _session(rig, account), new_phone(), new_phone()
    seen = len(session.station.events)
    await rig.world.whatsapp.fault("ack_error", phone=session.phone, code=463, to=wary)
    nack = await rig.server.nacked(await session.say(wary, "hello"))
    assert (nack["code"], nack["retryable"]) == ("NO_TRUST_TOKEN", False)
    await rig.server.acked(await session.say(other, "hello"))
    told = [event["data"] for event in session.station.events[seen:] if event["type"] == "ACCOUNT_LIMITS"]
    assert [limits for limits in told if limits["reachoutLock"]["active"]] == []


async def test_a_lock_is_named_as_one(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    await rig.world.whatsapp.fault("reachout_lock", phone=session.phone)
    nack = await rig.server.nacked(await session.say(new_phone(), "hello"))
    assert nack["code"] == "REACHOUT_LOCKED"


async def test_a_session_linked_by_an_older_worker_learns_its_kind_after_a_restart(rig: Rig) -> None:
    """Its credentials say nothing, and WhatsApp tells only changes to whoever asks with the hash of an earlier answer."""
    session = rig.session()
    rig.world.whatsapp.describe_account(session.phone, migrated=False)
    await session.link()
    await _sent(rig, session, new_phone())
    await session.worker.terminate()
    rig.world.whatsapp.describe_account(session.phone, migrated=True)  # and no device was told
    await session.restart()
    await _sent(rig, session, new_phone())
    assert [entry for entry in rig.world.whatsapp.refusals() if entry["from"] == session.phone] == []


async def test_an_account_that_moves_unannounced_costs_no_message(rig: Rig) -> None:
    session, person = rig.session(), new_phone()
    rig.world.whatsapp.describe_account(session.phone, migrated=False)
    await session.link()
    await _sent(rig, session, new_phone())
    rig.world.whatsapp.describe_account(session.phone, migrated=True)
    message = await session.say(person, "hello")
    await rig.server.acked(message)
    refused = [entry for entry in rig.world.whatsapp.refusals() if entry["from"] == session.phone]
    assert [(entry["code"], entry["id"]) for entry in refused] == [(463, message["whatsappId"])]
    assert [entry["id"] for entry in session.arrivals(to=person)] == [message["whatsappId"]]


async def test_a_lid_that_whatsapp_refuses_is_tried_by_the_number(rig: Rig) -> None:
    """What told the worker that the account has moved was wrong: WhatsApp refuses LIDs (400)."""
    session, person = rig.session(), new_phone()
    await session.link()
    rig.world.whatsapp.describe_account(session.phone, migrated=False)
    message = await session.say(person, "hello")
    await rig.server.acked(message)
    await _sent(rig, session, new_phone())
    refused = [entry for entry in rig.world.whatsapp.refusals() if entry["from"] == session.phone]
    assert [(entry["code"], entry["id"]) for entry in refused] == [(400, message["whatsappId"])]


async def test_an_account_moves_by_the_word_of_its_phone_alone(rig: Rig) -> None:
    session = rig.session()
    rig.world.whatsapp.describe_account(session.phone, migrated=False)
    await session.link()
    await rig.world.whatsapp.fault("no_properties", phone=session.phone)
    await rig.world.whatsapp.migrate(session.phone)
    await until(lambda: "addressing.moved_to_lids" in session.worker.text, "the phone's list is read")
    await _sent(rig, session, new_phone())
    assert [entry for entry in rig.world.whatsapp.refusals() if entry["from"] == session.phone] == []


async def test_whoever_writes_under_a_lid_is_answered_there_although_nothing_else_tells_of_the_move(rig: Rig) -> None:
    session, person = rig.session(), new_phone()
    rig.world.whatsapp.describe_account(session.phone, migrated=False)
    await session.link()
    await rig.world.whatsapp.fault("no_properties", phone=session.phone)
    rig.world.whatsapp.describe_account(session.phone, migrated=True)
    await rig.world.whatsapp.send_text(person, session.phone, "are you there?")
    await session.event("MESSAGE_RECEIVED")
    message = await session.say(person, "yes")
    await rig.server.acked(message)
    refused = [entry for entry in rig.world.whatsapp.refusals() if entry["from"] == session.phone]
    assert [(entry["code"], entry["id"]) for entry in refused] == [(463, message["whatsappId"])]


async def test_a_device_without_keys_costs_one_attempt(rig: Rig) -> None:
    """WhatsApp lists a device that is gone; the next attempt asks for the list again."""
    session, person = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("dead_device", phone=person, times=1)
    assert (await rig.server.nacked(await session.say(person, "hello")))["retryable"]
    await _sent(rig, session, person)


async def test_a_stale_lid_that_is_refused_is_looked_up_anew(rig: Rig) -> None:
    session, person = rig.session(), new_phone()
    await session.link()
    await _sent(rig, session, person)
    rig.world.whatsapp.reassign(person)
    await rig.world.whatsapp.fault("refuse_retired", phone=session.phone)
    await rig.server.acked(await session.say(person, "hello"))
    assert [entry["text"] for entry in rig.world.whatsapp.inbox(person)] == ["to a number", "hello"]


async def test_a_message_that_stays_refused_with_fresh_names_is_given_up_after_one_more_try(rig: Rig) -> None:
    session, person = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("ack_error", phone=session.phone, code=479)
    nack = await rig.server.nacked(await session.say(person, "hello"))
    assert (nack["code"], nack["retryable"]) == ("WA_479", False)
    refused = [entry for entry in rig.world.whatsapp.refusals() if entry["from"] == session.phone]
    assert [entry["code"] for entry in refused] == [479, 479]


async def test_the_devices_of_a_person_are_asked_for_once(rig: Rig) -> None:
    """Every ack names the hash of the devices there are; only another one than ours is news."""
    session, person = rig.session(), new_phone()
    await session.link()
    await _sent(rig, session, person)
    asked = rig.world.whatsapp.device_lookups(session.phone)
    await _sent(rig, session, person)
    await _sent(rig, session, person)
    assert rig.world.whatsapp.device_lookups(session.phone) == asked


async def test_a_device_that_nobody_told_of_gets_the_message_after_the_next(rig: Rig) -> None:
    session, other = rig.session(), rig.session()
    await session.link()
    await _sent(rig, session, other.phone)
    await rig.world.whatsapp.fault("no_device_news", phone=other.phone)
    await other.link()
    await _sent(rig, session, other.phone)  # by its ack WhatsApp says that a device was missed
    await rig.server.acked(await session.say(other.phone, "now to all"))
    assert (await other.event("MESSAGE_RECEIVED"))["data"]["text"] == "now to all"


async def test_the_number_is_beside_the_lid(rig: Rig) -> None:
    session, person = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("strict_peer_pn", phone=session.phone)
    await _sent(rig, session, person)
    assert [entry["lacksNumber"] for entry in session.arrivals(to=person)] == [False]


async def test_a_number_that_changed_hands_is_looked_up_anew(rig: Rig) -> None:
    session, person = rig.session(), new_phone()
    await session.link()
    await _sent(rig, session, person)
    new_owner = rig.world.whatsapp.reassign(person)
    await rig.server.acked(await session.say(person, "to whom it may concern"))
    await rig.server.acked(await session.say(person, "hello, new owner"))
    texts = [entry["text"] for entry in rig.world.whatsapp.inbox(person)]
    assert texts == ["to a number", "hello, new owner"]
    assert new_owner != lid_of(person)
    changed = (await session.event("CONTACT_IDENTITY_CHANGED"))["data"]
    assert changed == {"phone": person, "oldLid": f"{lid_of(person)}@lid", "newLid": f"{new_owner}@lid"}


def _tokens(session: Session) -> int:
    """How many tokens of acquaintance a worker has stored."""
    with contextlib.closing(sqlite3.connect(session.directory / "auth.db")) as store:
        return int(store.execute("SELECT count(*) FROM keys WHERE name LIKE 'tctoken/%'").fetchone()[0])


async def test_a_session_linked_again_knows_its_acquaintances_from_recent_history_and_keeps_no_texts(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.send_text(friend, session.phone, "we know each other")
    await session.event("MESSAGE_RECEIVED")
    await rig.world.whatsapp.unlink(session.phone)
    await session.worker.ended()
    again = rig.session()
    again.phone = session.phone
    await again.link()
    await until(lambda: _tokens(again), "the recent history is read")
    await rig.world.whatsapp.fault("needs_token", phone=session.phone, to=friend, first_contact=False)
    await rig.server.acked(await again.say(friend, "still there?"))
    assert [event for event in again.station.events if event["type"] == "MESSAGE_RECEIVED"] == []
    assert b"before the device was linked" not in (again.directory / "auth.db").read_bytes()


async def test_whoever_was_written_to_by_a_session_may_write_back(rig: Rig) -> None:
    """A linked device gives those it writes to a token, and WhatsApp brings it to their devices."""
    session, other = rig.session(), rig.session()
    await session.link()
    await other.link()
    await _sent(rig, session, other.phone)
    await until(lambda: _tokens(other), "the token came")
    await rig.world.whatsapp.fault("needs_token", phone=other.phone, to=session.phone, first_contact=False)
    await _sent(rig, other, session.phone)


@pytest.mark.parametrize("account", ["migrated", "not migrated"])
async def test_a_number_that_whatsapp_has_in_another_form_is_written_to_in_that_form(rig: Rig, account: str) -> None:
    session, person, asked = await _session(rig, account), new_phone(), new_phone()
    rig.world.whatsapp.also_known_as(person, asked)
    await _sent(rig, session, asked)
    assert [entry["text"] for entry in rig.world.whatsapp.inbox(person)] == ["to a number"]


async def test_a_note_to_self_is_addressed_like_any_other_message(rig: Rig) -> None:
    session = rig.session(SELF_MESSAGE_INTERVAL_MS="300", ENABLE_KEEP_ALIVE="true")
    await rig.world.whatsapp.fault("strict_peer_pn", phone=session.phone)
    await session.link()
    await until(lambda: len(session.arrivals(to=session.phone)) > 0, "a note arrived")
    assert [entry for entry in rig.world.whatsapp.refusals() if entry["from"] == session.phone] == []
