"""Commands against a running server: they find it, work, and print errors in one line."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from tests.cli.conftest import Run, Running, Said
from tests.cli.test_documented_commands import ROOT_COMMAND, all_commands
from wa_orchestrator.cli.terminal import times
from wa_orchestrator.cli.terminal.command import Invocation, error_line
from wa_orchestrator.cli.terminal.target import Options
from wa_orchestrator.client.errors import NoAnswerError
from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.server import address
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys

TO = "972521112233"


def refused(said: Said, code: int, begins: str) -> None:
    """Assert that it ended with this code and one line that begins so."""
    assert said.code == code, said
    (line,) = said.err.splitlines()
    assert line.startswith(begins)
    assert said.out == ""


# -- where the server is ----------------------------------------------------------------------------------------------


def test_beside_a_server_its_directory_is_enough(wa: Run, server: Running) -> None:
    server.linked("beside", "972501110000")
    said = wa("sessions", "--json")
    assert said.code == 0
    assert "beside" in [each["sessionId"] for each in said.json["sessions"]]


def test_options_before_and_after_the_subcommand_mean_the_same(bare: Run, server: Running) -> None:
    where = ("--url", server.url, "--api-key", server.key, "--json")
    assert bare("proxies", *where, "list").json == bare("proxies", "list", *where).json == bare("proxies", *where).json


def test_a_remote_server_is_never_given_this_machines_key(wa: Run) -> None:
    refused(wa("sessions", "--url", "https://elsewhere.example.com"), 2, "The server at https://elsewhere.example.com")


def test_without_a_directory_or_a_key_the_error_names_the_options(bare: Run) -> None:
    refused(bare("sessions"), 2, "There is no key in ")


def test_an_unreachable_server_is_reported_with_its_url(bare: Run) -> None:
    refused(
        bare("sessions", "--url", "http://127.0.0.1:9", "--api-key", "k"), 1, "NO_ANSWER: No server answers at http"
    )


def test_beside_the_demo_its_directory_is_named(bare: Run, tmp_path: Path) -> None:
    assert ".cache/demo" not in bare("sessions").err
    with address.published(Settings(data_dir=tmp_path / ".cache" / "demo")):
        assert "The demo's data directory is .cache/demo." in bare("sessions").err


def test_a_wrong_key_is_refused_and_not_repeated(bare: Run, server: Running) -> None:
    said = bare("sessions", "--url", server.url, "--api-key", "canary-canary-canary")
    assert said.code == 1
    assert "canary" not in said.err + said.out
    assert len(said.err.splitlines()) == 1


# -- proxies and sessions ---------------------------------------------------------------------------------------------


def test_a_proxy_is_added_from_stdin_listed_and_removed_without_its_password(wa: Run) -> None:
    url = "socks5h://user:canary-password@proxy.example.com:1080"
    made = wa("proxies", "add", "-", "--json", typed=url + "\n")
    assert made.code == 0, made
    again = wa("proxies", "add", url)
    refused(again, 1, "PROXY_KNOWN: ")
    listed = wa("proxies")
    assert made.json["id"] in listed.out
    removed = wa("proxies", "remove", made.json["id"])
    assert removed.out == f"{made.json['id']} was removed.\n"
    assert "canary" not in "".join(each.out + each.err for each in (made, again, listed, removed))


def test_an_import_takes_the_good_lines_and_names_the_bad_ones(wa: Run, tmp_path: Path) -> None:
    good = [f"socks5h://user:fake@import-{n}.example.com:1080" for n in range(2)]
    (tmp_path / "list.txt").write_text("\n".join([good[0], "# a comment", "http://x.example.com:80", good[1]]))
    said = wa("proxies", "import", "list.txt")
    assert said.code == 1
    assert said.out == "2 added, 0 already known, 1 refused.\n"
    assert said.err.startswith("line 3: ")
    for proxy in wa("proxies", "--json").json["proxies"]:
        wa("proxies", "remove", proxy["id"])
    refused(wa("proxies", "import", "missing.txt"), 2, "missing.txt: cannot be read")


def test_a_session_without_a_free_slot_is_refused_with_the_servers_error(wa: Run) -> None:
    refused(wa("sessions", "add", "--id", "one"), 1, "NO_PROXY_CAPACITY: ")


def test_a_session_is_shown_and_stopped(wa: Run, server: Running) -> None:
    server.linked("shown", "972501110001")
    assert "972501110001" in wa("sessions", "list", "--status", "connected").out
    assert "connected" in wa("sessions", "show", "shown").out
    assert wa("sessions", "stop", "shown", "--json").json["status"] == "stopped"
    refused(wa("sessions", "show", "nobody"), 1, "NO_SUCH_SESSION: ")
    refused(wa("sessions", "qr", "shown"), 1, "NO_QR: ")
    refused(wa("sessions", "qr", "shown", "--wait"), 1, "shown is stopped: ")


def test_a_session_is_changed_and_saying_nothing_is_refused(wa: Run, server: Running) -> None:
    server.linked("named", "972501110011")
    said = wa("sessions", "change", "named", "--label", "Support", "--tag", "haifa", "--tag", "vip", "--notes", "Dana")
    assert said.code == 0, said
    assert [each["sessionId"] for each in wa("sessions", "list", "--tag", "vip", "--json").json["sessions"]] == [
        "named"
    ]
    cleared = wa("sessions", "change", "named", "--label", "", "--json").json
    assert (cleared["label"], cleared["tags"], cleared["notes"]) == (None, ["haifa", "vip"], "Dana")
    refused(
        wa("sessions", "change", "named"),
        2,
        "Nothing to change. Pass --label, --tag, --notes, --timezone, --presence or --proxy.",
    )
    refused(wa("sessions", "change", "named", "--proxy", "p_0000000000"), 1, "NO_SUCH_PROXY: ")


def test_what_a_worker_started_by_hand_needs_is_printed_and_valid(wa: Run, server: Running) -> None:
    server.linked("by-hand", "972501110009")
    server.redis.hset("session:by-hand", "wanted", "running")  # the server does not stop it meanwhile
    refused(wa("sessions", "worker-env", "nobody"), 2, "There is no session nobody.")
    assert "sessions stop by-hand" in wa("sessions", "worker-env", "by-hand").err
    wa("sessions", "stop", "by-hand")
    said = wa("sessions", "worker-env", "by-hand")
    assert (said.code, said.err) == (0, "")
    environment = dict(line.split("=", 1) for line in said.out.splitlines())
    assert environment["SESSION_ID"] == "by-hand"
    assert environment["WEBHOOK_URL"].endswith("/webhook")
    assert not environment["WEBHOOK_URL"].startswith(server.url), "workers have a port of their own"
    assert {"EPOCH", "WEBHOOK_SECRET", "AUTH_DIR"} <= set(environment)
    claim = httpx.post(
        f"{environment['OUTBOX_URL']}/claim", headers={"Authorization": f"Bearer {environment['WORKER_TOKEN']}"}
    )
    assert claim.status_code == 204
    assert wa("sessions", "worker-env", "by-hand", "--json").json == environment


def test_nothing_is_deleted_without_confirmation(wa: Run, server: Running) -> None:
    server.linked("kept", "972501110002")
    refused(wa("sessions", "delete", "kept"), 2, "Delete kept? ")
    refused(wa("sessions", "logout", "kept"), 2, "Log out kept? ")
    shown = wa("sessions", "show", "kept", "--json").json
    assert (shown["phone"], shown["reason"]) == ("972501110002", None)


def test_the_code_on_the_screen_is_the_code_of_the_session(wa: Run, server: Running) -> None:
    server.linked("scanned", "972501110003")
    server.redis.hset("session:scanned", "status", "qr_ready")
    shown = {"qr": "2@canary,abc,def", "expires_at_ms": 4_000_000_000_000, "at_ms": 1}
    server.redis.set("session:qr:scanned", json.dumps(shown))
    assert wa("sessions", "qr", "scanned", "--json").json["qr"] == "2@canary,abc,def"
    drawn = wa("sessions", "qr", "scanned").out
    assert "█" in drawn
    assert "Scan it in WhatsApp" in drawn


# -- messages ---------------------------------------------------------------------------------------------------------


def test_a_message_is_sent_found_shown_and_cancelled(wa: Run, server: Running) -> None:
    server.linked("sender", "972501110004")
    sent = wa("send", TO, "Good morning.", "--session", "sender", "--at", "+1h", "--reference", "order-7", "--json")
    assert sent.code == 0, sent
    message = sent.json["messageId"]
    for filters in (("--reference", "order-7"), ("--text", "good morning", "--session", "sender")):
        found = wa("messages", "list", *filters, "--json").json["messages"]
        assert [each["messageId"] for each in found] == [message]
    assert wa("messages", "list", "--text", "evening", "--json").json["messages"] == []
    shown = wa("messages", "show", message).out
    assert "Good morning." in shown
    assert "order-7" in shown
    said = wa("reproduce", message)
    assert (said.json["attempts"], said.err) == (
        [], "Not replayed: no attempt to send it is recorded, so WhatsApp did nothing to it.\n"
    )  # fmt: skip
    for line in ("1 sending ", "2 failed UNKNOWN"):
        server.redis.rpush(keys.timeline(message), line)
    told = (
        "Not replayed: the end of attempt 1 (UNKNOWN), because several answers of WhatsApp have this reason, and which "
    )
    assert wa("reproduce", message).err == f"{told}it was is not recorded.\n"
    server.redis.hset(keys.message(message), "answers", "2:WA_487")
    replayed = wa("reproduce", message)
    assert replayed.json["attempts"][0]["faults"] == [{"kind": "ack_error", "code": 487, "times": 1}]
    assert replayed.err == ""
    assert wa("messages", "cancel", message).out == f"{message} is cancelled.\n"
    refused(wa("messages", "retry", message), 1, "NOT_FAILED: ")
    refused(wa("messages", "confirm", message), 1, "NOT_UNKNOWN: ")
    refused(wa("messages", "send-again", message, "--yes"), 1, "NOT_UNKNOWN: ")
    assert wa("messages").code == 0


def test_messages_of_a_file_are_sent_as_a_batch_and_refused_lines_are_named(
    wa: Run, server: Running, tmp_path: Path
) -> None:
    server.linked("batcher", "972501110014")
    file = tmp_path / "messages.jsonl"
    assert wa("holds", "place", "--session", "batcher").code == 0
    poll = {"to": TO, "sessionId": "batcher", "poll": {"question": "When?", "options": ["Today", "Later"]}}
    nobodys = {"to": TO, "sessionId": "nobody", "message": "hello"}
    nameless = {"to": "1", "message": "hello"}
    file.write_text("\n".join(["", *map(json.dumps, (poll, nobodys, nameless)), ""]), "utf-8")
    said = wa("send-batch", str(file))
    assert said.code == 1
    assert re.fullmatch(r"1 of 3 messages are queued as b_\S+?\..*\n", said.out)
    unknown, invalid = said.err.splitlines()
    assert unknown.startswith("line 3: NO_SUCH_SESSION: ")
    assert invalid.startswith("line 4: VALIDATION_FAILED: to: ")
    batch = wa("messages", "list", "--session", "batcher", "--json").json["messages"][0]["batchId"]
    waits = wa("queue", "list", "--batch", batch, "--json").json["messages"]
    assert [each["kind"] for each in waits] == ["poll"]
    file.write_text(json.dumps([poll]), "utf-8")
    assert wa("send-batch", str(file), "--json").json["accepted"] == 1
    for text, begins in (("", "has no messages"), ("hello", "line 1: is not JSON"), ("1", "line 1: is no message")):
        file.write_text(text, "utf-8")
        wrong = wa("send-batch", str(file))
        assert (wrong.code, begins in wrong.err) == (2, True), wrong


def test_a_text_answers_a_message_and_names_somebody(wa: Run, server: Running) -> None:
    server.linked("answers", "972501110015")
    text = f"See you, @{TO}."
    later = ("--session", "answers", "--at", "+1h", "--json")
    first = wa("send", TO, "At eight?", *later).json["messageId"]
    server.redis.hset(keys.message(first), "status", "sent")
    sent = wa("send", TO, text, "--mention", TO, "--reply-to", first, *later)
    assert sent.code == 0, sent
    body = json.loads(str(server.redis.hget(keys.message(sent.json["messageId"]), "body")))
    assert (body["text"], len(body["mentions"])) == (text, 1)
    refused(
        wa("send", TO, "nobody is named", "--mention", TO, "--session", "answers"), 1, "VALIDATION_FAILED: mentions"
    )


def test_waiting_for_a_message_that_is_cancelled_ends_with_an_error(wa: Run, server: Running) -> None:
    server.linked("waited", "972501110005")
    due = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    once = ("send", TO, "later", "--session", "waited", "--at", due, "--idempotency-key", "k-1")
    still = wa(*once, "--wait", "--timeout", "0")
    assert still.code == 1
    assert "is still queued after 0 s" in still.err
    message = wa(*once, "--json").json["messageId"]
    wa("messages", "cancel", message)
    ended = wa(*once, "--wait", "--json")
    assert ended.code == 1
    assert (ended.json["messageId"], ended.json["status"]) == (message, "cancelled")


def test_a_file_is_uploaded_under_its_name_and_sent_with_its_caption(wa: Run, server: Running, tmp_path: Path) -> None:
    server.linked("filer", "972501110006")
    (tmp_path / "חשבונית.pdf").write_bytes(b"%PDF-1.4 invoice")
    sent = wa("send", TO, "Your invoice.", "--media", "חשבונית.pdf", "--session", "filer", "--at", "+1h", "--json")
    assert sent.code == 0, sent
    found = wa("messages", "show", sent.json["messageId"], "--json").json["content"]
    assert (found["kind"], found["media"]["filename"], found["media"]["caption"]) == (
        "document",
        "חשבונית.pdf",
        "Your invoice.",
    )


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        ((TO,), "There is nothing to send"),
        ((TO, "x", "--at", "soon"), "--at: is not a time. Example: "),
        ((TO, "--location", "here"), "--location: must be LAT,LON. Example: "),
        ((TO, "--media", "missing.pdf"), "--media: missing.pdf cannot be read"),
        ((TO, "--media", "a", "--location", "1,2"), "--location: a message has"),
        ((TO, "x", "--url", "nowhere"), "--url: must be the URL of a server. Example: "),
    ],
)
def test_invalid_options_are_refused_before_anything_is_sent(wa: Run, arguments: tuple[str, ...], begins: str) -> None:
    refused(wa("send", *arguments), 2, begins)


def test_all_problems_of_a_message_are_reported_in_one_line(wa: Run) -> None:
    said = wa("send", "12", "x", "--phone", "34")
    refused(said, 1, "VALIDATION_FAILED: ")
    assert "to: " in said.err
    assert "phone: " in said.err


# -- events -----------------------------------------------------------------------------------------------------------


def test_past_events_are_printed_one_per_line_from_a_cursor_on(wa: Run, server: Running) -> None:
    server.linked("talker", "972501110007")
    wa("send", TO, "x", "--session", "talker", "--at", "+1h")
    first, *_ = wa("events", "--no-follow", "--types", "message.*", "--json").out.splitlines()
    assert json.loads(first)["type"].startswith("message.")
    after = wa("events", "--no-follow", "--types", "message.*", "--after", json.loads(first)["id"], "--json")
    assert first not in after.out.splitlines()
    assert "message.queued" in wa("events", "--no-follow").out


@contextmanager
def breaking_stream() -> Iterator[tuple[str, list[str | None]]]:
    """A server whose stream ends after every event; what it was asked to go on from."""
    asked: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Last-Event-ID"))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            event = {
                "id": f"{len(asked)}-0",
                "type": "message.sent",
                "timestamp": "2026-01-01T00:00:00.000Z",
                "data": {},
            }
            self.wfile.write(f"retry: 2000\n\nid: {event['id']}\ndata: {json.dumps(event)}\n\n".encode())

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_address[1]}", asked
        http.shutdown()


def test_a_broken_stream_resumes_after_the_last_event(bare: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt  # as a person ends it

    monkeypatch.setattr("wa_orchestrator.cli.fleet.events.time.sleep", pause)
    with breaking_stream() as (url, asked):
        said = bare("events", "--url", url, "--api-key", "k", "--json", "--after", "0-7")
    assert said.code == 0, said
    assert [json.loads(line)["id"] for line in said.out.splitlines()] == ["1-0", "2-0", "3-0"]
    assert asked == ["0-7", "1-0", "2-0"]


def test_a_stream_is_not_followed_with_a_wrong_key(bare: Run, server: Running) -> None:
    said = bare("events", "--url", server.url, "--api-key", "wrong-wrong-wrong")
    assert said.code == 1
    assert len(said.err.splitlines()) == 1


def test_doctor_finds_the_running_server_and_knows_its_ports(
    wa: Run, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCH_PORT", server.url.rpartition(":")[2])
    report = wa("doctor", "--json").json
    findings = {each["name"]: each for each in report["findings"]}
    assert server.url in findings["server"]["text"]
    assert "is in use by wa-orchestrator" in findings["ports"]["text"]
    assert [each["value"] for each in report["settings"] if each["name"] == "API_KEY"] == ["***"]


def test_a_server_that_is_slow_is_not_said_to_be_away() -> None:
    run = Invocation(Options(url="http://127.0.0.1:9", api_key="k"))
    slow = error_line(NoAnswerError(httpx.ReadTimeout("late")), run)
    assert slow == (
        "NO_ANSWER: The server at http://127.0.0.1:9 did not answer in time. It may have done this: "
        "look before you repeat it."
    )
    assert "No server answers at http://127.0.0.1:9" in error_line(NoAnswerError(httpx.ConnectError("no")), run)


def test_the_help_of_a_command_gives_times_that_it_takes_and_every_status() -> None:
    parameters = [(name, each) for name, found in all_commands(ROOT_COMMAND).items() for each in found.params]
    told = [(name, each, text) for name, each in parameters for text in re.findall(r'"([^"]+)"', each.help or "")]
    examples = [(name, each.name, text) for name, each, text in told if each.metavar == "TIME"]
    assert len(examples) > 5
    for name, option, text in examples:
        assert times.parse(text, f"{name} {option}")
    (status,) = [each for name, each in parameters if name == "messages list" and each.name == "status"]
    assert all(f" {each}" in status.help.replace(",", " ") for each in MessageStatus)


def test_with_json_an_error_is_json_too(wa: Run) -> None:
    said = wa("sessions", "show", "nobody", "--json")
    assert (said.code, said.out) == (1, "")
    assert json.loads(said.err)["error"]["code"] == "NO_SUCH_SESSION"
    said = wa("sessions", "change", "nobody", "--json")
    assert (said.code, json.loads(said.err)["error"]["code"]) == (2, "NOTHING_TO_CHANGE")


def test_the_version_and_the_completion_of_a_shell_are_printed(bare: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bare("--version").out == bare("version").out
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "wa-orchestrator" in bare("--show-completion", "bash").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions", "show"),
        ("export", "nonsense"),
        ("status", "--nonsense"),
        ("keys", "create", "x", "--days", "0"),
        ("x",),
    ],
)
def test_wrong_usage_is_one_object_for_scripts_and_a_frame_for_people(bare: Run, arguments: tuple[str, ...]) -> None:
    said = bare(*arguments, "--json")
    assert (said.code, said.out) == (2, "")
    error = json.loads(said.err)["error"]
    assert error["code"] == "USAGE"
    assert error["message"]
    shown = bare(*arguments)
    assert shown.code == 2
    assert "Usage: " in shown.err
    assert "╭─ Error" in shown.err


def test_lists_and_answers_are_words_and_no_python(wa: Run, server: Running) -> None:
    server.linked("worded", "972501110077")
    assert wa("sessions", "change", "worded", "--tag", "vip", "--tag", "north").code == 0
    shown = wa("sessions", "show", "worded").out + wa("sessions", "list", "--tag", "north").out
    assert shown.count("vip, north") == 2
    assert "[" not in wa("sessions").out + wa("proxies").out
    assert wa("version", "--json").json == {"version": wa("version").out.strip()}
