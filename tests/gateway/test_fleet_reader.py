"""The gateway reads again only what has changed, and knows the same as one that has just read everything."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Clock
from tests.gateway.conftest import make_settings
from tests.store.scene import PHONE, Scene
from wa_orchestrator.gateway.redis_access import Command, PlainRedis
from wa_orchestrator.gateway.senders import fleet_reader
from wa_orchestrator.gateway.senders.fleet_reader import FleetReader, KnownSession
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import contacts, holds, queues
from wa_orchestrator.store.records import SessionChanges

OTHER = "972500000002"
HOUR_MS = 3_600_000


class CountingRedis(PlainRedis):
    """Counts the sessions whose records, and the phones whose figures are read."""

    def __init__(self, scripts: Scripts) -> None:
        super().__init__(scripts)
        self.records: list[str] = []
        self.figures: list[str] = []

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        names = [(str(command[0]), str(command[1])) for command in commands]
        self.records += [key for name, key in names if name == "HGETALL" and key.startswith(keys.session(""))]
        self.figures += [key for name, key in names if name == "ZCARD"]
        return await super().many(commands)


in_turn = FleetReader._next_in_turn


@pytest.fixture(autouse=True)
def no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again just because of its age: it would hide a change that nobody names."""
    monkeypatch.setattr(fleet_reader, "_WHOLE_S", 1e12)
    monkeypatch.setattr(FleetReader, "_next_in_turn", lambda *_: iter(()))


@pytest.fixture
async def scene(held: Scripts, clock: Clock) -> Scene:
    made = Scene(held, clock)
    await made.connected()
    await made.connected("w2", OTHER, "p2")
    return made


async def _routed(scene: Scene) -> None:
    await scene.route((await scene.scripts.redis.lrange(keys.GATEWAY_JOBS, 0, 0))[0])


async def _released(scene: Scene) -> None:
    await scene.release(next(iter(scene.places)))


async def _sent(scene: Scene) -> None:
    message = next(iter(scene.places))
    await scene.claim()
    await scene.ack(message)


async def _disconnected(scene: Scene) -> None:
    lost = sessions.Transition(await scene.version(), "disconnected", "RECONNECTING", "CONNECTION_LOST")
    await sessions.advance(scene.scripts, "w1", lost)


async def _cancelled(scene: Scene) -> None:
    message = await scene.queued()
    await queues.cancel(scene.scripts, scene.places[message], reason="CANCELLED")


STEPS: list[Callable[[Scene], Awaitable[object]]] = [
    lambda scene: scene.accept(),
    _routed,
    _released,
    _sent,
    _cancelled,
    lambda scene: sessions.change(scene.scripts, "w1", {"limits": '{"per_day": 7}'}),
    lambda scene: sessions.change(scene.scripts, "w1", {"timezone": "Asia/Jerusalem"}),
    lambda scene: sessions.update(scene.scripts, "w1", SessionChanges(label="shop")),
    lambda scene: holds.put(scene.scripts, holds.Hold("all", scene.clock.now_ms + HOUR_MS, "x", "y")),
    lambda scene: contacts.limit(
        scene.scripts, PHONE, "lock", session="w1", until_ms=scene.clock.now_ms + HOUR_MS, source="guessed"
    ),
    _disconnected,
    lambda scene: scene.connected("w3", "972500000003", "p3"),
    lambda scene: sessions.remove(scene.scripts, "w2", proxy="p2", phone=OTHER),
]


async def test_what_it_remembers_is_what_one_who_reads_everything_finds(scene: Scene, tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    reader = FleetReader(PlainRedis(scene.scripts), settings)
    await reader.read()
    for step in STEPS:
        await scene.clock.pass_ms(1000)
        await step(scene)
        known, anew = await reader.read(), await FleetReader(PlainRedis(scene.scripts), settings).read()
        assert (known.holds, known.waiting) == (anew.holds, anew.waiting)
        assert list(map(_shown, known.sessions)) == list(map(_shown, anew.sessions))


def _shown(known: KnownSession) -> tuple[object, ...]:
    """What is chosen and estimated by; the ends of what is remembered differ."""
    session = known.session
    marks = (session.id, session.status, session.reason, session.phone, session.label, session.timezone)
    return (*marks, known.pace, known.day_ms, known.reopens_ms, known.figures)


async def test_a_fleet_in_which_nothing_happens_is_not_read_again(scene: Scene, tmp_path: Path) -> None:
    redis = CountingRedis(scene.scripts)
    reader = FleetReader(redis, make_settings(tmp_path))
    await reader.read()
    assert len(redis.records) == len(redis.figures) == 2
    await scene.clock.pass_ms(5000)
    await reader.read()
    redis.records.clear()
    redis.figures.clear()
    await reader.read()
    assert (redis.records, redis.figures) == ([], [])


async def test_every_session_has_its_turn_to_be_read_again(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_reader, "_WHOLE_S", 10.0)
    reader = FleetReader(PlainRedis(scene.scripts), make_settings(tmp_path))
    await reader.read()
    turns = [list(in_turn(reader, reader._read_at_s + 5.0)) for _ in range(3)]
    assert turns == [["w1"], ["w2"], ["w1"]]


async def test_a_message_has_the_figures_of_its_phone_read_and_no_record(scene: Scene, tmp_path: Path) -> None:
    redis = CountingRedis(scene.scripts)
    reader = FleetReader(redis, make_settings(tmp_path))
    await reader.read()
    await scene.clock.pass_ms(5000)
    await reader.read()
    await scene.queued()
    redis.records.clear()
    redis.figures.clear()
    await reader.read()
    assert (redis.records, redis.figures) == ([], [keys.queue(PHONE)])


async def test_a_redis_that_was_emptied_is_read_whole(scene: Scene, tmp_path: Path) -> None:
    reader = FleetReader(PlainRedis(scene.scripts), make_settings(tmp_path))
    assert len((await reader.read()).sessions) == 2
    now_ms = scene.clock.now_ms
    await scene.scripts.redis.flushall()
    await scene.clock.set(now_ms - HOUR_MS)
    await scene.connected()
    assert [each.session.id for each in (await reader.read()).sessions] == ["w1"]


async def test_what_was_not_read_because_of_an_outage_is_read_next_time(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = CountingRedis(scene.scripts)
    reader = FleetReader(redis, make_settings(tmp_path))
    await reader.read()
    await sessions.change(scene.scripts, "w1", {"limits": '{"per_day": 7}'})

    async def fail(*_: object) -> None:
        raise OSError("Redis is away")

    with monkeypatch.context() as outage:
        outage.setattr(reader, "_read_figures", fail)
        with pytest.raises(OSError, match="away"):
            await reader.read()
    await reader.read()
    assert reader._known["w1"].pace.per_day == 7
