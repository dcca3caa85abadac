"""Nodes of a swarm: which may have workers, what they hold, and whether the engine places anything there."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiodocker import Docker

from wa_orchestrator.domain.workers.nodes import NodeState, WorkerNode, slots_in
from wa_orchestrator.runner.docker_errors import engine_errors

#: States of a node that does not answer. After a change of manager it is "unknown" for a moment, which says nothing.
AWAY: Final = frozenset({"down", "disconnected"})
#: `node.labels.disk==ssd`, `node.role!=manager`, …
_CONSTRAINT: Final = re.compile(r"\s*node\.(?P<what>[\w.-]+)\s*(?P<how>==|!=)\s*(?P<value>.*?)\s*")


class SwarmNodes:
    """The nodes that `constraints` leave for workers."""

    def __init__(self, docker: Docker, constraints: Sequence[str]) -> None:
        self._docker = docker
        self._constraints = constraints

    async def list(self) -> list[WorkerNode]:
        with engine_errors():
            found = await self._docker.nodes.list()
        return [_node(each) for each in found if all(_admits(each, rule) for rule in self._constraints)]

    async def set_availability(self, name: str, availability: str) -> None:
        """Tell the engine whether it places tasks on a node (`active`), or not (`pause`), or removes all (`drain`)."""
        with engine_errors():
            for each in await self._docker.nodes.list():
                if _name(each) == name and each["Spec"]["Availability"] != availability:
                    # The engine refuses if somebody else has changed the node since; whoever asked asks again.
                    await self._docker.nodes.update(
                        node_id=each["ID"],
                        version=each["Version"]["Index"],
                        spec=each["Spec"] | {"Availability": availability},
                    )


def _name(raw: Mapping[str, Any]) -> str:
    return str(raw["Description"]["Hostname"])


def _node(raw: Mapping[str, Any]) -> WorkerNode:
    is_open = raw["Spec"]["Availability"] == "active"
    state = NodeState.READY if is_open else NodeState.CLOSED
    memory = int(raw["Description"]["Resources"].get("MemoryBytes", 0))
    return WorkerNode(
        _name(raw),
        NodeState.LOST if raw["Status"]["State"] in AWAY else state,
        str(raw["Status"].get("Addr", "")),
        memory,
        slots_in(memory),
    )


def _admits(raw: Mapping[str, Any], constraint: str) -> bool:
    """Whether a node keeps a constraint, as far as we understand it: the engine has the last word."""
    rule = _CONSTRAINT.fullmatch(constraint)
    if rule is None:
        return True
    facts = {"hostname": _name(raw), "role": raw["Spec"].get("Role", ""), "id": raw["ID"]}
    facts |= {f"labels.{name}": value for name, value in (raw["Spec"].get("Labels") or {}).items()}
    known = facts.get(rule["what"], "" if rule["what"].startswith("labels.") else None)
    return known is None or (known == rule["value"]) is (rule["how"] == "==")
