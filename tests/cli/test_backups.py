"""`backup`, `backups` and `restore` against a running server: by a script, and by a person at a terminal."""

import re
from pathlib import Path

import pytest

from tests.backups import archives
from tests.cli.conftest import Run, Running
from tests.cli.terminal import at_a_terminal
from wa_orchestrator.cli.operations import backups
from wa_orchestrator.errors import Refused
from wa_orchestrator.store import keys

IDS = ("bk1", "bk2", "bk3")


def with_credentials(server: Running) -> None:
    """Sessions with credentials, for which no worker runs."""
    for number, session_id in enumerate(IDS):
        server.linked(session_id, f"97250777000{number}")
        path = server.data_dir / "sessions" / session_id / "auth.db"
        if not path.exists():
            archives.auth_db(path, session_id)


def test_a_backup_is_made_listed_and_restored_by_a_script(wa: Run, server: Running) -> None:
    with_credentials(server)
    made = wa("backup")
    assert (made.code, made.err) == (0, "")
    assert re.fullmatch(r"backup_\S+ was made and verified: \d+ sessions?\.\n", made.out)
    (newest, *_) = wa("backups", "--json").json["backups"]
    assert set(newest["sessions"]) >= set(IDS)
    listed = wa("backups").out
    assert newest["id"] in listed
    assert newest["leftOut"] == []
    assert re.search("no +$", listed, re.MULTILINE)  # not encrypted; of copies nothing is said, where none are set up

    unasked = wa("restore", newest["id"])
    assert unasked.code == 2
    assert "--yes" in unasked.err
    credentials = server.data_dir / "sessions" / "bk2" / "auth.db"
    credentials.unlink()
    restored = wa("restore", newest["id"], "--session", "bk2", "--yes")
    assert restored.code == 0, restored.err
    assert "= 1 restart with the link of the backup" in restored.err
    assert restored.out.splitlines() == [
        f"{newest['id']} is restored: 1 session came back.",
        "bk2: RESTORED. It came back with the link of the backup.",
    ]
    assert credentials.is_file()


def test_at_a_terminal_a_bar_counts_sessions_and_a_restore_asks_first(server: Running) -> None:
    with_credentials(server)
    code, shown = at_a_terminal(server.data_dir, "backup")
    assert code == 0, shown
    assert "━" in shown  # the bar
    backup_id = re.findall(r"(backup_\S+) was made and verified: \d+ sessions?\.", shown)[-1]
    code, shown = at_a_terminal(server.data_dir, "restore", backup_id, "--session", "bk1", typed="n\n")
    assert code != 0
    assert f"Restore 1 session from {backup_id}?" in shown
    code, shown = at_a_terminal(server.data_dir, "restore", backup_id, "--session", "bk1", typed="y\n")
    assert code == 0, shown
    assert "━" in shown
    assert f"{backup_id} is restored: 1 session came back." in shown


def test_the_end_of_a_restore_tells_what_became_of_messages() -> None:
    assert backups._told({"messages": {}}) == ""
    said = backups._told({"messages": {"sent": 4, "unknown": 3, "waiting": 2}})
    assert said.startswith(" 2 messages wait and are sent. 3 may have been sent before")


def test_a_restore_in_part_names_each_session_that_did_not_come_back_and_is_a_failure(wa: Run, server: Running) -> None:
    with_credentials(server)
    server.linked("bk4", "972507770009")
    archives.auth_db(server.data_dir / "sessions" / "bk4" / "auth.db", "bk4")
    assert wa("backup").code == 0
    (newest, *_) = wa("backups", "--json").json["backups"]
    server.redis.delete(keys.session("bk4"), keys.sessions_of_phone("972507770009"))
    server.redis.srem(keys.SESSIONS_ALL, "bk4")
    for number in range(4):
        server.linked(f"sibling{number}", "972507770009")
    told = wa("restore", newest["id"], "--session", "bk4", "--session", "bk3", "--yes")
    assert told.code == 1, told.out
    assert "− 1 do not come back: their phones have as many sessions as they may" in told.err
    said, line, other = told.out.splitlines()
    assert said == f"{newest['id']} is restored in part: 1 of 2 sessions came back as they were."
    assert line.startswith("bk4: PHONE_FULL. It did not come back")
    assert other.startswith("bk3: RESTORED.")
    ended = wa("backups", "--json").json["latest"][0]
    assert not ended["complete"]
    assert {each["sessionId"]: each["outcome"] for each in ended["outcomes"]} == {
        "bk4": "PHONE_FULL",
        "bk3": "RESTORED",
    }


