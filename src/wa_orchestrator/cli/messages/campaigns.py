"""`wa-orchestrator campaign …`: one text to many recipients who agreed to it."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.arguments import Yes
from wa_orchestrator.cli.terminal.command import Invocation, all_pages, command, confirm, group
from wa_orchestrator.errors import Refused

app = group("Campaigns: one text to many recipients who agreed to it.")
CampaignId = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="The campaign's id, c_…")]
COLUMNS = {
    "campaign": "id", "name": "name", "state": "state", "recipients": "recipients", "still to come": "waiting",
    "sent": "written", "answered": "answered", "opted out": "optedOutSince", "created": "createdAt",
}  # fmt: skip
FACTS = {
    "campaign": "id", "name": "name", "state": "state", "paused because": "pausedBecause", "recipients": "recipients",
    "still to come": "waiting", "in the queues": "queued", "sent": "sent", "delivered": "delivered", "read": "read",
    "not confirmed": "unknown", "not sent": "failed", "cancelled": "cancelled", "expired": "expired",
    "opted out before their turn": "optedOut", "answered": "answered", "opted out since": "optedOutSince",
    "left out: twice in the file": "doubles", "left out: opted out": "optedOutBefore", "sending phones": "senders",
    "left out: linked lately": "coldSenders", "never wrote": "neverWrote", "warnings": "warnings",
    "the last one leaves": "endsAt", "by day": "days", "text": "text", "no fields, write {{…}}": "unfilled",
    "where they agreed": "consent",
}  # fmt: skip
RECIPIENTS = {
    "row": "row", "to": "to", "status": "status", "at": "at", "session": "sessionId", "message": "messageId",
    "answered": "answered", "opted out": "optedOutSince",
}  # fmt: skip
#: A file as Windows programs write it in Israel, where it is not UTF-8.
_OTHER_ENCODING = "cp1255"


def _row(campaign: dict[str, Any]) -> dict[str, Any]:
    counts = campaign["counts"]
    written = sum(counts[name] for name in ("sent", "delivered", "read", "unknown"))
    return {**campaign, **counts, "written": written}


def _facts(campaign: dict[str, Any]) -> dict[str, Any]:
    days = ", ".join(f"{each['date']}: {each['messages']}" for each in campaign["days"])
    unfilled = ", ".join(f"{{{name}}}" for name in campaign["singleBraced"])
    warnings = ", ".join(f"{each['code']} ({each['count']})" for each in campaign["warnings"])
    shown = campaign | campaign["counts"] | {"days": days, "unfilled": unfilled, "warnings": warnings}
    return {name: value or None for name, value in shown.items()}


def _show(run: Invocation, campaign: dict[str, Any]) -> None:
    run.output(campaign, lambda: tables.fields(FACTS, _facts(campaign)))


@command(app, "list")
def listed(run: Invocation) -> None:
    """List campaigns, the newest first."""
    found = run.client.campaigns()
    empty = "There are no campaigns. Make one: wa-orchestrator campaign create people.csv --name … --text … --consent …"
    run.output(found, lambda: tables.table(COLUMNS, [_row(each) for each in found["campaigns"]], empty=empty))


@command(app)
def create(
    run: Invocation,
    file: Annotated[Path, typer.Argument(help="CSV with a column `phone`; `-` reads stdin.")],
    *,
    name: Annotated[str, typer.Option(help="Display name.")],
    text: Annotated[str, typer.Option(help="{{name}} stands for the column `name`. It must say how to stop.")],
    consent: Annotated[str, typer.Option(help="Where the recipients agreed to hear from this account.")],
    session: Annotated[list[str] | None, typer.Option(help="A session that sends it; repeatable.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Sessions with this label or tag send it; repeatable.")] = None,
    with_cold: Annotated[bool, typer.Option("--with-cold", help="Accounts that were linked lately send too.")] = False,
    skip_bad_lines: Annotated[bool, typer.Option("--skip-bad-lines", help="Skip lines with errors.")] = False,
) -> None:
    """Make a draft. It says when it would end; nobody is written to before `campaign start`."""
    made = run.client.create_campaign(
        name=name,
        text=text,
        csv=read_file(file),
        consent=consent,
        sessions=session or [],
        tags=tag or [],
        with_cold=with_cold,
        skip_bad_lines=skip_bad_lines,
    )
    _show(run, made)


def read_file(file: Path) -> str:
    """Return the text of a file that a spreadsheet may have written; `-` is stdin."""
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise Refused("BAD_FILE", f"{file}: cannot be read: {error.strerror}.") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode(_OTHER_ENCODING)
    except UnicodeDecodeError:
        raise Refused("BAD_FILE", f"{file}: is neither UTF-8 nor Windows-1255.") from None


@command(app)
def show(run: Invocation, campaign_id: CampaignId) -> None:
    """Show a campaign: where its recipients are, and when it ends."""
    _show(run, run.client.campaign(campaign_id))


@command(app)
def recipients(
    run: Invocation,
    campaign_id: CampaignId,
    *,
    status: Annotated[str | None, typer.Option(help="waiting, sent, read, failed, answered, opted_out_since …")] = None,
) -> None:
    """List the recipients: who got it, who answered, who opted out."""
    fetch = partial(run.client.campaign_recipients, campaign_id, status=status, limit=500)
    whole = all_pages(fetch, "recipients")
    run.output(whole, lambda: tables.table(RECIPIENTS, whole["recipients"], empty="Nobody."))


@command(app)
def start(run: Invocation, campaign_id: CampaignId, *, yes: Yes = False) -> None:
    """Start a draft. The audit log keeps who did it, and where the recipients agreed."""
    campaign = run.client.campaign(campaign_id)
    ends = tables.when(campaign["endsAt"]) if campaign["endsAt"] else "not known"
    people = f"{campaign['counts']['waiting']} people from {campaign['senders']} phones"
    confirm(f"Write to {people}? The last message leaves: {ends}.", yes=yes)
    _show(run, run.client.campaign_act(campaign_id, "start"))


@command(app)
def pause(run: Invocation, campaign_id: CampaignId) -> None:
    """Pause a campaign: messages that wait in the queues are taken back."""
    _show(run, run.client.campaign_act(campaign_id, "pause"))


@command(app)
def resume(run: Invocation, campaign_id: CampaignId) -> None:
    """Resume a paused campaign; nobody is written to twice."""
    _show(run, run.client.campaign_act(campaign_id, "resume"))


@command(app)
def cancel(run: Invocation, campaign_id: CampaignId, *, yes: Yes = False) -> None:
    """Cancel a campaign: the remaining recipients are not written to."""
    waiting = run.client.campaign(campaign_id)["counts"]["waiting"]
    confirm(f"Cancel the {waiting} that are still to come?", yes=yes)
    _show(run, run.client.campaign_act(campaign_id, "cancel"))
