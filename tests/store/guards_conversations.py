"""The cases of the guards around conversations. Importing this adds them."""

import json

from tests.store.guards import case
from tests.store.scene import PHONE, Scene
from wa_orchestrator.domain.conversation import ConversationState
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import (
    conversation_homes,
    conversation_index,
    conversation_records,
    imported_conversations,
)
from wa_orchestrator.store.conversations.conversation_records import StoredConversation
from wa_orchestrator.store.conversations.imported_conversations import ImportedConversation
from wa_orchestrator.store.messages import contacts, incoming_messages, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.timestamps import FOREVER_MS


async def said(scene: Scene, whatsapp_id: str = "3EB0AA", kind: str = "text", **changes: object) -> None:
    """Somebody writes to w1."""
    known = {"contact_phone": "97251", "contact_lid": "123", "name": "Dana"} | changes
    message = contacts.Incoming("w1", PHONE, whatsapp_id, kind, **known)  # type: ignore[arg-type]
    assert isinstance(await contacts.receive(scene.scripts, message, keep_ms=60_000), contacts.Received)


async def conversation(scene: Scene, contact: str = "97251") -> StoredConversation:
    found = await conversation_records.find(scene.scripts, "w1", contact)
    assert found is not None
    return found


async def listed(scene: Scene, state: str) -> list[tuple[str, str]]:
    entries = await conversation_index.page(scene.scripts, ConversationState(state), most=10)
    return [(each.session, each.contact) for each in await conversation_index.read(scene.scripts, entries)]


async def read(scene: Scene, until_ms: int | str) -> bool:
    known = await conversation(scene)
    return await conversation_records.change(
        scene.scripts, known, {}, by="person:1", what="read", read_until=str(until_ms)
    )


@case("amends_nothing_new")
async def _(scene: Scene) -> None:
    await said(scene)
    await scene.clock.pass_ms(1)
    await said(scene, "3EB0AB", "reaction", target="3EB0AA")
    known = await conversation(scene)
    assert (known.unread, known.last_at) == (1, scene.clock.now_ms - 1)
    assert await scene.scripts.redis.zcard(keys.changes_of("w1", "3EB0AA")) == 1


@case("answered_elsewhere")
async def _(scene: Scene) -> None:
    await said(scene)
    await said(scene, "3EB0AB", is_ours=True, name="")
    known = await conversation(scene)
    assert (known.unread, known.waiting_since, known.name) == (0, 0, "Dana")
    assert await listed(scene, "open") == [("w1", "97251")]


@case("opted_out_waits")
async def _(scene: Scene) -> None:
    await contacts.opt_out_from(scene.scripts, "lid:123", phone=PHONE)
    await said(scene)
    assert await listed(scene, "waiting") == []
    assert await listed(scene, "open") == [("w1", "97251")]


@case("newest_is_last")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    await scene.clock.pass_ms(1)
    message = await scene.queued()
    known = await conversation(scene)
    assert (known.last_message, known.last_at) == (message, scene.clock.now_ms)
    assert await listed(scene, "open") == [("w1", "97251")]


async def tells(scene: Scene, session: str, whatsapp_id: str, **changes: object) -> None:
    """A session of the account reports what somebody wrote."""
    known = {"contact_phone": "97251", "contact_lid": "123", "name": "Dana"} | changes
    message = contacts.Incoming(session, PHONE, whatsapp_id, "text", **known)  # type: ignore[arg-type]
    await contacts.receive(scene.scripts, message, keep_ms=60_000)


async def account(scene: Scene) -> None:
    """An account with two linked sessions."""
    await scene.connected()
    await scene.connected("w2")


@case("one_conversation")
async def _(scene: Scene) -> None:
    await account(scene)
    for session, whatsapp_id in (("w1", "3EB0AA"), ("w2", "3EB0AA"), ("w2", "3EB0AB"), ("w1", "3EB0AB")):
        await tells(scene, session, whatsapp_id)
    known = await conversation(scene)
    assert (known.unread, known.session, known.devices, known.our_phone) == (2, "w1", ("w2",), PHONE)
    assert await listed(scene, "waiting") == [("w1", "97251")]
    assert await scene.scripts.redis.zcard(keys.thread("w1", "97251")) == 2


@case("device_once")
async def _(scene: Scene) -> None:
    await account(scene)
    await tells(scene, "w1", "3EB0AA")
    await tells(scene, "w2", "3EB0AB")
    await tells(scene, "w2", "3EB0AC")
    assert (await conversation(scene)).devices == ("w2",)


@case("copied_is_marked")
async def _(scene: Scene) -> None:
    await account(scene)
    await tells(scene, "w1", "3EB0AA")
    await tells(scene, "w2", "3EB0AA")
    copies = await incoming_messages.copies(scene.scripts, FOREVER_MS, most=10)
    assert {each.session: each.fields.get("copied", "") for each in copies} == {"w1": "", "w2": "1"}


