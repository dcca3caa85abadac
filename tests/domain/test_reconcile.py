"""The plan leads to one worker of the right epoch per wanted session, and a second plan is empty."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.sessions.reconciliation import (
    STRAY_GRACE_MS,
    Adopt,
    FoundWorker,
    Instruction,
    Replace,
    Start,
    Stop,
    plan,
)

NOW = 1_000_000
OLD = NOW - STRAY_GRACE_MS


@pytest.mark.parametrize(
    ("wanted", "seen", "instructions"),
    [
        ({}, [], []),
        ({"a": 1}, [], [Start("a", 1)]),
        ({"a": 1}, [FoundWorker("h", "a", 1, NOW)], [Adopt("a", "h")]),
        ({"a": 2}, [FoundWorker("h", "a", 1, NOW)], [Replace("a", "h", 2)]),
        ({"a": 1}, [FoundWorker("h", "a", 2, NOW)], [Replace("a", "h", 1)]),
        ({"a": 1}, [FoundWorker("h", "a", 1, NOW, is_lost=True)], [Replace("a", "h", 1)]),
        (
            {"a": 2},
            [FoundWorker("away", "a", 2, NOW, is_lost=True), FoundWorker("here", "a", 1, NOW)],
            [Stop("away", "a"), Replace("a", "here", 2)],
        ),
        ({}, [FoundWorker("h", "a", 1, OLD, is_lost=True)], [Stop("h", "a")]),
        ({}, [FoundWorker("h", "a", 1, OLD)], [Stop("h", "a")]),
        ({}, [FoundWorker("h", "a", 1, OLD + 1)], []),
        (
            {"a": 2},
            [FoundWorker("old", "a", 1, NOW), FoundWorker("new", "a", 2, NOW)],
            [Stop("old", "a"), Adopt("a", "new")],
        ),
        (
            {"a": 1, "b": 1},
            [FoundWorker("h", "c", 1, OLD)],
            [Stop("h", "c"), Start("a", 1), Start("b", 1)],
        ),
    ],
)
def test_the_plan_closes_the_gap_between_wanted_and_seen(
    wanted: dict[str, int], seen: list[FoundWorker], instructions: list[Instruction]
) -> None:
    assert plan(wanted, seen, NOW) == instructions


def test_of_two_equal_workers_the_adopted_one_stays() -> None:
    twins = [FoundWorker("h1", "a", 1, NOW), FoundWorker("h2", "a", 1, NOW)]
    assert plan({"a": 1}, twins, NOW, adopted=frozenset({"h2"})) == [Stop("h1", "a")]


def test_a_worker_of_the_right_epoch_stays_although_an_older_one_is_adopted() -> None:
    both = [FoundWorker("old", "a", 1, NOW), FoundWorker("new", "a", 2, NOW)]
    assert plan({"a": 2}, both, NOW, adopted=frozenset({"old"})) == [Stop("old", "a"), Adopt("a", "new")]


def test_a_lost_worker_is_left_to_whoever_supervises_it() -> None:
    away = FoundWorker("h", "a", 1, NOW, is_lost=True)
    assert plan({"a": 1}, [away], NOW, adopted=frozenset({"h"})) == []


def test_a_handle_may_end_with_its_node() -> None:
    assert [FoundWorker(each, "a", 1, NOW).node for each in ("docker/1/x", "swarm/1/x@n-1")] == ["", "n-1"]


def carry_out(instructions: list[Instruction], seen: list[FoundWorker]) -> tuple[list[FoundWorker], frozenset[str]]:
    """Do what a runner would do, and refuse to ever run two workers of a session started by us."""
    running = {worker.handle: worker for worker in seen}
    adopted: set[str] = set()
    for number, instruction in enumerate(instructions):
        match instruction:
            case Stop(handle):
                del running[handle]
            case Replace(session_id, handle, epoch):
                del running[handle]
                assert session_id not in {worker.session_id for worker in running.values()}
                running[f"new{number}"] = FoundWorker(f"new{number}", session_id, epoch, NOW)
                adopted.add(f"new{number}")
            case Start(session_id, epoch):
                assert session_id not in {worker.session_id for worker in running.values()}
                running[f"new{number}"] = FoundWorker(f"new{number}", session_id, epoch, NOW)
                adopted.add(f"new{number}")
            case Adopt(_, handle):
                assert handle in running
                adopted.add(handle)
    return list(running.values()), frozenset(adopted)


sessions = st.sampled_from(["a", "b", "c", "d"])
worlds = st.tuples(
    st.dictionaries(sessions, st.integers(1, 3)),
    st.lists(
        st.builds(FoundWorker, st.just(""), sessions, st.integers(1, 3), st.integers(OLD - 5, NOW), st.booleans()),
        max_size=8,
    ),
)


@quick
@given(worlds)
def test_after_the_plan_each_wanted_session_has_one_worker_of_its_epoch_and_a_second_plan_is_empty(
    world: tuple[dict[str, int], list[FoundWorker]],
) -> None:
    wanted, unnamed = world
    seen = [replace(worker, handle=f"h{number}") for number, worker in enumerate(unnamed)]
    running, adopted = carry_out(plan(wanted, seen, NOW), seen)
    for session_id, epoch in wanted.items():
        assert [worker.epoch for worker in running if worker.session_id == session_id] == [epoch]
    assert plan(wanted, running, NOW, adopted=adopted) == []


@quick
@given(worlds)
def test_a_healthy_worker_of_the_right_epoch_is_never_stopped(
    world: tuple[dict[str, int], list[FoundWorker]],
) -> None:
    wanted, unnamed = world
    alone = {worker.session_id: replace(worker, handle=worker.session_id) for worker in unnamed}
    for instruction in plan(wanted, alone.values(), NOW):
        if isinstance(instruction, Stop | Replace):
            worker = alone[instruction.session_id]
            assert worker.is_lost or wanted.get(worker.session_id) != worker.epoch
