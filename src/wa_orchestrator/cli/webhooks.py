"""`wa-orchestrator webhooks …`: who is told of events."""

from typing import Annotated

import typer

from wa_orchestrator.cli import tables
from wa_orchestrator.cli.access import Labels, Yes
from wa_orchestrator.cli.command import Invocation, command, confirm, group

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
    run.output(made, lambda: tables.line(made["secret"]))


@command(app, "rotate-secret")
def rotate_secret(
    run: Invocation,
    webhook_id: WebhookId,
    *,
    keep_days: Annotated[
        int, typer.Option("--keep-days", min=0, max=30, help="The old secret signs, too, for so long; 0: no longer.")
    ] = 7,
) -> None:
    """Print a new secret for a webhook. Deliveries are signed with both for a week."""
    made = run.client.rotate_webhook_secret(webhook_id, keep_days=keep_days)
    run.output(made, lambda: tables.line(made["secret"]))


@command(app)
def delete(run: Invocation, webhook_id: WebhookId, *, yes: Yes = False) -> None:
    """Delete a webhook and what waits for it."""
    confirm(f"Delete the webhook {webhook_id}?", yes=yes)
    result = run.client.delete_webhook(webhook_id)
    run.output(result, lambda: tables.line(f"{webhook_id} was deleted."))
