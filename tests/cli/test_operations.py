"""Commands that watch over the fleet: how it goes, what is held, what waits, who is not written to."""

import asyncio
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from tests.cli.conftest import Run, Running
from tests.cli.test_commands import refused
from wa_orchestrator.cli.fleet.events import words_of
from wa_orchestrator.cli.fleet.fleet_status import needs_a_person
from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.store.engine import embedded_redis
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages.contacts import Incoming, receive

SESSION, PHONE, TO = "held", "972501119999", "972521110000"


@pytest.fixture(autouse=True)
def _linked(server: Running) -> None:
    server.linked(SESSION, PHONE)


def test_status_says_in_one_screen_what_runs_and_what_needs_a_person(wa: Run) -> None:
    said = wa("status", "--json")
    found = said.json
    needs_person = bool(needs_a_person(found))
    assert said.code == (1 if needs_person else 0)
    shown = wa("status")
    states = {name: count for name, count in found["stats"]["sessions"].items() if count and name != "total"}
    assert states
    assert all(f"{count} {name}" in shown.out for name, count in states.items())
    for alert in found["stats"]["alerts"]:
        assert alert["what"].split()[0] in shown.out


def test_a_part_of_the_server_that_does_not_work_needs_a_person_and_is_named() -> None:
    degraded = {"ready": {"status": "degraded", "leader": True, "dispatcher": False}, "stats": {"alerts": []}}
    (row,) = needs_a_person(degraded)
    assert row["what"] == "No dispatcher works: messages are accepted, and wait."
    assert needs_a_person(degraded | {"ready": {"status": "ready", "leader": True, "dispatcher": True}}) == []


def test_watch_shows_every_session_as_often_as_it_looks(wa: Run) -> None:
    said = wa("watch", "--count", "2", "--interval", "0.5")
    assert said.code == 0
    assert sum(line.startswith(SESSION) for line in said.out.splitlines()) == 2


def test_logs_print_what_happened_to_one_session(wa: Run, server: Running) -> None:
    server.linked("other", "972501118888")
    for session in (SESSION, "other"):
        assert wa("holds", "place", "--session", session, "--why", f"test of {session}").code == 0
    lines = wa("logs", SESSION).out.splitlines()
    assert lines
    assert all(SESSION in line and "other" not in line for line in lines)
    assert any("other" in line for line in wa("logs").out.splitlines())
    assert wa("logs", "--since", "+1m").out == ""
    refused(wa("logs", "--since", "yesterday"), 2, "--since: is not a time.")


def test_a_line_of_the_log_says_what_an_event_is_about() -> None:
    progress = {"kind": "backup", "backup": "backup_1", "phase": "sessions", "done": 2, "total": 3}
    assert words_of(progress) == ["backup_1", "sessions", "2 of 3"]
    assert words_of({"sessionId": "north", "backup": "backup_1", "outcome": "NO_ROOM"}) == [
        "north",
        "backup_1",
        "NO_ROOM",
    ]
    assert words_of({"campaign": "c_1", "state": "paused", "reason": "OPT_OUTS"}) == ["c_1", "paused", "OPT_OUTS"]
    assert words_of({"sessionId": "north", "contact": {"phone": "972521110000"}}) == ["north", "972521110000"]


def test_a_hold_is_placed_listed_and_lifted(wa: Run) -> None:
    made = wa("holds", "place", "--session", SESSION, "--until", "+2h", "--why", "a test", "--json").json
    assert made["id"] in [each["id"] for each in wa("holds", "--json").json["holds"]]
    shown = wa("holds").out
    assert "a test" in shown
    assert tables.when(made["until"]) in shown, "as other times are shown"
    assert wa("holds", "lift", made["id"]).out.startswith(f"{made['id']} is no longer on hold.")
    assert made["id"] not in [each["id"] for each in wa("holds", "--json").json["holds"]]
    refused(wa("holds", "place"), 2, "Pass exactly one of")
    refused(wa("holds", "place", "--all", "--session", SESSION), 2, "Pass exactly one of")


