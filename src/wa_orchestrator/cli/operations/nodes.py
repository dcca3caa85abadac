"""`wa-orchestrator nodes …`: the machines that workers run on."""

from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.arguments import Yes
from wa_orchestrator.cli.terminal.command import Invocation, command, confirm, group

app = group("The machines that workers run on: list, drain, activate.")
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The node's name; `nodes` lists them.")]
_COLUMNS = {"node": "name", "state": "state", "address": "address", "sessions": "held", "memory": "memory"}
_GB = 2**30


def _row(node: dict[str, Any]) -> dict[str, Any]:
    held = f"{node['connected']} of {node['sessions']} connected, {node['workerSlots']} worker slots"
    return node | {"held": held, "memory": f"{node['workerBytes'] / _GB:.1f} of {node['memoryBytes'] / _GB:.1f} GB"}


@command(app, "list")
def listed(run: Invocation) -> None:
    """List nodes with their memory, worker slots and sessions."""
    found = run.client.nodes()
    run.output(found, lambda: tables.table(_COLUMNS, [_row(each) for each in found["nodes"]], empty="No nodes."))


@command(app)
def drain(run: Invocation, name: NodeName, *, yes: Yes = False) -> None:
    """Empty a node: its sessions move to others, a few at a time; no new scan is needed."""
    confirm(f"Drain {name}? Each of its sessions is away for some seconds.", yes=yes)
    node = run.client.drain_node(name)
    left = f"{node['sessions']} sessions leave it" if node["sessions"] else "no session is on it"
    run.say(node, f"{name} is {node['state']}: {left}. Watch it: wa-orchestrator nodes list")


@command(app)
def activate(run: Invocation, name: NodeName) -> None:
    """Use a drained node again."""
    node = run.client.activate_node(name)
    run.say(node, f"{name} is {node['state']}.")
