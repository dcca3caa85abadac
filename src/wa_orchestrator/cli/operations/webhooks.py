"""`wa-orchestrator webhooks …`: delivery of events to other systems."""

from typing import Annotated

import typer

from wa_orchestrator.cli.operations.access import Labels, Yes
from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import Invocation, command, confirm, group, nothing_to_change

app = group("Webhooks of a running server: list, add, rotate their secrets, delete.")
WebhookId = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The webhook's id, wh_…")]


@command(app, "list")
def list_webhooks(run: Invocation) -> None:
    """List webhooks, without their secrets."""
    found = run.client.webhooks()
    rows = [
        each
        | {
            "types": " ".join(each["events"]),
            "sees": ", ".join([*each["sessions"], *each["labels"]]) or "everything",
            "state": "enabled" if each["enabled"] else "disabled",
        }
        for each in found["webhooks"]
    ]
    columns = {
        "webhook": "id", "url": "url", "events": "types", "sees": "sees", "state": "state",
        "old secret until": "previousSecretUntil",
    }  # fmt: skip
    run.output(found, lambda: tables.table(columns, rows, empty="There are no webhooks."))


@command(app)
def add(
    run: Invocation,
    address: Annotated[str, typer.Argument(metavar="URL", help="An https:// URL.")],
    *,
    event: Annotated[list[str] | None, typer.Option("--event", help="A type, or message.*; may be repeated.")] = None,
    label: Labels = None,
    session: Annotated[list[str] | None, typer.Option("--session", help="Only this session; may be repeated.")] = None,
) -> None:
    """Add a webhook and print its secret; it is shown once."""
    made = run.client.add_webhook(address, event or ("*",), sessions=session or (), labels=label or ())
    run.say(made, made["secret"])


@command(app)
def change(
    run: Invocation,
    webhook_id: WebhookId,
    *,
    address: Annotated[str | None, typer.Option("--address", help="Another https:// URL.")] = None,
    event: Annotated[list[str] | None, typer.Option("--event", help="All of its types; may be repeated.")] = None,
    label: Labels = None,
    session: Annotated[list[str] | None, typer.Option("--session", help="Only these sessions; '' means all.")] = None,
) -> None:
    """Change the address, the events or the sessions of a webhook; its secret stays."""
    given = {"url": address, "events": event, "labels": label, "sessions": session}
    changes = {
        name: [each for each in value if each] if isinstance(value, list) else value
        for name, value in given.items()
        if value is not None
    }
    if not changes:
        raise nothing_to_change("--address", "--event", "--label", "--session")
    changed = run.client.change_webhook(webhook_id, **changes)
    run.say(changed, f"{webhook_id} was changed: {changed['url']}")


@command(app, "rotate-secret")
def rotate_secret(
    run: Invocation,
    webhook_id: WebhookId,
    *,
    keep_days: Annotated[
        int, typer.Option("--keep-days", min=0, max=30, help="Days for which the old secret signs too; 0: none.")
    ] = 7,
) -> None:
    """Print a new secret for a webhook. Deliveries are signed with both for a week."""
    made = run.client.rotate_webhook_secret(webhook_id, keep_days=keep_days)
    run.say(made, made["secret"])


@command(app)
def delete(run: Invocation, webhook_id: WebhookId, *, yes: Yes = False) -> None:
    """Delete a webhook and what waits for it."""
    confirm(f"Delete the webhook {webhook_id}?", yes=yes)
    run.say(run.client.delete_webhook(webhook_id), f"{webhook_id} was deleted.")


@command(app)
def enable(run: Invocation, webhook_id: WebhookId) -> None:
    """Enable a webhook that was disabled after failing for long."""
    run.say(run.client.enable_webhook(webhook_id), f"{webhook_id} is enabled.")


@command(app)
def deliveries(
    run: Invocation, webhook_id: WebhookId, *, limit: Annotated[int, typer.Option(min=1, max=500)] = 50
) -> None:
    """List a webhook's latest deliveries and their results."""
    found = run.client.deliveries(webhook_id, limit=limit)
    columns = {
        "number": "number", "event": "type", "status": "status", "attempts": "attempts", "note": "note",
        "queued": "queuedAt", "tried": "triedAt", "next": "nextAt",
    }  # fmt: skip
    run.output(found, lambda: tables.table(columns, found["deliveries"], empty="Nothing was delivered yet."))


@command(app)
def replay(
    run: Invocation,
    webhook_id: WebhookId,
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="From `webhooks deliveries`.")],
) -> None:
    """Deliver an event once more."""
    run.say(run.client.replay_delivery(webhook_id, number), f"{number} is delivered again.")
