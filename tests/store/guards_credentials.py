"""Cases of the guards of stored credentials: only the newest worker writes, and only what follows."""

from tests.store.guards import case
from tests.store.scene import Scene
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.outcomes import Fenced
from wa_orchestrator.store.sessions import stored_credentials
from wa_orchestrator.store.sessions.stored_credentials import CopyNeeded, Known, Stored, StoredCredentials


async def _copy(scene: Scene, number: int, content: bytes, epoch: int = 1) -> Stored | Known | Fenced:
    return await stored_credentials.put_copy(scene.scripts, "w1", epoch=epoch, number=number, copy=content)


async def _change(scene: Scene, number: int, content: bytes, epoch: int = 1) -> Stored | Known | CopyNeeded | Fenced:
    return await stored_credentials.add_change(scene.scripts, "w1", epoch=epoch, number=number, change=content)


async def _stored(scene: Scene) -> StoredCredentials | None:
    return await stored_credentials.read(scene.scripts, "w1")


async def _begun(scene: Scene) -> StoredCredentials:
    """A copy and two changes, of bytes that are no text."""
    await scene.connected()
    assert await _copy(scene, 1, b"\x01\xff copy") == Stored()
    assert await _change(scene, 2, b"\x01\xfe") == Stored()
    assert await _change(scene, 3, b"\x01\xfd") == Stored()
    return StoredCredentials(1, 1, b"\x01\xff copy", [b"\x01\xfe", b"\x01\xfd"])


@case("copy_epoch")
async def _(scene: Scene) -> None:
    before = await _begun(scene)
    assert await _copy(scene, 9, b"late", epoch=0) == Fenced(1)
    assert await _stored(scene) == before


@case("copy_newer")
async def _(scene: Scene) -> None:
    before = await _begun(scene)
    assert await _copy(scene, 3, b"under way for long") == Known()
    assert await _stored(scene) == before
    assert await _copy(scene, 4, b"newer") == Stored()
    assert await _stored(scene) == StoredCredentials(1, 4, b"newer", [])


@case("change_epoch")
async def _(scene: Scene) -> None:
    before = await _begun(scene)
    assert await _change(scene, 4, b"late", epoch=0) == Fenced(1)
    assert await _stored(scene) == before


@case("change_owner")
async def _(scene: Scene) -> None:
    before = await _begun(scene)
    assert await scene.register() == sessions.Registered(2)
    assert await _change(scene, 4, b"of the next worker", epoch=2) == CopyNeeded()
    assert await _stored(scene) == before
    assert await _copy(scene, 1, b"the next worker's", epoch=2) == Stored()
    assert await _stored(scene) == StoredCredentials(2, 1, b"the next worker's", [])


@case("change_repeated")
async def _(scene: Scene) -> None:
    before = await _begun(scene)
    assert await _change(scene, 3, b"again") == Known()
    assert await _stored(scene) == before


@case("change_most")
async def _(scene: Scene) -> None:
    before = await _begun(scene)
    third = {"epoch": 1, "number": 4, "change": b"third"}
    assert await stored_credentials.add_change(scene.scripts, "w1", **third, most=2) == CopyNeeded()
    assert await _stored(scene) == before
    assert await stored_credentials.add_change(scene.scripts, "w1", **third, most=3) == Stored()


@case("change_bytes")
async def _(scene: Scene) -> None:
    before = await _begun(scene)
    longest = stored_credentials.MOST_CHANGE_BYTES
    await scene.scripts.redis.hset(keys.session("w1"), "credentials_change_bytes", str(longest - 4))
    assert await _change(scene, 4, b"\x01 too long") == CopyNeeded()
    assert await _stored(scene) == before
    assert await _change(scene, 4, b"\x01 it") == Stored()
    assert await _copy(scene, 5, b"\x01 copy") == Stored()
    assert await _change(scene, 6, b"\x01 too long no more") == Stored()


@case("change_next")
async def _(scene: Scene) -> None:
    before = await _begun(scene)
    assert await _change(scene, 5, b"one is missing") == CopyNeeded()
    assert await _stored(scene) == before
