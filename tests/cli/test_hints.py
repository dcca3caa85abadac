"""The command line says commands and options where the server says routes and fields."""

import re

import pytest

from tests.cli.conftest import Run, Running
from wa_orchestrator.cli.hints import as_typed


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
    ],
)
def test_what_the_server_refuses_is_told_with_a_command_and_no_route(
    wa: Run, arguments: tuple[str, ...], says: str
) -> None:
    said = wa(*arguments)
    assert said.code == 1
    assert says in said.err
    assert re.search(r"\b(GET|POST|PUT|DELETE)\b|/api/", said.err) is None


def test_a_wrong_key_is_told_with_where_to_find_the_right_one(bare: Run, server: Running) -> None:
    said = bare("sessions", "--url", server.url, "--api-key", "wrong-wrong-wrong-wrong")
    assert "--api-key or WA_API_KEY; `wa-orchestrator secrets`" in said.err
    assert "Use another one" not in said.err


@pytest.mark.parametrize(
    ("code", "text", "said"),
    [
        ("PROXY_IN_USE", "2 sessions leave. Delete it with ?drain=true to move them first.",
         "2 sessions leave. `wa-orchestrator proxies remove --drain` moves them first."),
        ("DAILY_LIMIT", 'Wait, or send with "onLimit": "defer".', "Wait, or send with --defer."),
        ("RATE_LIMITED", "Too often. Wait as long as Retry-After says, or send in batches.", "Too often. Try again in 7 s."),
        ("QUEUE_UNAVAILABLE", "Try again with the same Idempotency-Key.", "Try again with the same --idempotency-key."),
        ("IDEMPOTENCY_CONFLICT", "This Idempotency-Key was used.", "This --idempotency-key was used."),
        ("NO_QR", "No code. GET /api/sessions/w_1/status says what it waits for.",
         "No code. `wa-orchestrator sessions show w_1` says what it waits for."),
        ("NOT_IN_TRASH", "It is not there. GET /api/v1/trash lists what is.", "It is not there."),
        ("SOMETHING_NEW", "Whatever the server says.", "Whatever the server says."),
    ],
)  # fmt: skip
def test_fields_and_headers_are_told_as_options(code: str, text: str, said: str) -> None:
    assert as_typed(code, text, {"retryAfterS": 7}) == said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sessions", "list", "--label", "nobody's"), "No matches."),
        (("messages", "list", "--reference", "nobody's"), "No matches."),
        (("proxies",), "There are no proxies. Add one: wa-orchestrator proxies add"),
    ],
)
def test_an_empty_list_says_whether_there_is_nothing_or_nothing_like_that(
    wa: Run, arguments: tuple[str, ...], says: str
) -> None:
    assert wa(*arguments).out.startswith(says)