@case("home_is_noted")
async def _(scene: Scene) -> None:
    await account(scene)
    await tells(scene, "w1", "3EB0AA")
    await tells(scene, "w2", "3EB0AB")
    await incoming_messages.remove(
        scene.scripts, await incoming_messages.copies(scene.scripts, FOREVER_MS, most=10)
    )  # they are in the archive
    assert await scene.scripts.redis.zcard(keys.thread("w1", "97251")) == 0


@case("devices_of_lid")
async def _(scene: Scene) -> None:
    await account(scene)
    await tells(scene, "w1", "3EB0AA", contact_lid="")
    await tells(scene, "w1", "3EB0AB", contact_phone="")
    await tells(scene, "w2", "3EB0AC", contact_phone="")
    await tells(scene, "w1", "3EB0AD")
    known = await conversation(scene)
    assert (known.unread, known.devices) == (4, ("w2",))


@case("answer_of_lid")
async def _(scene: Scene) -> None:
    await scene.connected()
    await tells(scene, "w1", "3EB0AA", contact_lid="")
    await tells(scene, "w1", "3EB0AB", contact_phone="")
    message = await scene.queued(to="lid:123")
    await tells(scene, "w1", "3EB0AC")
    await queues.cancel(scene.scripts, scene.places[message])
    assert (await conversation(scene)).unread == 3


async def note(scene: Scene, text: str) -> None:
    changes = conversation_records.ConversationChanges(notes=text, noted_at=scene.clock.now_ms, noted_by="Maya")
    await conversation_records.change(scene.scripts, await conversation(scene), changes, by="person:1", what="notes")


@case("notes_kept")
async def _(scene: Scene) -> None:
    await said(scene)
    for text in ("first", "first", "second"):
        await note(scene, text)
    kept = [json.loads(each) for each in (await conversation(scene)).earlier_notes]
    assert kept == [{"text": "first", "at": scene.clock.now_ms, "by": "Maya"}]


@case("most_notes")
async def _(scene: Scene) -> None:
    await said(scene)
    for number in range(25):
        await note(scene, f"text {number}")
    kept = [json.loads(each)["text"] for each in (await conversation(scene)).earlier_notes]
    assert kept == [f"text {number}" for number in range(23, 3, -1)]


@case("move_known")
async def _(scene: Scene) -> None:
    assert not await conversation_homes.move(scene.scripts, ("w1", "97251"), "w2")


@case("move_over_nothing")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.connected("w2", phone="972500000009")
    await tells(scene, "w1", "3EB0AA")
    await contacts.receive(
        scene.scripts,
        contacts.Incoming("w2", "972500000009", "3EB0AB", "text", contact_phone="97251", name="Other"),
        keep_ms=60_000,
    )
    assert not await conversation_homes.move(scene.scripts, ("w1", "97251"), "w2")
    assert [each.name for each in await conversation_records.read(scene.scripts, [("w2", "97251")])] == ["Other"]


@case("answers_in")
async def _(scene: Scene) -> None:
    await scene.connected()
    await tells(scene, "w1", "3EB0AA")
    message = await scene.queued()
    await scene.connected("w9", phone="972500000009")
    moved = await queues.reroute(scene.scripts, scene.places[message], phone="972500000009", session="w9")
    assert moved == queues.Rerouted()
    await queues.cancel(scene.scripts, Place(message, "972500000009", "w9"))
    assert (await waits(scene))[0] == 1


async def waits(scene: Scene) -> tuple[int, int]:
    """How many messages of the conversation wait for an answer, and since when."""
    known = await conversation(scene)
    assert await listed(scene, "waiting") == ([("w1", "97251")] if known.unread else [])
    return known.unread, known.waiting_since


@case("answers")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    since = scene.clock.now_ms
    await scene.clock.pass_ms(1)
    later = await scene.accept(due_ms=since + 60_000)
    assert isinstance(await scene.route(later), queues.Scheduled)
    assert await waits(scene) == (1, since)  # a reminder for later answers nothing yet
    await scene.queued()
    assert await waits(scene) == (0, 0)


@case("answers_when_due")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    since = scene.clock.now_ms
    await scene.clock.pass_ms(1)
    later = await scene.accept(due_ms=since + 60_000)
    await scene.route(later)
    await scene.clock.pass_ms(60_000)
    assert await queues.promote(scene.scripts, scene.places[later])
    assert await waits(scene) == (0, 0)


@case("first_answer")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    since = scene.clock.now_ms
    await scene.clock.pass_ms(1)
    first = await scene.queued()
    await scene.queued()
    await queues.cancel(scene.scripts, scene.places[first])
    assert await waits(scene) == (1, since)


@case("batch_answers_nobody")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    since = scene.clock.now_ms
    await scene.queued(fields={"batch": "b_1"})
    assert await waits(scene) == (1, since)


@case("own_answer")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    await scene.queued()
    second = await scene.queued()
    await queues.cancel(scene.scripts, scene.places[second])
    assert await waits(scene) == (0, 0)