def test_a_session_gets_limits_of_its_own_and_loses_them_again(wa: Run) -> None:
    assert "a day" in wa("limits").out
    changed = wa("limits", "set", SESSION, "--per-day", "7", "--json").json
    assert (changed["own"]["perDay"], changed["limits"]["perDay"]) == (7, 7)
    assert "its own" in wa("limits", "show", SESSION).out
    assert wa("limits", "reset", SESSION, "--json").json["own"] == {}
    refused(wa("limits", "set", SESSION), 2, "Nothing to change. Pass --per-day, --per-minute")
    assert wa("limits", "set", SESSION, "--per-day", "100000").code == 1


def test_a_tag_gets_limits_and_loses_them_again(wa: Run) -> None:
    assert wa("sessions", "change", SESSION, "--tag", "vip").code == 0
    changed = wa("limits", "set-tag", "vip", "--per-day", "7", "--json").json
    assert (changed["sessions"], changed["inForce"]["cold"]["perDay"]) == (1, 7)
    assert "tag:vip" in wa("limits", "show", SESSION).out
    assert "vip" in wa("limits", "tags").out
    refused(wa("limits", "set-tag", "vip"), 2, "Nothing to change. Pass --per-day, --per-minute")
    assert wa("limits", "set-tag", "vip", "--per-day", "100000").code == 1
    assert "Changed sessions: 1." in wa("limits", "reset-tag", "vip").out
    assert wa("limits", "tags").out.strip() == "No tag has limits."
    assert wa("sessions", "change", SESSION, "--tag", "").code == 0


def test_profiles_are_listed_added_and_removed(wa: Run) -> None:
    assert "Ubuntu" in wa("inventory").out
    assert "Windows/Edge/120.0" in wa("inventory", "add-profile", "windows/edge/120.0").out
    names = [each["name"] for each in wa("inventory", "--json").json["profiles"]]
    assert names == ["Ubuntu", "Windows/Edge/120.0"]
    assert wa("inventory", "add-profile", "Acme/Chrome").code == 1
    assert wa("inventory", "remove-profile", "Windows/Edge/120.0").code == 0
    assert wa("inventory", "remove-profile", "Ubuntu").code == 1  # it comes from the settings


def test_what_waits_is_listed_and_cancelled_by_what_it_has_in_common(wa: Run) -> None:
    assert wa("holds", "place", "--session", SESSION).code == 0
    for number in range(3):
        sent = wa("send", TO, f"text {number}", "--session", SESSION, "--reference", "spring")
        assert sent.code == 0, sent
    assert wa("queue", "list", "--reference", "spring", "--json").json["total"] == 3
    assert wa("queue", "list", "--reference", "spring").out.count("spring") == 3
    refused(wa("queue", "cancel", "--reference", "spring"), 2, "Cancel 3 messages? stdin is not a terminal")
    assert wa("queue", "cancel", "--reference", "spring", "--yes").out.startswith("3 were cancelled.")
    assert wa("queue", "list", "--reference", "spring").out.strip() == "Nothing waits."
    refused(wa("queue", "cancel", "--yes"), 2, "Nothing to cancel")


def test_somebody_who_opted_out_is_listed_and_comes_back_only_when_asked(wa: Run) -> None:
    assert "opted out" in wa("opt-outs", "add", f"+{TO}").out
    assert TO in wa("opt-outs").out
    refused(wa("opt-outs", "delete", TO), 2, f"Has {TO} asked to be written to again?")
    assert wa("opt-outs", "delete", TO, "--yes").out.startswith(f"{TO} may be written to again.")
    assert TO not in wa("opt-outs").out


