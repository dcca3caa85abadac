"""Prints the report of `doctor`: tables for people, or JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wa_orchestrator.cli.doctor import Effective, Finding, Mark

_COLOURS = {Mark.OK: "green", Mark.WARNING: "yellow", Mark.PROBLEM: "red"}


def print_report(effective: Sequence[Effective], findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print the settings and the findings."""
    if as_json:
        report = {"settings": [asdict(each) for each in effective], "findings": [asdict(each) for each in findings]}
        print(json.dumps(report, ensure_ascii=False))
        return
    console = Console(markup=False)  # an IPv6 address in square brackets is not markup
    settings = _table("Settings in effect", "setting", "value", "from")
    for each in effective:
        settings.add_row(Text(each.name), Text(each.value), Text(each.origin))
    machine = _table("This machine", "", "part", "")
    for finding in findings:
        machine.add_row(Text(finding.mark, _COLOURS[finding.mark]), Text(finding.name), Text(finding.text))
    console.print(settings, machine)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")  # paths must not be truncated
    return table
