"""Campaigns and files from the command line, against a whole server."""

import json
from pathlib import Path

from tests.cli.conftest import Run, Running

TEXT = "Hello {{name}}. To stop, answer STOP."
CONSENT = "They ticked the box on the order form."


def test_a_campaign_is_made_from_a_windows_file_started_and_cancelled(wa: Run, server: Running, tmp_path: Path) -> None:
    server.linked("sender", "972501111111")
    file = tmp_path / "people.csv"
    file.write_bytes("טלפון;name\n972502222222;דנה\n0502222223;Gil\n".encode("cp1255"))
    said = ("--name", "One", "--text", TEXT, "--consent", CONSENT, "--session", "sender")
    create = ("campaign", "create", str(file), *said)
    refused = wa(*create)
    assert refused.code == 1
    assert "CAMPAIGN_LINES" in refused.err
    made = wa(*create, "--skip-bad-lines", "--json").json
    assert (made["state"], made["recipients"]) == ("draft", 1)
    assert wa("campaign", "start", made["id"]).code != 0  # nobody is asked at a pipe
    assert wa("campaign", "start", made["id"], "--yes", "--json").json["state"] == "sending"
    assert wa("campaign", "cancel", made["id"], "--yes", "--json").json["state"] == "cancelled"
    assert "One" in wa("campaign").out
    assert "972502222222" in wa("campaign", "recipients", made["id"]).out


def test_opt_outs_are_imported_and_exported_and_a_refusal_is_one_line(wa: Run, tmp_path: Path) -> None:
    file, out = tmp_path / "stop.txt", tmp_path / "stop.csv"
    file.write_text("972503333333\nnobody\n", "utf-8")
    imported = wa("opt-outs", "import", str(file))
    assert imported.code == 1
    assert "line 2" in imported.err
    assert wa("export", "opt-outs", "--output", str(out)).code == 0
    assert "972503333333" in out.read_text("utf-8-sig")
    assert json.loads(wa("export", "audit", "--format", "jsonl").out.splitlines()[-1])["action"] == "data.export"
    refused = wa("export", "messages", "--status", "nonsense")
    assert (refused.code, "Traceback" in refused.err) == (1, False)
