"""The cases of the guards around what operators change. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import PHONE, Scene
from wa_orchestrator.domain.proxies.proxy_move import MoveTime
from wa_orchestrator.domain.sessions.scan_link import LONGEST_MS, MOST_TRIES, WINDOW_MS
from wa_orchestrator.store import keys, proxies, records, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.outcomes import Unknown
from wa_orchestrator.store.records import ProxyChanges, Session, SessionChanges
from wa_orchestrator.store.sessions import scan_links, slots

Outcome = slots.Moved | slots.ChosenBad | sessions.NoRoom | Changed


async def _session(scene: Scene, name: str = "w1") -> Session:
    found = await records.session(scene.scripts, name)
    assert found is not None
    return found


async def _choose(scene: Scene, proxy: str, *names: str, when: MoveTime = MoveTime.NOW, per_proxy: int = 4) -> Outcome:
    movers = [await _session(scene, name) for name in names or ("w1",)]
    return await slots.move_phone(scene.scripts, movers, proxy, when=when, per_proxy=per_proxy)


async def _held(scene: Scene, *names: str) -> dict[str, set[str]]:
    return {each: await scene.scripts.redis.smembers(keys.sessions_of_proxy(each)) for each in names}


async def _stage(scene: Scene) -> None:
    await scene.connected("w1", proxy="p1")
    await scene.proxy("p2")


@case("chosen_seen")
async def _(scene: Scene) -> None:
    await _stage(scene)
    stale = await _session(scene)
    assert await _choose(scene, "p2") == slots.Moved("p2")
    again = await slots.move_phone(scene.scripts, [stale], "p1", when=MoveTime.NOW, per_proxy=4)
    assert again == Changed()


@case("chosen_siblings")
async def _(scene: Scene) -> None:
    await _stage(scene)
    await scene.connected("w2", proxy="p1")
    assert await _choose(scene, "p2", "w1") == Changed()  # one of two would be left behind
    assert await _choose(scene, "p2", "w1", "w2") == slots.Moved("p2")


@case("chosen_healthy")
async def _(scene: Scene) -> None:
    await _stage(scene)
    await proxies.mark(scene.scripts, "p2", version=1, status="BAD", reason="CHECK_FAILED", fields={})
    assert await _choose(scene, "p2") == slots.ChosenBad()


@case("chosen_room")
async def _(scene: Scene) -> None:
    await _stage(scene)
    assert await _choose(scene, "p2", per_proxy=0) == sessions.NoRoom()
    assert await _held(scene, "p1", "p2") == {"p1": {"w1"}, "p2": set()}


@case("chosen_keeps_slot")
async def _(scene: Scene) -> None:
    await _stage(scene)
    await _choose(scene, "p2")
    assert await _held(scene, "p1", "p2") == {"p1": {"w1"}, "p2": {"w1"}}
    await slots.release(scene.scripts, "w1")
    assert await _held(scene, "p1", "p2") == {"p1": set(), "p2": {"w1"}}


@case("chosen_unused_slot")
async def _(scene: Scene) -> None:
    await _stage(scene)
    await scene.proxy("p3")
    await _choose(scene, "p2")  # its worker still runs on p1
    await _choose(scene, "p3")
    assert await _held(scene, "p1", "p2", "p3") == {"p1": {"w1"}, "p2": set(), "p3": {"w1"}}


@case("chosen_back")
async def _(scene: Scene) -> None:
    await _stage(scene)
    await _choose(scene, "p2", when=MoveTime.RESTART)
    await _choose(scene, "p1", when=MoveTime.RESTART)
    assert await _held(scene, "p1", "p2") == {"p1": {"w1"}, "p2": set()}
    assert (await _session(scene)).leaving == ""


@case("chosen_given")
async def _(scene: Scene) -> None:
    await scene.proxy("p1")
    await scene.proxy("p2")
    await sessions.create(scene.scripts, sessions.NewSession("w1", candidates=["p1"]), per_proxy=4, per_phone=4)
    await _choose(scene, "p2")
    unlinked = await _session(scene)
    assert (unlinked.proxy, unlinked.proxy_given) == ("p2", "given")


@case("chosen_temporary")
async def _(scene: Scene) -> None:
    await scene.proxy("p1")
    await scene.proxy("p2")
    await sessions.create(scene.scripts, sessions.NewSession("w1", candidates=["p1"]), per_proxy=4, per_phone=4)
    await _choose(scene, "p2")
    assert await scene.scripts.redis.get(keys.temporary_binding("w1")) == "p2"


@case("chosen_now")
async def _(scene: Scene) -> None:
    await _stage(scene)
    await _choose(scene, "p2", when=MoveTime.RESTART)
    assert (await _session(scene)).restart_epoch is None
    await _choose(scene, "p1", when=MoveTime.NOW)
    assert (await _session(scene)).restart_epoch == 1


@case("chosen_binds")
async def _(scene: Scene) -> None:
    await _stage(scene)
    await _choose(scene, "p2")
    assert await slots.sticky_proxy(scene.scripts, PHONE) == "p2"
    last = (await scene.scripts.redis.xrevrange(keys.sticky_history(PHONE), count=1))[0][1]
    assert (last["from"], last["to"], last["reason"]) == ("p1", "p2", "CHOSEN")


@case("change_proxy_exists")
async def _(scene: Scene) -> None:
    assert not await proxies.change(scene.scripts, "p1", ProxyChanges(name="x"))
    assert await scene.scripts.redis.exists(keys.proxy("p1")) == 0


@case("proxy_alias")
async def _(scene: Scene) -> None:
    await scene.proxy("p1")
    await proxies.change(scene.scripts, "p1", ProxyChanges(url="socks5h://u:new@p1.example.com:1080"), alias="p9")
    assert await scene.scripts.redis.hget(keys.PROXY_ALIASES, "p9") == "p1"


@case("change_proxy_version")
async def _(scene: Scene) -> None:
    await scene.proxy("p1")
    await proxies.change(scene.scripts, "p1", ProxyChanges(name="x"))
    late = await proxies.mark(scene.scripts, "p1", version=1, status="BAD", reason="CHECK_FAILED", fields={})
    assert late == Changed()


@case("limits_none")
async def _(scene: Scene) -> None:
    await scene.connected()
    await sessions.change(scene.scripts, "w1", SessionChanges(timezone="Asia/Jerusalem", label="x"))
    await sessions.change(scene.scripts, "w1", SessionChanges(timezone=""))
    assert await scene.scripts.redis.hexists(keys.session("w1"), "timezone") == 0
    assert (await _session(scene)).label == "x"


@case("scan_link_secret")
async def _(scene: Scene) -> None:
    _, old = await scan_links.make(scene.scripts, "w1", asker="", language="", life_ms=60_000)
    await scan_links.make(scene.scripts, "w1", asker="", language="", life_ms=60_000)
    assert await scan_links.start(scene.scripts, "w1", old) == Unknown()


@case("scan_link_tries")
async def _(scene: Scene) -> None:
    _, link = await scan_links.make(scene.scripts, "w1", asker="", language="", life_ms=60_000)
    pressed = [await scan_links.start(scene.scripts, "w1", link) for _ in range(MOST_TRIES + 1)]
    assert pressed == [*map(scan_links.Started, range(1, MOST_TRIES + 1)), scan_links.Spent()]


@case("scan_link_window")
async def _(scene: Scene) -> None:
    token, link = await scan_links.make(scene.scripts, "w1", asker="", language="", life_ms=LONGEST_MS)
    await scan_links.start(scene.scripts, "w1", link)
    assert 0 < await scene.scripts.redis.pttl(keys.scan_link("w1")) <= WINDOW_MS
    assert await scan_links.find(scene.scripts, token + "x") is None
