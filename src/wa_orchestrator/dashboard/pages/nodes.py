"""Nodes page: the machines that workers run on, what they hold, and who is where."""

from collections import Counter
from collections.abc import Mapping

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.dashboard.pages.backups import size
from wa_orchestrator.domain.workers import nodes as domain_nodes
from wa_orchestrator.orchestrator.workers import node_table
from wa_orchestrator.orchestrator.workers.node_table import NodeRow
from wa_orchestrator.orchestrator.workers.worker_spec import silent_after_ms
from wa_orchestrator.store.sessions import nodes


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    return PageContent("nodes.html", await parts(renderer, view, query), {}, {"page": "nodes"})


async def parts(renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    scripts, macros = renderer.context.scripts, renderer.operations
    known, drained = await nodes.known(scripts), await nodes.drained(scripts)
    sessions = [row.session for row in view.snapshot.rows.values()]
    rows = node_table.rows(known, drained, sessions)
    used = Counter(each.node for each in sessions)
    room = domain_nodes.room_of(known, drained, used)
    listed = [(row, states(row), domain_nodes.room_of(known, {*drained, row.node.name}, used)) for row in rows]
    silent_after = silent_after_ms(renderer.context.settings)
    return {
        "headline": macros.nodes_headline(view, rows),
        "node-list": macros.node_list(view, listed, room, silent_after, size),
    }


def states(row: NodeRow) -> Mapping[str, int]:
    """Return how many of a node's sessions have which state."""
    return Counter(str(each.status) for each in row.sessions)