NOBODY: dict[str, list[str]] = {
    each: [] for each in ("returns", "goesBack", "older", "noRoom", "phoneFull", "kept", "untouched")
}


def test_before_a_restore_it_is_said_whether_more_than_sessions_comes_back() -> None:
    some = {"whole": False, "changes": NOBODY | {"goesBack": ["bk1"], "untouched": ["bk2", "bk3"]}}
    assert backups._described(some)[-1] == "Queued messages, limits, opt-outs, keys and webhooks stay as they are now."
    assert backups._question("backup_1", some) == "Restore 1 session from backup_1?"
    everything = {"whole": True, "changes": NOBODY}
    assert backups._described(everything)[-1].startswith("This server is empty: queues, limits, opt-outs, keys")
    assert backups._question("backup_1", everything) == "Restore everything from backup_1, with 0 sessions?"


def test_a_restore_that_would_change_nothing_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(Refused, match="No session would be restored from backup_1"):
        backups._question("backup_1", {"whole": False, "changes": NOBODY | {"kept": ["bk1"]}})


def test_a_restore_that_did_not_happen_says_why_and_speaks_of_no_backup() -> None:
    said = backups._restored("backup_1", {"error": "NOT_EMPTY", "text": None})
    assert said.startswith("NOT_EMPTY: A session or a message came here after the check. Nothing was restored.")
    assert "backup" not in said


def test_a_backup_that_fails_speaks_of_older_ones_only_where_there_are_some() -> None:
    ended = {"error": "DISK_FULL", "text": "The disk is full."}
    assert backups._made(ended, "", older=[{}]).endswith("Nothing was written; older backups are intact.")
    assert backups._made(ended, "", older=[]).endswith("Nothing was written; there is no older backup.")


def test_a_damaged_backup_is_refused_in_one_line(wa: Run, server: Running, tmp_path: Path) -> None:
    path = archives.sound(server.data_dir / "backups" / "backup_2020-01-01.zip", tmp_path / "made")
    path.write_bytes(path.read_bytes()[:-200])
    said = wa("restore", "backup_2020-01-01", "--yes")
    assert said.code == 1
    (line,) = said.err.splitlines()
    assert "Nothing was changed" in line
    path.unlink()


def test_a_backup_without_the_credentials_of_a_linked_session_says_so(wa: Run, server: Running) -> None:
    server.linked("bk9", "972507770019")
    made = wa("backup")
    assert made.code == 0
    named = re.fullmatch(r"Not in it: (.*)\. Their credentials are missing or cannot be read\.\n", made.err)
    assert named, made
    assert "bk9" in named[1].split(", ")
    assert not {*IDS} & {*named[1].split(", ")}
    server.redis.delete(keys.session("bk9"), keys.sessions_of_phone("972507770019"))
    server.redis.srem(keys.SESSIONS_ALL, "bk9")


def test_jobs_are_listed_and_one_is_run(wa: Run) -> None:
    listed = wa("jobs", "--json").json["jobs"]
    assert {"backup", "archive", "proxy_checks", "summary", "trash", "version"} == {each["name"] for each in listed}
    told = wa("jobs").out
    assert "daily at 03:00" in told
    assert "No session has logged in yet." in told or "Newest WhatsApp version that worked" in told
    assert re.search(r"^proxy_checks .* \d{4}-\d\d-\d\d \d\d:\d\d:\d\d +ok", told, re.MULTILINE), told  # when it ran
    assert "trash starts now" in wa("jobs", "run", "trash").out
    assert wa("jobs", "run", "nothing").code == 1
