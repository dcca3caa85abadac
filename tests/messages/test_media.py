"""`GET /api/v1/messages/{id}/media`: who gets a file, how it is served, how long it is kept."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tests.conftest import Clock
from tests.messages.conftest import PHONE, MessageApi
from tests.messages.test_incoming import FRIEND, tell
from tests.object_stores import SECRET, ObjectStore, object_store
from tests.pictures import in_base64, jpeg
from tests.processes import free_port
from wa_orchestrator.domain.access.permissions import Scope, reach_of
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import message_search, received_files, uploads
from wa_orchestrator.orchestrator.api import media
from wa_orchestrator.orchestrator.messages import media_fetch
from wa_orchestrator.orchestrator.messages.media_arrivals import MediaArrivals
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store import keys, records, sessions
from wa_orchestrator.store.conversations import conversation_homes
from wa_orchestrator.store.history import erasures
from wa_orchestrator.web.auth import Caller

MIB = 1024 * 1024
SMALL = jpeg()
READER = Caller("k_1", frozenset({Scope.READ}))


@pytest.fixture(scope="module")
def bucket() -> Iterator[ObjectStore]:
    with object_store("media/wa") as made:
        yield made


@pytest.fixture(params=["directory", "bucket"], autouse=True)
def kept_in(request: pytest.FixtureRequest, api: MessageApi) -> str:
    """Every test of this file runs with files in a directory, and in a bucket."""
    if request.param == "bucket":
        made: ObjectStore = request.getfixturevalue("bucket")
        keys_of_store = {"media_s3_access_key": "wa", "media_s3_secret_key": SecretStr(SECRET)}
        place = f"{made.url}/{secrets.token_hex(4)}"
        api.context.settings = api.context.settings.model_copy(update={"media_s3_url": place, **keys_of_store})
    return str(request.param)


async def file_comes(api: MessageApi, name: str = "3A01", mimetype: str = "image/png", **described: Any) -> str:
    """Somebody sends a file; our id of the message."""
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND}
    about = {"mimetype": mimetype, "size": 5, **described}
    await tell(api, "MESSAGE_RECEIVED", whatsappId=name, kind="image", at=1_750_000_000_000, media=about, **person)
    return incoming.id_of("w1", name)


async def deliver(api: MessageApi, content: bytes, session: str = "w1", to: str | None = None) -> httpx.Response:
    """The worker takes its command and sends the file."""
    worker = api.worker(session)
    told: Any = await api.worker().claim(5_000)
    token = tokens.mint(worker.settings, session, worker.epoch).token
    path = f"/api/worker/sessions/{to or session}/outbox/commands/{told['command']['id']}/file"
    headers = {"Authorization": f"Bearer {token}", "X-Epoch": str(worker.epoch)}
    return await api.client.post(path, content=content, headers=headers)


def get(api: MessageApi, message: str) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(api.client.get(f"/api/v1/messages/{message}/media"))


async def test_a_file_is_fetched_by_the_worker_once_and_then_served_from_the_disk(api: MessageApi) -> None:
    message = await file_comes(api, filename="../../etc/a\u202ephoto.png")
    asked = [get(api, message), get(api, message)]
    assert (await deliver(api, b"bytes")).json() == {"ok": True}
    for answer in [*[await each for each in asked], await get(api, message)]:
        assert (answer.status_code, answer.content) == (200, b"bytes")
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["content-length"] == "5"
        assert answer.headers["content-disposition"] == 'attachment; filename="aphoto.png"'
    assert await api.worker().claim() is None


async def test_the_file_of_a_deleted_device_is_fetched_by_another_one_of_the_account(api: MessageApi) -> None:
    await api.scenario.connect("w2", PHONE)
    await api.scenario.connect("w3", "972500000009")
    about: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND, "kind": "image", "at": 1}
    for session in ("w1", "w2"):
        await tell(api, "MESSAGE_RECEIVED", by=session, whatsappId="3A01", media={"mimetype": "image/png"}, **about)
    known = await records.session(api.context.scripts, "w1")
    assert known is not None
    await sessions.remove(api.context.scripts, "w1", proxy=known.proxy, phone=PHONE)
    await conversation_homes.hand_over(api.context.scripts, "w1", PHONE)
    message, routes = incoming.id_of("w1", "3A01"), media.MediaRoutes(api.context)
    with pytest.raises(Refused):
        await routes.get_media(message, Caller("k", READER.scopes, reach_of(["w3"], ())))
    await received_files.save(api.context.settings, "c_1", chunks(5))
    asked = get(api, message)
    told: Any = await api.worker("w2").claim(5_000)
    assert told["command"]["whatsappId"] == "3A01"
    asked.cancel()
    await received_files.keep(api.context.settings, "c_1", message)
    assert await routes.get_media(message, Caller("k", READER.scopes, reach_of(["w2"], ())))


@pytest.mark.parametrize(
    "mimetype", ["text/html", "image/svg+xml", "application/xhtml+xml", "x\r\nSet-Cookie: a=b", ""]
)
async def test_a_type_that_a_browser_would_run_is_not_served_as_such(api: MessageApi, mimetype: str) -> None:
    message = await file_comes(api, mimetype=mimetype)
    asked = get(api, message)
    await deliver(api, b"<script>")
    answer = await asked
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "set-cookie" not in answer.headers


async def test_a_caller_that_is_limited_to_other_sessions_gets_no_file(api: MessageApi) -> None:
    message = await file_comes(api)
    await received_files.save(api.context.settings, "c_1", chunks(5))
    await received_files.keep(api.context.settings, "c_1", message)
    routes = media.MediaRoutes(api.context)
    assert await routes.get_media(message, Caller("k", READER.scopes, reach_of(["w1"], ())))
    with pytest.raises(Refused) as refused:
        await routes.get_media(message, Caller("k", READER.scopes, reach_of(["w2"], ())))
    assert (refused.value.code, refused.value.status) == ("NO_SUCH_MESSAGE", 404)


@pytest.mark.parametrize(
    ("code", "status", "shown"),
    [
        ("MEDIA_EXPIRED", 410, "MEDIA_EXPIRED"),
        ("UNKNOWN_MESSAGE", 410, "MEDIA_EXPIRED"),
        ("MEDIA_CORRUPT", 422, "MEDIA_CORRUPT"),
        ("MEDIA_TOO_LARGE", 413, "MEDIA_TOO_LARGE"),
        ("NOT_CONNECTED", 503, "MEDIA_UNREACHABLE"),
        ("anything", 503, "MEDIA_UNREACHABLE"),
    ],
)
async def test_a_worker_s_refusal_says_what_a_caller_can_do(
    api: MessageApi, code: str, status: int, shown: str
) -> None:
    asked = get(api, await file_comes(api))
    told: Any = await api.worker().claim(5_000)
    await api.worker().call(f"commands/{told['command']['id']}/result", {"ok": False, "code": code})
    answer = await asked
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, shown)


async def test_what_has_no_file_and_what_does_not_exist_are_not_found(api: MessageApi) -> None:
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND}
    await tell(api, "MESSAGE_RECEIVED", whatsappId="3A02", kind="text", text="hi", at=1, **person)
    for message, code in (
        (incoming.id_of("w1", "3A02"), "NO_MEDIA"), (incoming.id_of("w1", "3A03"), "NO_SUCH_MESSAGE"),
        ("i_AAAAAA", "NO_SUCH_MESSAGE"),
    ):  # fmt: skip
        answer = await get(api, message)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, code)
    assert (await get(api, "i_..%2f..%2fetc")).status_code in (404, 422)


async def test_a_session_that_is_not_connected_fetches_nothing(api: MessageApi) -> None:
    message = await file_comes(api)
    await api.context.redis.hset(keys.session("w1"), "status", "disconnected")
    answer = await get(api, message)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SESSION_NOT_CONNECTED")


async def test_a_worker_delivers_no_file_for_a_session_that_is_not_its_own(api: MessageApi) -> None:
    await api.scenario.connect("w2", "972500000002")
    asked = get(api, await file_comes(api))
    assert (await deliver(api, b"forged", session="w2")).status_code == 403
    assert not await received_files._files(api.context.settings)
    asked.cancel()


async def chunks(*sizes: int) -> AsyncIterator[bytes]:
    for size in sizes:
        yield bytes(size)


async def stored(api: MessageApi, name: str, size: int, later_s: int = 0) -> str:
    message = await file_comes(api, name)
    await received_files.save(api.context.settings, name, chunks(size))
    file = await received_files.keep(api.context.settings, name, message)
    await file.store.touch(message, file.at + later_s)
    return message


async def test_a_file_that_is_too_long_or_leaves_no_room_on_the_disk_is_refused_and_leaves_nothing(
    api: MessageApi,
) -> None:
    settings = api.context.settings
    small = settings.model_copy(update={"media_max_mb": 1})
    full = settings.model_copy(update={"min_free_disk_mb": 2**40})
    for tried, code in ((small, "MEDIA_TOO_LARGE"), (full, "DISK_FULL")):
        with pytest.raises(Refused) as refused:
            await received_files.save(tried, "c_1", chunks(MIB, 1))
        assert refused.value.code == code
    assert not await received_files._files(settings)


async def test_the_oldest_files_make_room_for_a_new_one(api: MessageApi) -> None:
    api.context.settings = api.context.settings.model_copy(update={"media_quota_mb": 2})
    oldest, newer = await stored(api, "3A01", MIB), await stored(api, "3A02", MIB, 7200)
    newest = await stored(api, "3A03", MIB, 14400)
    assert sorted(await received_files.names(api.context.settings)) == sorted([newer, newest])
    assert await received_files.find(api.context.settings, oldest) is None


async def test_files_end_with_their_retention_and_with_the_erasure_of_their_message(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, old = await stored(api, "3A01", 1, 2 * 86_400), await stored(api, "3A02", 1)
    monkeypatch.setattr(received_files, "time", SimpleNamespace(time=lambda: time.time() + 8 * 86_400))
    assert await received_files.find(api.context.settings, old) is None
    await media_fetch.sweep(api.context)
    assert await received_files.names(api.context.settings) == [kept]
    await erasures.erase_incoming(api.context.scripts, [FRIEND])
    assert (await get(api, kept)).status_code == 404
    await media_fetch.sweep(api.context)
    assert await received_files.names(api.context.settings) == []


async def test_a_process_without_the_archive_takes_no_file_for_that_of_an_erased_message(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await stored(api, "3A01", 1)
    await erasures.erase_incoming(api.context.scripts, [FRIEND])

    async def elsewhere(*_: object) -> bool:
        return False

    monkeypatch.setattr(message_search, "is_complete", elsewhere)
    await media_fetch.sweep(api.context)
    assert await received_files.names(api.context.settings) == [kept]


async def test_a_file_that_nobody_waited_for_goes_after_an_hour(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await received_files.save(api.context.settings, "c_1", chunks(5))
    await media_fetch.sweep(api.context)
    assert len(await received_files._files(api.context.settings)) == 1
    monkeypatch.setattr(received_files, "time", SimpleNamespace(time=lambda: time.time() + 3700))
    await media_fetch.sweep(api.context)
    assert not await received_files._files(api.context.settings)


@pytest.mark.parametrize(
    ("asked", "status", "part", "shown"),
    [
        ("bytes=1-3", 206, b"yte", "bytes 1-3/5"),
        ("bytes=2-", 206, b"tes", "bytes 2-4/5"),
        ("bytes=-2", 206, b"es", "bytes 3-4/5"),
        ("bytes=0-99", 200, b"bytes", None),
        ("bytes=3-1", 200, b"bytes", None),
        ("bytes=0-1,3-4", 200, b"bytes", None),
        ("bytes=5-", 416, b"", "bytes */5"),
    ],
)
async def test_a_player_gets_the_part_of_a_file_that_it_asks_for(
    api: MessageApi, asked: str, status: int, part: bytes, shown: str | None
) -> None:
    message = await file_comes(api)
    whole = get(api, message)
    await deliver(api, b"bytes")
    await whole
    answer = await api.client.get(f"/api/v1/messages/{message}/media", headers={"Range": asked})
    assert (answer.status_code, answer.content, answer.headers.get("content-range")) == (status, part, shown)
    assert answer.headers["content-length"] == str(len(part))


async def comes_with(api: MessageApi, name: str, thumbnail: str, kind: str = "image", **fields: Any) -> str:
    """Somebody sends a message with a small picture; our id of it."""
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND}
    described = fields if kind == "text" else {"media": {"mimetype": "image/png"}, **fields}
    await tell(
        api, "MESSAGE_RECEIVED", whatsappId=name, kind=kind, at=1_750_000_000_000, thumbnail=thumbnail, **person,
        **described,
    )  # fmt: skip
    return incoming.id_of("w1", name)


async def thumbnail_of(api: MessageApi, message: str) -> httpx.Response:
    return await api.client.get(f"/api/v1/messages/{message}/thumbnail")


async def has_thumbnail(api: MessageApi, name: str) -> bool:
    fields = await api.context.redis.hgetall(keys.incoming("w1", name))
    return bool(json.loads(fields.get("parts", "{}")).get("hasThumbnail"))


@pytest.mark.parametrize("kind", ["image", "video", "document", "text"])
async def test_the_small_picture_of_a_message_is_served_without_a_worker(api: MessageApi, kind: str) -> None:
    message = await comes_with(api, "3A01", in_base64(SMALL), kind, text="https://shop.test")
    answer = await thumbnail_of(api, message)
    assert (answer.status_code, answer.content) == (200, SMALL)
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "private, no-store"
    assert await has_thumbnail(api, "3A01")
    assert await api.worker().claim() is None


@pytest.mark.parametrize(
    ("thumbnail", "fields"),
    [
        ("PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+", {}),
        ("no base64", {}),
        (in_base64(SMALL + bytes(32_000) + b"\xff\xd9"), {}),
        (in_base64(SMALL), {"viewOnce": True}),
        ("", {}),
    ],
)
async def test_a_message_whose_small_picture_is_not_kept_comes_without_one(
    api: MessageApi, thumbnail: str, fields: dict[str, Any]
) -> None:
    message = await comes_with(api, "3A01", thumbnail, **fields)
    answer = await thumbnail_of(api, message)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NO_THUMBNAIL")
    assert not await has_thumbnail(api, "3A01")
    assert not await received_files._files(api.context.settings)


async def test_the_small_picture_of_a_message_never_changes(api: MessageApi) -> None:
    message = await comes_with(api, "3A01", in_base64(SMALL))
    await comes_with(api, "3A01", in_base64(jpeg(20, 20, "red")))
    assert (await thumbnail_of(api, message)).content == SMALL


async def test_a_caller_that_is_limited_to_other_sessions_gets_no_small_picture(api: MessageApi) -> None:
    message = await comes_with(api, "3A01", in_base64(SMALL))
    routes = media.MediaRoutes(api.context)
    assert await routes.get_thumbnail(message, Caller("k", READER.scopes, reach_of(["w1"], ())))
    with pytest.raises(Refused) as refused:
        await routes.get_thumbnail(message, Caller("k", READER.scopes, reach_of(["w2"], ())))
    assert (refused.value.code, refused.value.status) == ("NO_SUCH_MESSAGE", 404)


async def test_small_pictures_end_with_their_retention_and_with_the_erasure_of_their_message(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await comes_with(api, "3A01", in_base64(SMALL))
    await media_fetch.sweep(api.context)
    assert await received_files.names(api.context.settings) == [message]
    await erasures.erase_incoming(api.context.scripts, [FRIEND])
    assert (await thumbnail_of(api, message)).json()["error"]["code"] == "NO_SUCH_MESSAGE"
    await media_fetch.sweep(api.context)
    assert await received_files.names(api.context.settings) == []
    old = await comes_with(api, "3A02", in_base64(SMALL))
    monkeypatch.setattr(received_files, "time", SimpleNamespace(time=lambda: time.time() + 8 * 86_400))
    assert (await thumbnail_of(api, old)).json()["error"]["code"] == "NO_THUMBNAIL"
    await media_fetch.sweep(api.context)
    assert await received_files.names(api.context.settings) == []


async def test_small_pictures_beyond_the_quota_go_too_the_oldest_first(api: MessageApi) -> None:
    older = await comes_with(api, "3A01", in_base64(SMALL))
    newer = await stored(api, "3A02", MIB, 7200)
    api.context.settings = api.context.settings.model_copy(update={"media_quota_mb": 1})
    await media_fetch.sweep(api.context)
    assert await received_files.names(api.context.settings) == [newer]
    assert (await thumbnail_of(api, older)).status_code == 404


async def test_a_message_comes_without_its_small_picture_where_that_cannot_be_stored(api: MessageApi) -> None:
    away = {"media_s3_url": f"http://127.0.0.1:{free_port()}/media", "media_s3_access_key": "wa"}
    for changed in (away, {"min_free_disk_mb": 2**40}):
        api.context.settings = api.context.settings.model_copy(update=changed)
        name = f"3A{len(changed)}"
        await comes_with(api, name, in_base64(SMALL))
        assert await api.context.redis.exists(keys.incoming("w1", name))
        assert not await has_thumbnail(api, name)


async def test_a_store_that_is_away_is_said_and_the_file_is_fetched_again_later(api: MessageApi) -> None:
    away = {"media_s3_url": f"http://127.0.0.1:{free_port()}/media", "media_s3_access_key": "wa"}
    api.context.settings = api.context.settings.model_copy(update=away)
    answer = await get(api, await file_comes(api))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "FILE_STORE_UNAVAILABLE")


async def test_a_file_is_fetched_as_it_comes_in_where_the_setting_says_so(api: MessageApi) -> None:
    api.context.settings = api.context.settings.model_copy(update={"media_fetch": "at_arrival"})
    message, arrivals = await file_comes(api), MediaArrivals(api.context)
    await arrivals.step()
    await deliver(api, b"bytes")
    await arrivals.idle()
    assert await received_files.find(api.context.settings, message)
    assert await api.context.redis.zcard(keys.MEDIA_DUE) == 0


async def test_a_file_of_a_session_that_is_away_is_fetched_when_it_is_back(api: MessageApi, clock: Clock) -> None:
    api.context.settings = api.context.settings.model_copy(update={"media_fetch": "at_arrival"})
    message, arrivals = await file_comes(api), MediaArrivals(api.context)
    await api.context.redis.hset(keys.session("w1"), "status", "disconnected")
    await arrivals.step()
    await arrivals.idle()
    assert await arrivals.step() > 0
    await api.context.redis.hset(keys.session("w1"), "status", "connected")
    await clock.pass_ms(31_000)
    await arrivals.step()
    await deliver(api, b"bytes")
    await arrivals.idle()
    assert await received_files.find(api.context.settings, message)


async def test_nothing_is_fetched_at_arrival_where_the_setting_does_not_say_so(api: MessageApi) -> None:
    await file_comes(api)
    assert await api.context.redis.zcard(keys.MEDIA_DUE) == 0


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _sent_file(api: MessageApi, **described: object) -> str:
    """A message with an upload; its id."""
    message = await api.scenario.accept("w1", PHONE, to=FRIEND)
    upload = await uploads.save(
        api.context.settings, _chunks(SMALL), mimetype="image/jpeg", filename="shop.jpg", owner="k"
    )
    body = json.dumps({"media": {"upload": upload.id, "mimetype": "image/jpeg", **described}})
    await api.context.redis.hset(keys.message(message), mapping={"body": body, "kind": "image"})
    return message


async def test_the_file_that_we_sent_is_shown_to_whoever_reaches_its_account(api: MessageApi) -> None:
    message = await _sent_file(api)
    answer = await api.client.get(f"/api/v1/messages/{message}/media")
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, SMALL, "image/jpeg")
    assert "shop.jpg" in answer.headers["content-disposition"]
    with pytest.raises(Refused) as refused:
        await media.MediaRoutes(api.context).get_media(message, Caller("k", READER.scopes, reach_of(["w2"], ())))
    assert (refused.value.code, refused.value.status) == ("NO_SUCH_MESSAGE", 404)


@pytest.mark.parametrize(
    ("described", "fields"), [({"viewOnce": True}, {}), ({"upload": ""}, {}), ({}, {"deleted_at": 1})]
)
async def test_what_we_deleted_or_may_be_viewed_once_is_not_shown_again(
    api: MessageApi, described: dict[str, object], fields: dict[str, Any]
) -> None:
    message = await _sent_file(api, **described)
    for name, value in fields.items():
        await api.context.redis.hset(keys.message(message), name, value)
    answer = await api.client.get(f"/api/v1/messages/{message}/media")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NO_MEDIA")
