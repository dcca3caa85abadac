"""`wa-orchestrator inventory …`: free slots, and the profiles that sessions show as."""

from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import Invocation, command, group

app = group("Capacity for new sessions: list, add-profile, remove-profile.")
ProfileName = Annotated[str, typer.Argument(metavar="PROFILE", help="System/Browser/Version, as Windows/Edge/120.0.")]
COLUMNS = {"profile": "name", "from": "origin", "sessions": "sessions", "free": "free"}


def _row(profile: dict[str, Any]) -> dict[str, Any]:
    free = "any number" if profile["free"] is None else profile["free"]
    return profile | {"sessions": len(profile["sessions"]), "free": free}


@command(app, "list")
def listed(run: Invocation) -> None:
    """List free slots and profiles."""
    found = run.client.inventory()
    slots = found["slots"]

    def show() -> None:
        low = " Few are left: add a proxy." if found["lowSlots"] else ""
        tables.line(f"{slots['free']} of {slots['slots']} proxy slots are free; {slots['waiting']} sessions wait.{low}")
        tables.table(COLUMNS, [_row(each) for each in found["profiles"]])
        if found["lowProfiles"]:
            tables.line("Few profiles are free: add one, or raise PROFILE_SESSIONS.")

    run.output(found, show)


@command(app, "add-profile")
def add_profile(run: Invocation, name: ProfileName) -> None:
    """Add a profile that new sessions may get."""
    made = run.client.add_profile(name)
    run.say(made, f"New sessions may show as {made['name']}.")


@command(app, "remove-profile")
def remove_profile(run: Invocation, name: ProfileName) -> None:
    """Remove a profile from the list; sessions that have it keep it."""
    run.say(run.client.remove_profile(name), f"New sessions do not get {name}. Those that have it keep it.")