@case("unsent_answer")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    since = scene.clock.now_ms
    await scene.clock.pass_ms(1)
    message = await scene.queued()
    await said(scene, "3EB0AB")
    assert await waits(scene) == (1, since + 1)
    assert await queues.cancel(scene.scripts, scene.places[message], status="expired") == queues.Ended()
    assert await waits(scene) == (2, since)


@case("failed_answer")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    since = scene.clock.now_ms
    message = await scene.sending()
    await scene.nack(message, backoff_ms=None)
    assert await scene.status(message) == "failed"
    assert await waits(scene) == (1, since)


@case("late_answer")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    since = scene.clock.now_ms
    message = await scene.queued(expires_ms=since + 1_000)
    assert isinstance(await scene.release(message), queues.Released)
    assert isinstance(await scene.claim(process="a"), tuple)
    await scene.clock.pass_ms(1_000)
    assert await scene.confirm_write(message) == outbox.WriteRefused("expired", "EXPIRED")
    assert await waits(scene) == (1, since)


@case("answers_again")
async def _(scene: Scene) -> None:
    await scene.connected()
    await said(scene)
    message = await scene.sending()
    await scene.nack(message, backoff_ms=None)
    assert await queues.retry(scene.scripts, scene.places[message], to="97251") == queues.Queued()
    assert await waits(scene) == (0, 0)


@case("conversation_known")
async def _(scene: Scene) -> None:
    await said(scene)
    known = await conversation(scene)
    await conversation_records.remove(scene.scripts, ("w1", "97251"))
    assert not await conversation_records.change(scene.scripts, known, {"notes": "x"}, by="person:1", what="notes")
    assert await scene.scripts.redis.exists(keys.conversation("w1", "97251")) == 0


@case("unseen_stays")
async def _(scene: Scene) -> None:
    await said(scene)
    seen = scene.clock.now_ms
    await scene.clock.pass_ms(1)
    await said(scene, "3EB0AB")
    assert await read(scene, seen)
    known = await conversation(scene)
    assert (known.unread, known.waiting_since) == (1, scene.clock.now_ms)
    assert await read(scene, scene.clock.now_ms)
    assert await listed(scene, "open") == [("w1", "97251")]


@case("conversation_same")
async def _(scene: Scene) -> None:
    await said(scene)
    assert await read(scene, scene.clock.now_ms)
    await scene.clock.pass_ms(1)
    assert not await read(scene, scene.clock.now_ms)


@case("conversation_old")
async def _(scene: Scene) -> None:
    await said(scene)
    assert await conversation_records.remove_older(scene.scripts, scene.clock.now_ms - 1, most=10) == 0
    assert not await conversation_records.remove(scene.scripts, ("w1", "97251"), until_ms=scene.clock.now_ms - 1)
    assert await conversation_records.remove_older(scene.scripts, FOREVER_MS, most=10) == 1
    assert await scene.scripts.redis.zcard(keys.CONVERSATION_INDEX) == 0


@case("indexed_known")
async def _(scene: Scene) -> None:
    await said(scene)
    await scene.scripts.redis.delete(keys.conversation("w1", "97251"))
    assert await listed(scene, "waiting") == []
    assert await scene.scripts.redis.zcard(keys.CONVERSATION_INDEX) == 0


def imported(name: str = "Dana", *texts: imported_conversations.ImportedText) -> ImportedConversation:
    return ImportedConversation("w1", PHONE, "97251", "123", "", name, 1_000, texts)


@case("imported_keeps_known")
async def _(scene: Scene) -> None:
    await said(scene)
    before = await conversation(scene)
    assert not await imported_conversations.put(scene.scripts, imported("Old name"), keep_ms=60_000)
    assert await conversation(scene) == before
    assert await listed(scene, "waiting") == [("w1", "97251")]


@case("imported_name")
async def _(scene: Scene) -> None:
    assert await imported_conversations.put(scene.scripts, imported(""), keep_ms=60_000)
    assert await listed(scene, "open") == [("w1", "97251")]
    assert not await imported_conversations.put(scene.scripts, imported("Dana"), keep_ms=60_000)
    assert not await imported_conversations.put(scene.scripts, imported("Somebody"), keep_ms=60_000)
    assert (await conversation(scene)).name == "Dana"
    assert await conversation_index.search(scene.scripts, "dana", most=5) == [("w1", "97251")]


@case("imported_text_once")
async def _(scene: Scene) -> None:
    await said(scene)
    await scene.scripts.redis.hset(keys.incoming("w1", "3EB0AA"), "text", "as it came")
    old = imported_conversations.ImportedText("3EB0AA", 900, "as the phone tells it", is_ours=False)
    await imported_conversations.put(scene.scripts, imported("Dana", old), keep_ms=60_000)
    assert await scene.scripts.redis.hget(keys.incoming("w1", "3EB0AA"), "text") == "as it came"
