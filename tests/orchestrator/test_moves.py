"""Moving a session to another node, and draining a node: the old worker ends before it is fenced, nothing is lost."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import OTHER, PHONE, THIRD, another, code_of, linked, now
from tests.waiting import until
from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.domain.workers import nodes as domain_nodes
from wa_orchestrator.domain.workers.nodes import NodeState, WorkerNode, slots_in
from wa_orchestrator.loop import Loop
from wa_orchestrator.orchestrator.service import Orchestrator, assemble
from wa_orchestrator.orchestrator.workers.node_watch import NodeWatch
from wa_orchestrator.orchestrator.workers.pool import STOP_GRACE_S
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.session_controller import SessionController
from wa_orchestrator.orchestrator.workers.start_queue import STARTS_AT_ONCE, StartQueue
from wa_orchestrator.runner.contract import NoNodeForWorker, WorkerSpec
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.sessions import commands, control_plane
from wa_orchestrator.store.sessions import nodes as stored_nodes

GB = 2**30
IN_HAND_MS = 20_000


class FakeCluster(FakeRunner):
    """A runner in memory with three nodes. Workers go where they are told to, else to the first open one."""

    def __init__(self) -> None:
        super().__init__()
        self.states = {f"node-{number}": NodeState.READY for number in (1, 2, 3)}
        self.vacated: list[str] = []
        self.full: set[str] = set()
        self.epochs_at_end: list[int] = []
        self.obeys = True
        self.starting: set[str] = set()
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.context: Context | None = None

    async def start(self, spec: WorkerSpec) -> str:
        able = [name for name, state in self.states.items() if state is NodeState.READY and name not in self.full]
        node = spec.node or able[0]
        if node not in able:
            raise NoNodeForWorker(f"{node} takes nobody")
        self.starting.add(spec.session_id)
        await self.may_start.wait()
        plain = await super().start(spec)
        found = self.running.pop(plain)
        handle = f"{plain}@{node}"
        self.running[handle] = FoundWorker(handle, found.session_id, found.epoch, found.started_at_ms)
        return handle

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        if found := self.running.get(handle):
            await self._note_end(found)
        await super().stop(handle, grace_s)

    async def command(
        self, scripts: Scripts, session_id: str, kind: str, *, timeout_s: float, epoch: str = ""
    ) -> dict[str, Any] | None:
        """Answer as the session's worker: it leaves, or is of a version that does not know how."""
        (found,) = [each for each in self.running.values() if each.session_id == session_id]
        assert (kind, epoch, timeout_s) == ("leave", str(found.epoch), STOP_GRACE_S)
        # It has a message in hand for so long, and is connected meanwhile.
        await scripts.redis.hincrby(keys.session(session_id), "moved_at", -IN_HAND_MS)
        if not self.obeys:
            return {"ok": False, "code": "UNKNOWN_COMMAND"}
        await self._note_end(found)
        del self.running[found.handle]
        return {"ok": True}

    async def _note_end(self, found: FoundWorker) -> None:
        if self.context is not None:
            stored = await self.context.redis.hget(keys.session(found.session_id), "epoch")
            self.epochs_at_end.append(int(stored or 0) - found.epoch)

    async def nodes(self) -> Sequence[WorkerNode]:
        return [WorkerNode(name, state, "192.0.2.7", 4 * GB, slots_in(4 * GB)) for name, state in self.states.items()]

    async def close_node(self, node: str) -> None:
        self.states[node] = NodeState.CLOSED

    async def vacate_node(self, node: str) -> None:
        self.vacated.append(node)

    async def open_node(self, node: str) -> None:
        self.states[node] = NodeState.READY

    def places(self) -> dict[str, str]:
        """Where each session runs."""
        return {found.session_id: found.node for found in self.running.values()}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"runner": "swarm", "credentials": "server"})


