"""`wa-orchestrator keys …`, `people …`, `logins …` and `audit …`: access, logins and the audit log."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, Invocation, command, confirm, group, nothing_to_change
from wa_orchestrator.cli.terminal.download import print_stream
from wa_orchestrator.errors import Refused

keys = group("API keys of a running server: list, create, revoke.")
people = group("People with an account: list, add, link, delete.")
logins = group("Logins to the dashboard: list, end.")
audit = group("The audit log: list, export, verify.")
Labels = Annotated[
    list[str] | None, typer.Option("--label", help="Only sessions with this label or tag; may be repeated.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def _limits(shown: dict[str, Any]) -> str:
    return ", ".join([*shown.get("sessions", ()), *shown["labels"]]) or "everything"


@command(keys, "list")
def list_keys(run: Invocation) -> None:
    """List API keys."""
    found = run.client.keys()
    rows = [
        each
        | {
            "scopes": " ".join(each["scopes"]),
            "sees": _limits(each),
            "expires": tables.when(each["expiresAt"]) or "never",
        }
        for each in found["keys"]
    ]
    columns = {
        "key": "id", "name": "name", "begins": "prefix", "scopes": "scopes", "sees": "sees", "expires": "expires",
        "last used": "lastUsedAt",
    }  # fmt: skip
    run.output(found, lambda: tables.table(columns, rows, empty="There are no keys besides the one in the settings."))


@command(keys)
def create(
    run: Invocation,
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    *,
    scope: Annotated[list[str], typer.Option("--scope", help="send, read, operate or admin; may be repeated.")],
    label: Labels = None,
    session: Annotated[list[str] | None, typer.Option("--session", help="Only this session; may be repeated.")] = None,
    days: Annotated[int | None, typer.Option("--days", min=1, help="Days until it expires.")] = None,
) -> None:
    """Create an API key. It is shown once."""
    made = run.client.create_key(name, scope, sessions=session or (), labels=label or (), expires_in_days=days)
    run.say(made, made["key"])


@command(keys)
def revoke(run: Invocation, key_id: Annotated[str, typer.Argument(metavar="KEY", help="The key's id, k_…")]) -> None:
    """Revoke an API key."""
    run.say(run.client.revoke_key(key_id), f"{key_id} is revoked.")


@command(people, "list")
def list_people(run: Invocation) -> None:
    """List accounts."""
    found = run.client.people()
    rows = [
        each | {"sees": _limits(each), "factor": "app code" if each["secondFactor"] else "none"}
        for each in found["people"]
    ]
    columns = {
        "person": "id", "name": "name", "role": "role", "sees": "sees", "second factor": "factor",
        "last login": "lastLoginAt",
    }  # fmt: skip
    run.output(found, lambda: tables.table(columns, rows, empty="Nobody has an account yet."))


@command(people)
def add(
    run: Invocation,
    name: Annotated[str, typer.Argument(help="The name that they log in with.")],
    *,
    role: Annotated[str, typer.Option("--role", help="viewer, operator or administrator.")] = "viewer",
    label: Labels = None,
) -> None:
    """Add a person and print the link with which they set a password; valid once, for a day."""
    made = run.client.add_person(name, role, labels=label or ())
    run.say(made, made["link"])


PersonId = Annotated[str, typer.Argument(metavar="PERSON", help="The account's id, a_…")]


@command(people)
def link(run: Invocation, person_id: PersonId) -> None:
    """Print a link with which a person sets a new password."""
    made = run.client.person_link(person_id)
    run.say(made, made["link"])


@command(people)
def change(
    run: Invocation,
    person_id: PersonId,
    *,
    role: Annotated[str | None, typer.Option("--role", help="viewer, operator or administrator.")] = None,
    label: Labels = None,
) -> None:
    """Change what a person may do or see."""
    given = {"role": role, "labels": None if label is None else [each for each in label if each]}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise nothing_to_change("--role", "--label")
    changed = run.client.change_person(person_id, **changes)
    run.say(changed, f"{changed['name']} is {changed['role']}, sees {_limits(changed)}.")


@command(people, "remove-second-factor")
def remove_second_factor(run: Invocation, person_id: PersonId, *, yes: Yes = False) -> None:
    """Let a person who lost the second factor log in with the password alone."""
    confirm(f"Remove the second factor of {person_id}?", yes=yes)
    changed = run.client.remove_second_factor(person_id)
    run.say(changed, f"{changed['name']} logs in with the password alone.")


@command(logins, "list")
def list_logins(run: Invocation) -> None:
    """List who is logged in to the dashboard."""
    found = run.client.logins()
    columns = {
        "login": "id",
        "name": "name",
        "role": "role",
        "address": "address",
        "browser": "browser",
        "since": "since",
    }
    run.output(found, lambda: tables.table(columns, found["logins"], empty="Nobody is logged in."))


@command(logins)
def end(run: Invocation, login_id: Annotated[str, typer.Argument(metavar="LOGIN", help="From `logins list`.")]) -> None:
    """End a login."""
    result = run.client.end_login(login_id)
    run.say(result, f"{login_id} is ended." if result["ended"] else f"{login_id} had ended.")


@command(people)
def delete(run: Invocation, person_id: PersonId, *, yes: Yes = False) -> None:
    """Delete an account; its person is logged out at once."""
    confirm(f"Delete the account {person_id}?", yes=yes)
    run.say(run.client.delete_person(person_id), f"{person_id} was deleted.")


@command(audit, "list")
def list_audit(run: Invocation, limit: Annotated[int, typer.Option("--limit", min=1, max=500)] = 50) -> None:
    """List the newest entries."""
    found = run.client.audit(limit=limit)
    rows = [each | {"who": each["name"] or each["by"], "details": _details(each)} for each in found["entries"]]
    columns = {"when": "at", "who": "who", "did": "action", "to": "target", "details": "details"}
    run.output(found, lambda: tables.table(columns, rows, empty="The audit log is empty."))


def _details(entry: dict[str, Any]) -> str:
    """Return the details of an entry as text: none is nothing."""
    text = entry["details"] if isinstance(entry["details"], str) else json.dumps(entry["details"], ensure_ascii=False)
    return "" if text == "{}" else text


@command(audit)
def export(run: Invocation) -> None:
    """Print the whole log as JSON lines, the oldest first."""
    print_stream(run, "/api/v1/audit/export")


@command(audit)
def verify(
    run: Invocation,
    file: Annotated[Path | None, typer.Option("--file", help="An export, or the file of a stopped server.")] = None,
) -> None:
    """Check every line of the log. Exit code 1 when one was changed, taken out or cut off."""
    found = run.client.audit_verification() if file is None else _verified(file)
    last = f" The last hash is {found['hash']}." if found["hash"] else ""
    good = f"The audit log is intact: {found['entries']} entries.{last}"
    bad = f"The audit log is damaged after {found['entries']} entries: {found['damage']}."
    run.say(found, good if found["intact"] else bad)
    if not found["intact"]:
        raise typer.Exit(EXIT_FAILED)


def _verified(file: Path) -> dict[str, Any]:
    from wa_orchestrator import audit_log
    from wa_orchestrator.domain.access import audit_chain

    if not file.is_file():
        raise Refused("BAD_FILE", f"{file}: there is no such file.")
    match audit_chain.verify(audit_log.lines(file)):
        case audit_chain.Intact(last):
            return {"intact": True, "entries": last.number, "damage": None, "hash": last.hash}
        case audit_chain.BrokenChain(line, damage):
            return {"intact": False, "entries": line - 1, "damage": str(damage), "hash": None}
