"""The command line says commands and options where the server says routes and fields."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

import wa_orchestrator
from tests.cli.conftest import Run, Running
from wa_orchestrator.cli.main import app
from wa_orchestrator.cli.terminal.hints import terminal_message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sessions", "show", "nobody"), "`wa-orchestrator sessions list` lists them"),
        (("sessions", "stop", "nobody"), "`wa-orchestrator sessions list` lists them"),
        (("sessions", "delete", "nobody", "--yes"), "`wa-orchestrator sessions list` lists them"),
        (("send", "972501110099", "x", "--session", "nobody"), "`wa-orchestrator sessions list` lists them"),
        (("proxies", "check", "p_0000000000"), "`wa-orchestrator proxies list` lists them"),
        (("proxies", "remove", "p_0000000000"), "`wa-orchestrator proxies list` lists them"),
        (("messages", "show", "m_000000000000000000"), "`wa-orchestrator messages list` lists the newest"),
        (("sessions", "add"), "`wa-orchestrator proxies add URL` adds one"),
        (("jobs", "run", "nothing"), "`wa-orchestrator jobs list` lists them"),
        (("restore", "nothing", "--yes"), "`wa-orchestrator backups` lists them"),
        (("holds", "lift", "nothing"), "`wa-orchestrator holds list` lists them"),
        (("campaign", "show", "c_0123456789abcdef01"), "`wa-orchestrator campaign list` lists them"),
    ],
)
def test_what_the_server_refuses_is_told_with_a_command_and_no_route(
    wa: Run, arguments: tuple[str, ...], says: str
) -> None:
    said = wa(*arguments)
    assert said.code == 1
    assert says in said.err
    assert re.search(r"\b(GET|POST|PUT|DELETE)\b|/api/", said.err) is None


def test_every_route_that_a_refusal_names_is_a_command_at_the_terminal() -> None:
    source = Path(wa_orchestrator.__file__).parent
    text = "".join(path.read_text() for path in source.rglob("*.py") if "cli" not in path.parts)
    named = set(re.findall(r"GET (/api/[^ `\"]+) (?:lists|shows|says)", text))
    assert len(named) > 15
    for route in named:
        said = terminal_message("X", f"GET {re.sub('{.*?}', 'x-1', route)} lists them.", {})
        command = re.fullmatch(r"`wa-orchestrator ([a-z -]+?)(?: x-1)?` lists them\.", said)
        assert command, said
        found: Any = typer.main.get_command(app)
        for word in command[1].split():
            found = found.commands[word]


def test_a_route_without_a_command_stays() -> None:
    assert terminal_message("X", "See GET /api/v1/nothing.", {}) == "See GET /api/v1/nothing."


def test_a_wrong_key_is_told_with_where_to_find_the_right_one(bare: Run, server: Running) -> None:
    said = bare("sessions", "--url", server.url, "--api-key", "wrong-wrong-wrong-wrong")
    assert "--api-key or WA_API_KEY; `wa-orchestrator secrets`" in said.err
    assert "Use another one" not in said.err


@pytest.mark.parametrize(
    ("code", "details", "shown"),
    [
        ("PROXY_IN_USE", {"sessions": 2},
         "2 sessions use this proxy. `wa-orchestrator proxies remove --drain` moves them first."),
        ("DAILY_LIMIT", {"sessionId": "w_1", "limit": 20},
         "Session w_1 has sent its 20 messages for today. Wait, name another session, or send with --defer."),
        ("RATE_LIMITED", {"retryAfterS": 7}, "This API key calls too often. Retry in 7 s."),
        ("QUEUE_UNAVAILABLE", {"retryAfterS": 2},
         "The queue does not answer. Retry with the same --idempotency-key: the message is then accepted only once."),
        ("IDEMPOTENCY_CONFLICT", {},
         "This --idempotency-key was used with another body. Use a new key for a new message."),
        ("NO_QR", {"sessionId": "w_1", "status": "pending"},
         "Session w_1 has no code now; it is pending. `wa-orchestrator sessions show w_1` shows what it waits for."),
        ("NO_SENDER", {}, "The server's message. `wa-orchestrator sessions add --wait` creates and links one."),
        ("NO_SUCH_MESSAGE", {}, "The server's message."),
        ("NO_SUCH_QUOTE", {},
         "There is no such message to answer. `wa-orchestrator messages list` lists those that were sent; "
         "with an id of WhatsApp's, pass --session too."),
        ("SOMETHING_NEW", {"sessionId": "w_1"}, "The server's message."),
    ],
)  # fmt: skip
def test_an_error_names_commands_and_options_where_there_are_any(
    code: str, details: dict[str, object], shown: str
) -> None:
    assert terminal_message(code, "The server's message.", details) == shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sessions", "list", "--label", "nobody's"), "No matches."),
        (("messages", "list", "--reference", "nobody's"), "No matches."),
        (("proxies",), "There are no proxies. Add one: wa-orchestrator proxies add"),
    ],
)
def test_an_empty_list_distinguishes_no_entries_from_no_matches(wa: Run, arguments: tuple[str, ...], says: str) -> None:
    assert wa(*arguments).out.startswith(says)