@pytest.fixture
def runner(context: Context, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    made.context = context
    monkeypatch.setattr(commands, "run", made.command)
    return made


async def events(control: Orchestrator, kind: str) -> list[dict[str, str]]:
    found = await event_stream.read(control.context.scripts, most=500)
    return [dict(each.fields) for each in found if each.fields["type"] == kind]


async def move(api: httpx.AsyncClient, to: str, session_id: str = "s1") -> httpx.Response:
    return await api.post(f"/api/sessions/{session_id}/move", json={"to": to})


@pytest.mark.parametrize("obeys", [True, False])
async def test_a_moved_sessions_worker_ends_before_it_is_fenced_and_the_next_one_starts_where_it_was_told_to(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster, obeys: bool
) -> None:
    runner.obeys = obeys
    await linked(control, api, teller, "s1", PHONE)
    before = await now(control.context, "s1")
    asked = (await move(api, "node-3")).json()
    assert (asked["fromNode"], asked["toNode"], asked["awayMs"]) == ("node-1", "node-3", None)
    await drive(control)
    assert runner.stops[-1][1] == STOP_GRACE_S
    assert runner.epochs_at_end == [0], "the worker was fenced before it had ended: its last change would be refused"
    after = await now(control.context, "s1")
    assert (runner.places(), after.node, after.epoch) == ({"s1": "node-3"}, "node-3", before.epoch + 1)

    # It is back when the new worker says so, and everybody is told how long it was away.
    assert after.away_ms == 0
    await teller.connected("s1", PHONE)
    shown = (await api.get("/api/sessions/s1")).json()
    assert shown["worker"]["node"] == "node-3"
    assert 0 < shown["lastMove"]["awayMs"] < IN_HAND_MS, "it was connected while it had a message in hand"
    (told,) = await events(control, "session.relocated")
    assert (told["from"], told["to"], int(told["away_ms"])) == ("node-1", "node-3", shown["lastMove"]["awayMs"])
    await teller.connected("s1", PHONE)
    assert len(await events(control, "session.relocated")) == 1


async def test_a_moved_session_does_not_wait_behind_others_for_its_start(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await move(api, "node-3")
    await control_plane.set_restart_after(control.context.scripts, await control.context.scripts.now_ms() + 3_600_000)
    await part(control, SessionController).attend("s1")
    assert runner.places() == {"s1": "node-3"}


async def test_where_many_are_moved_together_most_wait_in_the_queue_of_starts(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster
) -> None:
    controller, phones = part(control, SessionController), {"s1": PHONE, "s2": OTHER, "s3": THIRD}
    for session_id, phone in phones.items():
        await linked(control, api, teller, session_id, phone)
    for session_id in phones:
        await move(api, "node-3", session_id)
    runner.starting.clear()
    runner.may_start.clear()
    async with asyncio.TaskGroup() as group:
        for session_id in ("s1", "s2"):
            group.create_task(controller.attend(session_id))
        await until(lambda: runner.starting == {"s1", "s2"}, "two start at once")
        await controller.attend("s3")
        runner.may_start.set()
    assert "s3" not in runner.places()
    await drive(control)
    assert runner.places() == dict.fromkeys(phones, "node-3")


async def replaced(control: Orchestrator, runner: FakeCluster, *session_ids: str) -> None:
    """Let these sessions wait for a start, for which the engine takes its time."""
    for each in session_ids:
        await control.pool.replace(await now(control.context, each), 0)
    runner.starting.clear()
    runner.may_start.clear()


def begin_steps(queue: StartQueue) -> list[asyncio.Task[float]]:
    return [asyncio.create_task(queue.step()) for _ in range(queue.at_once)]


async def test_sessions_restart_while_the_engine_still_starts_others(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster
) -> None:
    for session_id, phone in {"s1": PHONE, "s2": OTHER, "s3": THIRD}.items():
        await linked(control, api, teller, session_id, phone)
    control.context.settings = control.context.settings.model_copy(update={"restart_interval_ms": 0})
    await replaced(control, runner, "s1", "s2", "s3")
    steps = begin_steps(part(control, StartQueue))
    await until(lambda: runner.starting == {"s1", "s2", "s3"}, "the engine starts all of them")
    runner.may_start.set()
    await asyncio.gather(*steps)
    assert runner.places().keys() == {"s1", "s2", "s3"}


async def test_restarts_that_overlap_keep_their_pace(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster
) -> None:
    for session_id, phone in {"s1": PHONE, "s2": OTHER}.items():
        await linked(control, api, teller, session_id, phone)
    control.context.settings = control.context.settings.model_copy(update={"restart_interval_ms": 3_600_000})
    await control_plane.set_restart_after(control.context.scripts, 0)
    await replaced(control, runner, "s1", "s2")
    steps = begin_steps(part(control, StartQueue))
    await until(lambda: sum(each.done() for each in steps) == len(steps) - 1, "all but one have looked")
    runner.may_start.set()
    waits = await asyncio.gather(*steps)
    assert (len(runner.starting), waits.count(0)) == (1, 1)


async def test_sessions_to_be_linked_start_one_after_another_also_where_restarts_overlap(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeCluster
) -> None:
    control.context.settings = control.context.settings.model_copy(update={"provisioning_interval_ms": 3_600_000})
    for number in range(3):
        await api.post("/api/sessions/provision", json={"sessionId": f"s{number}"})
    runner.may_start.clear()
    steps = begin_steps(part(control, StartQueue))
    await until(lambda: runner.starting, "the engine starts one")
    runner.may_start.set()
    waits = await asyncio.gather(*steps)
    assert (len(runner.starting), waits.count(0)) == (1, 1)


async def test_a_proxy_counts_those_whom_the_engine_still_starts(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster
) -> None:
    proxy = "socks5h://u:p@one.example.com:1080"
    for number in range(4):
        await linked(control, api, teller, f"s{number}", f"97250000000{number}", proxy=proxy)
    await replaced(control, runner, "s0")
    starting = asyncio.create_task(control.pool.start("s0"))
    await until(lambda: runner.starting, "the engine starts it")
    # Its record gives the slot up meanwhile, and another session gets that.
    proxy_id = (await now(control.context, "s0")).proxy
    await control.context.redis.srem(keys.sessions_of_proxy(proxy_id), "s0")
    await control.context.redis.hset(keys.session("s0"), "proxy", "")
    assert (await api.post("/api/sessions/provision", json={"sessionId": "eager", "proxy": proxy})).is_success
    assert not await control.pool.start("eager")
    runner.may_start.set()
    assert await starting


@pytest.mark.parametrize(("has_places", "loops"), [(True, STARTS_AT_ONCE), (False, 1)])
async def test_restarts_overlap_only_where_there_are_several_nodes(
    context: Context, *, has_places: bool, loops: int
) -> None:
    made = assemble(context, FakeCluster() if has_places else FakeRunner())
    assert [each.name for each in made.loops if isinstance(each, Loop)].count("start_queue") == loops


async def test_the_old_workers_late_report_is_no_return(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await move(api, "node-2")
    await teller.connected("s1", PHONE)
    assert (await now(control.context, "s1")).away_ms == 0
    assert await events(control, "session.relocated") == []


@pytest.mark.parametrize("worker_has_ended", [True, False])
async def test_a_server_that_dies_in_the_middle_of_a_move_leaves_one_that_the_next_finishes(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster, worker_has_ended: bool
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await move(api, "node-2")
    await control.context.redis.delete(keys.CONTROL_ATTEND)  # taken by the server that died
    if worker_has_ended:
        await control.pool.stop("s1", 0)
    await control.lease.release()
    runner.epochs_at_end.clear()
    successor = await another(control.context, runner)
    await successor.lease.step()
    await part(successor, Reconciler).step()
    await drive(successor)
    assert runner.places() == {"s1": "node-2"}
    assert runner.epochs_at_end == ([] if worker_has_ended else [0])


async def test_a_session_whose_chosen_node_takes_nobody_starts_where_there_is_room(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await move(api, "node-2")
    runner.full.add("node-2")
    with pytest.raises(NoNodeForWorker):
        await drive(control)
    await drive(control)
    assert runner.places() == {"s1": "node-1"}


@pytest.mark.parametrize("how", ["replaced", "moved"])
async def test_a_worker_whose_node_is_lost_while_it_is_stopped_may_still_speak_and_is_waited_for(
    control: Orchestrator,
    api: httpx.AsyncClient,
    teller: Teller,
    runner: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = await now(control.context, "s1")
    runner.obeys = False
    stop = runner.stop

    async def lose_first(handle: str, grace_s: float = 10.0) -> None:
        runner.states["node-1"] = NodeState.LOST
        await stop(handle, grace_s)

    monkeypatch.setattr(runner, "stop", lose_first)
    if how == "moved":
        await move(api, "node-2")
        await part(control, SessionController).attend("s1")
    else:
        await control.pool.replace(await now(control.context, "s1"), STOP_GRACE_S)
    after = await now(control.context, "s1")
    assert after.worker_lost_at
    assert after.epoch > before.epoch, "its pings would still be taken, and it would never leave"
    assert not await control.pool.start("s1")
    assert runner.places() == {}


async def test_what_cannot_be_moved_is_refused_with_the_reason(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    assert await code_of(await move(api, "node-1")) == "ALREADY_THERE"
    assert await code_of(await move(api, "node-9")) == "NO_SUCH_NODE"
    assert await code_of(await move(api, "node-2", "nobody")) == "NO_SUCH_SESSION"
    runner.states["node-2"] = NodeState.LOST
    assert await code_of(await move(api, "node-2")) == "NODE_NOT_READY"
    await api.post("/api/sessions/s1/stop")
    assert await code_of(await move(api, "node-3")) == "NOT_RUNNING"
    control.context.settings = control.context.settings.model_copy(update={"credentials": "local"})
    refused = await move(api, "node-3")
    assert (refused.status_code, await code_of(refused)) == (409, "CREDENTIALS_STAY")
    assert "CREDENTIALS=server" in refused.json()["error"]["message"]


async def test_on_one_machine_there_is_one_node_and_nowhere_to_go(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    control.pool.runner = FakeRunner()
    listed = (await api.get("/api/v1/nodes")).json()
    assert (listed["canMove"], [each["sessions"] for each in listed["nodes"]]) == (False, [1])
    name = listed["nodes"][0]["name"]
    for answer in (
        await move(api, "node-2"),
        await api.post(f"/api/v1/nodes/{name}/drain"),
        await api.post(f"/api/v1/nodes/{name}/activate"),
    ):
        assert (answer.status_code, await code_of(answer)) == (409, "ONE_NODE")
        assert "RUNNER=swarm" in answer.json()["error"]["message"]


async def test_a_drained_nodes_sessions_leave_a_few_at_a_time_and_then_it_is_vacated_until_it_is_activated(
    control: Orchestrator,
    api: httpx.AsyncClient,
    teller: Teller,
    runner: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(domain_nodes, "MOVES_AT_ONCE", 2)
    phones = {"s1": PHONE, "s2": OTHER, "s3": THIRD}
    for session_id, phone in phones.items():
        await linked(control, api, teller, session_id, phone)
    drained = (await api.post("/api/v1/nodes/node-1/drain")).json()
    assert (drained["state"], drained["sessions"], runner.states["node-1"]) == ("draining", 3, NodeState.CLOSED)
    watch = part(control, NodeWatch)
    await watch.step()
    await drive(control)
    assert runner.places() == {"s1": "node-2", "s2": "node-2", "s3": "node-1"}
    await watch.step()
    await drive(control)
    assert runner.places()["s3"] == "node-1", "the third leaves when one of the others is back"
    await teller.connected("s1", PHONE)
    await watch.step()
    await drive(control)
    assert runner.places()["s3"] == "node-2"
    await watch.step()
    assert runner.vacated == [], "what moves with the node would break the connections of those that log in"
    for session_id in ("s2", "s3"):
        await teller.connected(session_id, phones[session_id])
    await watch.step()
    (shown,) = [each for each in (await api.get("/api/v1/nodes")).json()["nodes"] if each["name"] == "node-1"]
    assert (shown["state"], shown["moved"], runner.vacated) == ("drained", 3, ["node-1"])
    active = (await api.post("/api/v1/nodes/node-1/activate")).json()
    assert (active["state"], runner.states["node-1"]) == ("ready", NodeState.READY)


async def test_a_session_without_room_elsewhere_stays_where_it_is(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeCluster
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await api.post("/api/v1/nodes/node-1/drain")
    runner.states |= {"node-2": NodeState.LOST, "node-3": NodeState.CLOSED}
    await part(control, NodeWatch).step()
    await drive(control)
    assert runner.places() == {"s1": "node-1"}


async def test_a_drain_whose_server_died_before_it_told_the_engine_is_finished(
    control: Orchestrator, runner: FakeCluster
) -> None:
    await stored_nodes.drain(control.context.scripts, "node-2")
    await part(control, NodeWatch).step()
    assert (runner.states["node-2"], runner.vacated) == (NodeState.CLOSED, ["node-2"])
    assert [each.name for each in await stored_nodes.known(control.context.scripts)] == list(runner.states)


async def test_the_last_node_and_one_that_is_lost_are_not_drained(api: httpx.AsyncClient, runner: FakeCluster) -> None:
    runner.states |= {"node-2": NodeState.LOST, "node-3": NodeState.CLOSED}
    assert await code_of(await api.post("/api/v1/nodes/node-1/drain")) == "LAST_NODE"
    assert await code_of(await api.post("/api/v1/nodes/node-2/drain")) == "NODE_LOST"
    assert await code_of(await api.post("/api/v1/nodes/node-9/drain")) == "NO_SUCH_NODE"
