"""Files that people sent, fetched by the real worker: from WhatsApp only, checked, and asked for again where it must be."""

from typing import Any

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.phones import actions
from wa_orchestrator.simulator.protocol import protobuf
from wa_orchestrator.simulator.whatsapp import media

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURE = bytes(range(256)) * 300


async def picture(rig: Rig, session: Session) -> str:
    """A picture that somebody sent to the session; its WhatsApp id."""
    sent = await rig.world.whatsapp.send_media(new_phone(), session.phone, "image", PICTURE, "image/png")
    await session.event("MESSAGE_RECEIVED", whatsappId=sent)
    return sent


async def fetched(rig: Rig, session: Session, message: str, **fields: str) -> Any:
    command = await rig.server.command(session.id, "fetch_media", whatsappId=message, **fields)
    return await rig.server.result(session.id, command)


async def sends_picture(rig: Rig, session: Session, **changes: Any) -> str:
    """A picture whose sender writes what he likes in place of an address or a hash; its WhatsApp id."""
    state = rig.world.whatsapp._state
    sealed = media.encrypt(PICTURE, "image")
    fields = {
        "url": f"https://{media.HOST}/x", "sha": sealed.plain_sha256, "enc_sha": sealed.blob_sha256,
        "path": state.shelf.put(sealed.blob),
    } | changes  # fmt: skip
    image = {1: fields["url"], 2: "image/png", 4: fields["sha"], 5: 1, 8: sealed.media_key, 9: fields["enc_sha"]}
    message = protobuf.encode({3: {**image, 11: fields["path"]}})
    sent = actions.send_message(state, state.accounts.phone(new_phone()), session.phone, message)
    await session.event("MESSAGE_RECEIVED", whatsappId=sent)
    return sent


async def test_a_file_that_whatsapp_has_dropped_is_asked_for_from_the_phone(rig: Rig, linked: Session) -> None:
    sent, before = await picture(rig, linked), _asked_again(linked)
    rig.world.whatsapp.drop_file(linked.phone, sent)
    assert await fetched(rig, linked, sent) == PICTURE
    assert await fetched(rig, linked, sent) == PICTURE
    await until(lambda: _asked_again(linked) > before, "the worker says that it asked")
    assert _asked_again(linked) == before + 1


def _asked_again(session: Session) -> int:
    """How often the worker has asked the phone so far, also for other tests."""
    return sum("media.asked_again" in line for line in session.worker.raw)


async def test_a_file_that_the_phone_has_no_more_either_is_expired(rig: Rig, linked: Session) -> None:
    sent = await picture(rig, linked)
    rig.world.whatsapp.drop_file(linked.phone, sent)
    await rig.world.whatsapp.fault("no_reupload", phone=linked.phone)
    try:
        assert await fetched(rig, linked, sent) == {"ok": False, "code": "MEDIA_EXPIRED"}
    finally:
        await rig.world.whatsapp.clear_faults()


async def test_a_file_of_which_a_byte_has_changed_is_not_handed_over(rig: Rig, linked: Session) -> None:
    sent = await picture(rig, linked)
    rig.world.whatsapp.damage_file(linked.phone, sent)
    assert await fetched(rig, linked, sent) == {"ok": False, "code": "MEDIA_CORRUPT"}


@pytest.mark.parametrize("hash_name", ["sha", "enc_sha"])
async def test_a_file_that_is_not_what_its_hashes_say_is_not_handed_over(
    rig: Rig, linked: Session, hash_name: str
) -> None:
    sent = await sends_picture(rig, linked, **{hash_name: bytes(32)})
    assert await fetched(rig, linked, sent) == {"ok": False, "code": "MEDIA_CORRUPT"}


async def test_a_file_longer_than_the_limit_is_given_up_on_the_way(rig: Rig, linked: Session) -> None:
    sent = await picture(rig, linked)
    answer = await fetched(rig, linked, sent, maxBytes=str(len(PICTURE) - 1024))
    assert answer == {"ok": False, "code": "MEDIA_TOO_LARGE"}


async def test_the_sender_does_not_choose_the_host_that_is_dialled(rig: Rig) -> None:
    session = rig.session()
    session.proxy = 1
    await session.link()
    foreign = await sends_picture(rig, session, url="https://collector.whatsapp.net/x")
    assert await fetched(rig, session, foreign) == PICTURE
    for path in ("@collector.whatsapp.net/x", ".collector.whatsapp.net/x", "x", "", "https://collector.whatsapp.net/x"):
        sent = await sends_picture(rig, session, path=path)
        assert await fetched(rig, session, sent) == {"ok": False, "code": "MEDIA_INVALID"}
    hosts = rig.world.pool.find("proxy-2").describe()["hosts"]
    assert set(hosts) <= {"web.whatsapp.com", "mmg.whatsapp.net"}


@pytest.mark.parametrize("every", [False, True])
async def test_a_file_is_uploaded_at_once_though_known_hosts_are_gone(rig: Rig, linked: Session, every: bool) -> None:
    friend, file = new_phone(), {"url": rig.server.publish(PICTURE), "mimetype": "image/png"}
    await rig.server.acked(await rig.server.send(linked.id, friend, kind="image", media=file))
    await rig.world.whatsapp.fault("media_hosts_gone", all=every)
    message = await rig.server.send(linked.id, friend, kind="image", media=file)
    await rig.server.acked(message)
    assert rig.world.whatsapp.media_of(friend, message["whatsappId"]) == PICTURE