def test_what_is_stored_about_a_person_is_saved_once_and_erased(wa: Run, tmp_path: Path) -> None:
    file = tmp_path / "person.jsonl"
    assert wa("contacts", "export", TO, "--output", str(file)).code == 0
    assert file.exists()
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".person")] == []
    refused(wa("contacts", "export", TO, "--output", str(file)), 2, f"{file} exists already.")
    assert wa("contacts", "erase", TO, "--yes").out.startswith(f"{TO} was erased.")


def test_what_cannot_be_fetched_leaves_no_file(wa: Run, tmp_path: Path) -> None:
    file = tmp_path / "picture.jpg"
    said = wa("messages", "media", "m_000000000000000000", "--output", str(file))
    assert said.code == 1
    assert ": " in said.err
    assert list(tmp_path.glob("*picture*")) == []


def test_people_change_and_their_logins_are_listed(wa: Run) -> None:
    made = wa("people", "add", "Dana", "--json").json
    person = made.get("id") or made["person"]["id"]
    assert "operator" in wa("people", "change", person, "--role", "operator").out
    refused(wa("people", "change", person), 2, "Nothing to change")
    assert wa("logins", "--json").json["logins"] == []


@pytest.mark.parametrize("words", [("enable",), ("deliveries",), ("replay", "1-1")])
def test_a_webhook_that_does_not_exist_is_named(wa: Run, words: tuple[str, ...]) -> None:
    act, *number = words
    refused(wa("webhooks", act, "wh_0000000000", *number), 1, "NO_SUCH_WEBHOOK: ")


async def _receive(server: Running, sender: str, text: str) -> None:
    """Somebody writes to the session."""
    async with Redis.from_url(embedded_redis.url_in(server.data_dir), decode_responses=True) as redis:
        said = Incoming(SESSION, PHONE, "3EB0C1", "text", sender, fields={"text": text})
        await receive(Scripts(redis), said, keep_ms=86_400_000)


def test_a_quick_reply_is_kept_listed_and_deleted(wa: Run) -> None:
    assert wa("quick-replies", "put", "hours", "We are open from 9 to 17.").out.startswith("hours: We are open")
    assert "We are open" in wa("quick-replies").out
    assert wa("quick-replies", "delete", "hours").out.strip() == "There are no quick replies."


def test_a_conversation_is_closed_and_read_by_its_id(wa: Run, server: Running) -> None:
    asyncio.run(_receive(server, "972521234321", "is anybody there?"))
    [found] = wa("conversations", "list", "--session", SESSION, "--json").json["conversations"]
    name = found["conversationId"]
    assert "is anybody there?" in wa("conversations", "show", name).out
    assert wa("conversations", "read", name).out.startswith(f"{name} has 0 unread.")
    assert wa("conversations", "change", name, "--state", "closed").out.startswith(f"{name} is closed.")
    assert "972521234321" in wa("contacts").out
    refused(wa("conversations", "change", "c_unknown"), 2, "Nothing to change")
    assert wa("conversations", "show", "c_unknown").code == 1
    assert wa("conversations", "read", "c_unknown").code == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("stats",), "sent"),
        (("stats", SESSION), "sent"),
        (("radar",), "No unknown parts of the protocol."),
        (("trash",), "The trash is empty."),
        (("contacts",), ""),
        (("conversations", "list", "--search", "nothing like it"), "No matches."),
        (("sessions", "history", SESSION), ""),
    ],
)
def test_a_question_is_answered_in_words_and_in_json(wa: Run, words: tuple[str, ...], says: str) -> None:
    said = wa(*words)
    assert said.code == 0, said
    assert says in said.out
    assert isinstance(wa(*words, "--json").json, dict)


def test_an_alert_that_nobody_would_get_is_not_sent(wa: Run) -> None:
    refused(wa("test-alert"), 1, "NOBODY_GETS_ALERTS: Set TELEGRAM_BOT_TOKEN")


def test_the_server_that_is_asked_is_the_one_that_runs(wa: Run, server: Running) -> None:
    assert httpx.get(f"{server.url}/ready", timeout=30).json() == wa("status", "--json").json["ready"]
