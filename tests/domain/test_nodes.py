"""Nodes: their state, their room, and which sessions leave one that is drained."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.workers.nodes import (
    MOVES_AT_ONCE,
    RESERVED_BYTES,
    NodeState,
    WorkerNode,
    next_moves,
    room_of,
    slots_in,
    state_of,
)

S = NodeState


def node(name: str, state: NodeState = S.READY, slots: int = 10) -> WorkerNode:
    return WorkerNode(name, state, "", slots * RESERVED_BYTES, slots)


@pytest.mark.parametrize(
    ("engine", "is_drained", "sessions", "shown"),
    [
        (S.READY, False, 3, S.READY),
        (S.CLOSED, False, 3, S.CLOSED),
        (S.CLOSED, True, 3, S.DRAINING),
        (S.READY, True, 3, S.DRAINING),
        (S.CLOSED, True, 0, S.DRAINED),
        (S.LOST, True, 3, S.LOST),
    ],
)
def test_the_state_of_a_node(engine: NodeState, is_drained: bool, sessions: int, shown: NodeState) -> None:
    assert state_of(node("a", engine), is_drained=is_drained, sessions=sessions) is shown


def test_only_ready_nodes_that_nobody_drains_have_room_and_never_less_than_none() -> None:
    nodes = [node("a"), node("b", S.CLOSED), node("c", S.LOST), node("d"), node("full", slots=2)]
    assert room_of(nodes, {"d"}, {"a": 3, "full": 5, "d": 1}) == 7


def test_memory_is_counted_as_engines_count_it() -> None:
    assert slots_in(24 * 2**30) == 768


@given(st.integers(0, 30), st.integers(0, 10), st.integers(0, 30))
def test_never_more_are_away_than_have_room_and_may_be_at_once(waiting: int, moving: int, room: int) -> None:
    names = [f"s{number}" for number in range(waiting)]
    chosen = next_moves(names, moving=moving, room=room)
    assert list(chosen) == names[: len(chosen)]
    assert not chosen or len(chosen) + moving <= min(MOVES_AT_ONCE, room)
    assert chosen or not waiting or moving >= min(MOVES_AT_ONCE, room)
