"""Logs: JSON or lines on a terminal, without planted secrets."""

import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator import logs

KEY = "q" * 42 + "Q="
CANARIES = {
    "proxy password": "canary-proxy-pass",
    "bearer": "canary.bearer-token-123",
    "api key": "wao_canaryapikey0123456789",
    "worker's token": "wwt_s1.3.canary0123456789abcdef",
    "qr": f"2@canaryref0123456789,{KEY},{KEY},{KEY}",
    "phone": "972501234567",
}


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def logging_to(written: io.StringIO) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure("debug", written)
    yield written
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    with logging_to(io.StringIO()) as written:
        yield written


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    monkeypatch.setenv("NO_COLOR", "1")
    with logging_to(Terminal()) as written:
        yield written


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("where", ["stream", "terminal"])
def test_planted_secrets_occur_in_no_line_of_any_logger(where: str, request: pytest.FixtureRequest) -> None:
    stream: io.StringIO = request.getfixturevalue(where)
    proxy = f"socks5h://user:{CANARIES['proxy password']}@proxy.example.com:1080"
    log = structlog.get_logger("ours")
    log.info("worker.started", proxy=proxy, env={"PROXY_URL": proxy, "WORKER_TOKEN": "canary.bearer-token-123"})
    log.info(f"connecting through {proxy} as " + CANARIES["worker's token"])
    log.info("request", headers=[("Authorization", f"Bearer {CANARIES['bearer']}")], api_key=CANARIES["api key"])
    log.info("linking", qr=CANARIES["qr"], seen=f"code {CANARIES['qr']} shown")
    log.info("sent", to=CANARIES["phone"], jid=f"{CANARIES['phone']}:3@s.whatsapp.net", phoneNumber=972501234567)
    log.info(f"receipt from {CANARIES['phone']}@s.whatsapp.net")
    logging.getLogger("library").warning("via %s with key %s", proxy, CANARIES["api key"])
    logging.getLogger("uvicorn.access").warning("x-api-key: %s", "canary.bearer-token-123")
    try:
        raise ValueError(f"bad proxy {proxy}")
    except ValueError:
        log.exception("it.broke")
        logging.getLogger("library").exception("it broke")

    said = re.findall(
        r"worker\.started|connecting|request|linking|sent|receipt|via|x-api-key|it[. ]broke", stream.getvalue()
    )
    assert len(set(said)) == 10, said
    assert where == "terminal" or len(lines(stream)) == 10
    for name, canary in CANARIES.items():
        assert canary not in stream.getvalue(), name
    assert "proxy.example.com:1080" in stream.getvalue(), "what helps to find the fault must stay"


def test_a_phone_is_shown_by_its_last_four_digits(stream: io.StringIO) -> None:
    structlog.get_logger().info("sent", to="+972-50-123-4567", session="worker_1")
    (line,) = lines(stream)
    assert line["to"] == "…4567"
    assert line["session"] == "worker_1"


def test_a_state_transition_is_not_redacted_as_a_phone(stream: io.StringIO) -> None:
    structlog.get_logger().info("session.changed", **{"from": "pending", "to": "qr_ready"}, waited_ms=1234567)
    (line,) = lines(stream)
    assert (line["from"], line["to"], line["waited_ms"]) == ("pending", "qr_ready", 1234567)


def test_the_text_of_a_message_is_not_logged(stream: io.StringIO) -> None:
    structlog.get_logger().info("message.accepted", message={"id": "m1", "text": "canary text", "caption": "canary"})
    assert "canary" not in stream.getvalue()
    assert lines(stream)[0]["message"]["id"] == "m1"


def test_libraries_are_rendered_as_the_same_json(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").info("Started on %s", "http://127.0.0.1:3001", extra={"color_message": "x"})
    (line,) = lines(stream)
    assert line["event"] == "Started on http://127.0.0.1:3001"
    assert line["level"] == "info"
    assert "color_message" not in line
    assert line["timestamp"].endswith("Z")


_WORDS = st.text(
    st.characters(codec="ascii", exclude_characters="@/:'\" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f", exclude_categories=["Cc"]),
    min_size=1,
)


@given(before=st.text(), user=_WORDS, password=_WORDS)
def test_a_password_within_an_address_never_survives(before: str, user: str, password: str) -> None:
    secret = f"{password}-canary"
    assert secret not in logs.redact_text(f"{before} socks5h://{user}:{secret}@proxy.example.com:1080")


@given(
    st.text(st.sampled_from("abeghinorstw_.0123456789"), max_size=60)
    | st.text(st.sampled_from("0123456789-:.TZ"), max_size=60)
    | st.sampled_from(sorted(CANARIES.values()))
    | st.from_regex(logs._PLAIN, fullmatch=True)
)
def test_a_text_that_is_taken_for_plain_has_nothing_that_the_patterns_would_replace(text: str) -> None:
    if logs._PLAIN.fullmatch(text):
        assert not any(pattern.search(text) for pattern, _ in logs._PATTERNS)
        assert not logs._JID.search(text)


@pytest.mark.parametrize("text", ["wa_orchestrator.dispatcher.releaser", "2026-11-19T02:05:55.123456Z", "m_00ff12"])
def test_what_every_line_has_is_taken_for_plain(text: str) -> None:
    assert logs._PLAIN.fullmatch(text)


def test_a_terminal_gets_short_lines(terminal: io.StringIO) -> None:
    structlog.get_logger("ours").info("session.connected", session="support", phone="972501234567", waited_ms=12)
    (line,) = terminal.getvalue().splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d info    session\.connected +session=support phone=…4567 waited_ms=12", line)


def test_a_logged_value_cannot_control_a_terminal_or_forge_a_line(terminal: io.StringIO) -> None:
    structlog.get_logger().info("seen\x1b[2J", name="a\n12:00:00 error forged", other="\x9b2J\u202eb", kind=["x\r"])
    (line,) = terminal.getvalue().splitlines()
    assert line.isprintable()
    assert "seen\\x1b[2J" in line


def test_a_terminal_shows_the_traceback_below_its_line(terminal: io.StringIO) -> None:
    try:
        raise ValueError("canary\x1b")
    except ValueError:
        structlog.get_logger().exception("it.broke")
    first, *below = terminal.getvalue().splitlines()
    assert (first.split()[1:], below[-1]) == (["error", "it.broke"], "ValueError: canary\\x1b")


def test_a_terminal_shows_problems_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with logging_to(Terminal()) as written:
        structlog.get_logger().warning("event_tail.disconnected")
        structlog.get_logger().info("tail.found")
    coloured, plain = written.getvalue().splitlines()
    assert coloured.startswith("\x1b[33m")
    assert plain.isprintable()


@pytest.mark.parametrize("piece", ["x", "a.", "a:a@", "a,", "1", "token ", "bearer ", ":", "a://:"])
def test_a_megabyte_from_a_stranger_is_redacted_in_no_time(piece: str) -> None:
    """Where a pattern tries every beginning with every end, this test does not end either."""
    for text in (piece * (1_000_000 // len(piece)), "a://" + piece * 200_000):
        assert logs.redact(text)
