"""CREDENTIALS=server: a session's credentials follow its worker into any directory, at any moment.

`CREDENTIAL_MOVES` and `CREDENTIAL_KILLS` set how many moves and kills there are; the full size is 100 of each.
"""

import asyncio
import contextlib
import os
import random
import shutil
import sqlite3
from collections import Counter
from typing import Any

import pytest

from tests.chaos import Record
from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

MOVES = int(os.environ.get("CREDENTIAL_MOVES", "5"))
KILLS = int(os.environ.get("CREDENTIAL_KILLS", "5"))
FENCED = 22
KEY = "A" * 43 + "="


def follower(rig: Rig) -> Session:
    return rig.session(CREDENTIALS="server", AUTH_KEY=KEY)


def move(session: Session) -> None:
    """The next worker starts on another machine, as far as it can tell."""
    session.directory = session.directory.with_name(f"{session.directory.name}+")


def identity(connected: dict[str, Any]) -> tuple[str, ...]:
    return tuple(connected["data"][name] for name in ("fingerprint", "jid", "lid"))


def received(session: Session) -> Counter[str]:
    events = [event["data"] for event in session.station.events if event["type"] == "MESSAGE_RECEIVED"]
    return Counter(data["text"] for data in events)


def shown(world: World, phone: str) -> Counter[str]:
    """What a person sees of ours, by WhatsApp id; only what her phone could decrypt."""
    return Counter(entry["id"] for entry in world.whatsapp.inbox(phone) if not entry["fromMe"])


def undecryptable(session: Session) -> list[Any]:
    return [event for event in session.station.events if event["type"] == "MESSAGE_UNDECRYPTABLE"]


def acked(session: Session) -> set[str]:
    return {entry["messageId"] for entry in session.station.acks}


def committed_messages(session: Session) -> int:
    """How many incoming messages the worker has decrypted, by its own file."""
    with contextlib.closing(sqlite3.connect(session.directory / "auth.db")) as opened:
        found = opened.execute(
            "SELECT (SELECT count(*) FROM keys WHERE name LIKE 'inbox/%') + (SELECT count(*) FROM reported)"
        )
        return int(found.fetchone()[0])


async def test_a_session_that_moves_again_and_again_stays_who_it_is(rig: Rig, record_property: Record) -> None:
    record_property("moves", MOVES)
    session, friend = follower(rig), new_phone()
    first = identity(await session.link())
    sent = []
    for turn in range(MOVES):
        await rig.world.whatsapp.send_text(friend, session.phone, f"before move {turn}")
        sent.append(await session.say(friend, f"answer {turn}"))
        await rig.server.acked(sent[-1])
        await session.event("MESSAGE_RECEIVED", text=f"before move {turn}")
        assert await session.worker.terminate() == 0
        move(session)
        assert identity(await session.restart()) == first
    await rig.world.whatsapp.send_text(friend, session.phone, "after all moves")
    await session.event("MESSAGE_RECEIVED", text="after all moves")
    assert set(received(session).values()) == {1}
    assert shown(rig.world, friend) == Counter(each["whatsappId"] for each in sent)
    assert undecryptable(session) == []


async def test_kills_and_moves_at_any_moment_cost_no_message(rig: Rig, record_property: Record) -> None:
    record_property("kills", KILLS)
    session, friend = follower(rig), new_phone()
    first = identity(await session.link())
    dice = random.Random(int(os.environ.get("CHAOS_SEED", "0")))
    heard, sent = set(), []
    for turn in range(KILLS):
        for part in range(2):
            heard.add(text := f"{turn}.{part}")
            await rig.world.whatsapp.send_text(friend, session.phone, text)
            sent.append(await session.say(friend, f"to you {text}"))
        await asyncio.sleep(dice.uniform(0, 0.4))  # the moment of the kill is the point, not a wait for something
        await session.worker.kill()
        rig.server.take_back(session.id)
        done = acked(session) | {entry["messageId"] for entry in session.station.waiting}
        session.station.waiting += [each for each in sent if each["messageId"] not in done]
        if dice.random() > 0.3:
            move(session)
        assert identity(await session.restart()) == first
    await until(lambda: acked(session) >= {each["messageId"] for each in sent}, lambda: "not all acked")
    await until(lambda: heard <= received(session).keys(), lambda: f"missing {heard - received(session).keys()}")
    assert {text: count for text, count in received(session).items() if count != 1} == {}
    await rig.world.whatsapp.send_text(friend, session.phone, "still readable?")
    await session.event("MESSAGE_RECEIVED", text="still readable?")
    sent.append(await session.say(friend, "yes"))
    await rig.server.acked(sent[-1])
    await until(
        lambda: shown(rig.world, friend) == Counter(each["whatsappId"] for each in sent),
        lambda: f"{len(shown(rig.world, friend))} of {len(sent)} are readable",
    )
    assert undecryptable(session) == []


async def test_a_message_is_confirmed_to_whatsapp_only_when_the_server_has_its_key(rig: Rig) -> None:
    session, friend = follower(rig), new_phone()
    await session.link()
    await rig.server.acked(await session.say(friend, "the first one"))
    before = committed_messages(session)
    session.station.stores.clear()
    session.station.hears_messages.clear()
    await rig.world.whatsapp.send_text(friend, session.phone, "in between")
    await until(lambda: committed_messages(session) > before, lambda: "it was not decrypted")
    # Killed between its commit and the server's answer. Had WhatsApp been told, nobody would send it again.
    await session.worker.kill()
    session.station.stores.set()
    session.station.hears_messages.set()
    move(session)
    await session.restart()
    await session.event("MESSAGE_RECEIVED", text="in between")
    await rig.server.acked(await session.say(friend, "the second one"))
    assert received(session)["in between"] == 1
    assert undecryptable(session) == []


