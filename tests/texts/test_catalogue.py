"""Every code that a person can meet has its text in every language, and a language is one file."""

import ast
import re
from enum import StrEnum
from pathlib import Path
from string import Formatter

import pytest

import wa_orchestrator
from wa_orchestrator.domain.messages.failures import Failure, Remedy
from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason
from wa_orchestrator.domain.proxies.proxy_health import ProxyFailure
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.domain.stream_events import ALERTS, EventType, Level, ProxyReason
from wa_orchestrator.orchestrator.notifications import alert_texts
from wa_orchestrator.orchestrator.notifications.alert_texts import Alert
from wa_orchestrator.settings import Settings
from wa_orchestrator.texts import catalogue
from wa_orchestrator.texts.catalogue import languages, read, text, texts

HEBREW = range(0x0590, 0x0600)
#: The codes that are shown as a whole sentence.
SENTENCES: dict[str, type[StrEnum]] = {"session_reason": Reason, "message_failure": Failure, "wait_reason": WaitReason}
SHORT: dict[str, type[StrEnum]] = {
    "proxy_failure": ProxyFailure,
    "event": EventType,
    "cause": ProxyReason,
    "log": Level,
    "state": State,
    "trust": Trust,
    "status": MessageStatus,
    "step": MessageStatus,
    "wait_reason_short": WaitReason,
    "session_reason_short": Reason,
}


def _placeholders(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


@pytest.mark.parametrize("language", languages())
def test_every_language_has_the_same_texts(language: str) -> None:
    assert set(read(language)) == set(texts("en"))


@pytest.mark.parametrize("language", languages())
def test_a_text_has_the_same_placeholders_in_every_language(language: str) -> None:
    english, other = texts("en"), texts(language)
    different = {name for name in english if _placeholders(english[name]) != _placeholders(other[name])}
    # "1 session" needs no number in either language, and may be written in words in one of them.
    assert {name for name in different if not name.endswith(".one")} == set()


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize(("section", "codes"), (SENTENCES | SHORT).items())
def test_every_code_has_a_text(section: str, codes: type[StrEnum], language: str) -> None:
    assert {code for code in codes if not text(language, f"{section}.{code}")} == set()


@pytest.mark.parametrize("name", [f"{section}.{code}" for section, codes in SENTENCES.items() for code in codes])
def test_a_code_has_a_sentence_of_its_own_in_both_languages(name: str) -> None:
    english, hebrew = text("en", name), text("he", name)
    section = name.partition(".")[0]
    assert english.isascii()
    assert any(ord(sign) in HEBREW for sign in hebrew)
    assert english.endswith(".")
    assert hebrew.endswith(".")
    assert "!" not in english + hebrew
    assert [other for other in texts("en") if other.startswith(f"{section}.") and text("en", other) == english] == [
        name
    ]


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("failure", Failure)
def test_a_message_that_was_given_up_is_never_said_to_be_retried(failure: Failure, language: str) -> None:
    waiting, given_up, unknown = (
        catalogue.message_failure(language, failure, status) for status in ("queued", "failed", "unknown")
    )
    assert waiting
    assert unknown
    if failure.remedy in (Remedy.RETRY_SAME_ID, Remedy.REFRESH_THEN_RETRY):
        assert given_up not in (waiting, unknown)
    assert language != "en" or failure.remedy is not Remedy.NEVER or "Nothing to do" not in given_up


@pytest.mark.parametrize("language", languages())
def test_every_alert_has_its_words(language: str) -> None:
    assert {kind for kind in ALERTS if not text(language, f"alert.{kind}")} == set()


def test_a_name_without_a_text_is_empty() -> None:
    assert text("en", "session_reason.STORED_BY_A_NEWER_VERSION") == ""


def test_a_new_file_is_a_new_language(klingon: str) -> None:
    assert languages() == ("en", "he", klingon)
    assert Settings(language=klingon).language == klingon
    assert text(klingon, "session_reason.BANNED") == "Heghpu'."
    alert = Alert("session.failed", "s1", Reason.BANNED, 0)
    assert alert_texts.text_of([alert], klingon) == "⛔ luj: s1 — Heghpu'."


def test_what_a_new_language_lacks_is_english(klingon: str) -> None:
    assert text(klingon, "session_reason.LOGGED_OUT") == text("en", "session_reason.LOGGED_OUT")


#: Slot, retry, select, permissions, "address already in use", "must be a string"; not the words that were there before.
OLD_WORDS = re.compile(
    r"\b(seats?|seatless|pick(ed)?|its turn|tell again|may do|nobody to ask|look at it|end yourself)\b"
    r"|cannot be had|(?<!there )\bis no (text|number|object|JSON)\b|\bSay --|trouble of its own",
    re.IGNORECASE,
)


def test_the_english_texts_use_the_words_that_operators_search_for() -> None:
    assert {name: said for name, said in texts("en").items() if OLD_WORDS.search(said)} == {}


def test_errors_of_the_api_and_the_command_line_use_the_words_that_operators_search_for() -> None:
    found = {}
    for path in sorted(Path(wa_orchestrator.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        described = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        said = [each for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in described]
        for each in said:
            if isinstance(each.value, str) and OLD_WORDS.search(each.value):
                found[f"{path.name}:{each.lineno}"] = each.value
    assert found == {}