async def test_the_next_message_waits_until_the_server_has_the_change_of_the_last(rig: Rig) -> None:
    session, friend = follower(rig), new_phone()
    await session.link()
    await rig.server.acked(await session.say(friend, "the first one"))
    session.station.stores.clear()
    second = await session.say(friend, "the second one")
    await until(lambda: len(session.arrivals()) == 2, lambda: "the second one was not written")
    third = await session.say(friend, "the third one")
    await rig.server.until(lambda: session.station.unstored)
    assert acked(session).isdisjoint({second["messageId"], third["messageId"]})
    assert session.station.leased == second
    await session.worker.kill()
    session.station.stores.set()
    move(session)
    await session.restart()
    await rig.server.acked(third)
    await until(lambda: set(shown(rig.world, friend).values()) == {1}, lambda: str(shown(rig.world, friend)))
    assert shown(rig.world, friend).keys() >= {second["whatsappId"], third["whatsappId"]}


async def test_a_directory_that_was_left_behind_is_not_believed(rig: Rig) -> None:
    session, friend = follower(rig), new_phone()
    first = identity(await session.link())
    await rig.server.acked(await session.say(friend, "at home"))
    await session.worker.terminate()
    home = session.directory
    move(session)
    assert identity(await session.restart()) == first
    elsewhere = await session.say(friend, "elsewhere")
    await rig.server.acked(elsewhere)
    await session.worker.terminate()
    session.directory = home
    assert identity(await session.restart()) == first
    back = await session.say(friend, "at home again")
    await rig.server.acked(back)
    await rig.world.whatsapp.send_text(friend, session.phone, "welcome back")
    await session.event("MESSAGE_RECEIVED", text="welcome back")
    assert shown(rig.world, friend).keys() >= {elsewhere["whatsappId"], back["whatsappId"]}
    assert "credentials.restored" in session.worker.text


async def test_a_worker_that_died_is_continued_from_its_own_directory(rig: Rig) -> None:
    session, friend = follower(rig), new_phone()
    await session.link()
    session.station.stores.clear()
    message = await session.say(friend, "written, and not stored")
    await rig.server.until(lambda: session.station.unstored)
    await session.worker.kill()
    session.station.stores.set()
    await session.restart()
    await rig.server.acked(message)
    assert "credentials.restored" not in session.worker.text  # the directory has more than the server


async def test_a_server_that_lost_its_copy_gets_another_one(rig: Rig) -> None:
    session, friend = follower(rig), new_phone()
    first = identity(await session.link())
    await rig.server.acked(await session.say(friend, "before"))
    session.station.stored = None
    await rig.server.acked(await session.say(friend, "after"))
    assert session.station.stored is not None
    await session.worker.terminate()
    move(session)
    assert identity(await session.restart()) == first


async def test_a_worker_whose_change_is_of_an_older_epoch_ends(rig: Rig) -> None:
    session, friend = follower(rig), new_phone()
    await session.link()
    await rig.server.acked(await session.say(friend, "in time"))
    stored = session.station.stored
    assert stored is not None
    before = list(stored[2])
    session.station.epoch += 1
    await rig.world.whatsapp.send_text(friend, session.phone, "too late")
    assert await session.worker.ended() == FENCED
    assert session.station.stored == (*stored[:2], before)


async def test_what_the_server_stores_is_sealed(rig: Rig) -> None:
    session, friend = follower(rig), new_phone()
    await session.link()
    await rig.server.acked(await session.say(friend, "a secret between us"))
    assert session.station.stored is not None
    stored = b"".join(session.station.stored[2])
    assert len(stored) > 10_000
    for canary in (b"SQLite format 3", session.phone.encode(), friend.encode(), b"a secret between us"):
        assert canary not in stored


async def test_tables_of_an_older_worker_are_shipped_too(rig: Rig) -> None:
    session, friend = follower(rig), new_phone()
    await session.link()
    await rig.world.whatsapp.send_text(friend, session.phone, "known")
    await session.event("MESSAGE_RECEIVED", text="known")
    await session.worker.terminate()
    with sqlite3.connect(session.directory / "auth.db") as opened:
        known = opened.execute("SELECT id FROM reported").fetchall()
        opened.execute("DROP TABLE reported")
        opened.execute("CREATE TABLE reported (id TEXT NOT NULL UNIQUE) STRICT")
        opened.executemany("INSERT INTO reported (id) VALUES (?)", known)
    opened.close()
    await session.restart()
    await rig.world.whatsapp.send_text(friend, session.phone, "unknown")
    await session.event("MESSAGE_RECEIVED", text="unknown")
    await session.worker.terminate()
    shutil.rmtree(session.directory)
    await session.restart()
    await session.worker.terminate()
    with sqlite3.connect(session.directory / "auth.db") as opened:
        again = opened.execute("SELECT id FROM reported ORDER BY rowid").fetchall()
    opened.close()
    assert known
    assert again[: len(known)] == known
    assert len(again) > len(known)
