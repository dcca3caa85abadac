"""The same things are said in every language, and nothing on a page depends on left and right."""

import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.error_codes import refusals
from wa_orchestrator.dashboard.html.locale import Locale, ltr, spelled_phone
from wa_orchestrator.dashboard.html.renderer import HERE
from wa_orchestrator.dashboard.routes import actions
from wa_orchestrator.domain.stream_events import SUBJECTS
from wa_orchestrator.texts.catalogue import texts

CALL = re.compile(r"""\b(?:v|view|locale|self)\.(t|n|plain)\(\s*"([\w.-]+)"\s*[,)]""")


def _sources() -> list[Path]:
    return [*HERE.glob("templates/*.html"), *HERE.rglob("*.py")]


def test_every_text_that_a_page_asks_for_exists() -> None:
    asked = [(kind, name) for path in _sources() for kind, name in CALL.findall(path.read_text("utf-8"))]
    missing = {name for kind, name in asked if (f"{name}.other" if kind == "n" else name) not in texts("en")}
    assert len(asked) > 300
    assert missing == set()


def test_every_subject_of_events_can_be_chosen_in_the_log() -> None:
    for language in ("en", "he"):
        named = [texts(language)[f"log.kind_{subject}"] for subject in SUBJECTS]
        assert len(set(named)) == len(named), "two kinds of events with one name cannot be told apart in the filter"


def test_every_button_says_what_came_of_it() -> None:
    assert {f"done.{name}" for name in actions.ACTIONS if name != "proxy-import"} <= set(texts("he"))


#: What only programs, workers, people at a terminal or the simulated world can be told; no page can meet it.
FOR_PROGRAMS = frozenset(
    {
        "API_KEY_AMBIGUOUS", "API_KEY_MISSING", "API_KEY_UNKNOWN", "BAD_QUESTION", "BAD_SIGNATURE", "BODIES_FULL",
        "CLIENT_DISCONNECTED",
        "CONTENT_ENCODED", "EPOCH_MISSING", "NOT_ASKED", "NOT_YOUR_MESSAGE", "UPLOAD_QUOTA",
        "DATA_DIR_IN_USE", "DOCKER_UNAVAILABLE", "FENCED", "FILE_EMPTY", "FILE_TOO_LARGE", "FILTER_REQUIRED",
        "FILE_STORE_UNAVAILABLE", "MEDIA_BUSY", "MEDIA_CORRUPT", "MEDIA_EXPIRED", "MEDIA_INVALID", "MEDIA_TOO_LARGE", "MEDIA_UNREACHABLE", "NO_MEDIA", "NO_THUMBNAIL",
        "NO_NODE", "NO_REDIS", "NO_SIMULATOR", "NO_SUCH_UPLOAD",
        "NO_WORKER_BUNDLE", "OTHER_SESSION", "OTHER_WHATSAPP_ID", "REDIS_CLUSTER", "REDIS_DID_NOT_START",
        "REDIS_TOO_OLD", "REDIS_UNREACHABLE", "RUNNER_ENDED", "STALE_SIGNATURE", "TOO_MANY_FILES", "UNSAFE_TEMP_DIR",
        "UNSUPPORTED_TYPE", "WORKER_TOKEN_WRONG", "WRITE_REFUSED", "COPY_NEEDED", "NOT_SEALED", "KUBERNETES_UNAVAILABLE",
        "NO_NODE_FOR_WORKER", "WORKER_NOT_STOPPED", "NO_HEADING", "OLD_PLACE_RUNS", "IMPORT_ALREADY_HERE",
        "IMPORT_DAMAGED", "IMPORT_NOT_LINKED", "IMPORT_NO_CREDENTIALS",
    }
)  # fmt: skip


def test_every_refusal_that_a_page_can_meet_has_a_sentence_in_every_language() -> None:
    met = refusals() - FOR_PROGRAMS
    assert len(met) > 50
    assert {code for code in met if f"error.{code}" not in texts("he")} == set()
    assert refusals() >= FOR_PROGRAMS, "a code that nobody gives any more"


def test_the_style_sheet_knows_no_left_and_right() -> None:
    css = re.sub(r"/\*.*?\*/", "", (HERE / "static" / "app.css").read_text("utf-8"), flags=re.DOTALL)
    for four in re.findall(r"(?:padding|margin|inset)\s*:\s*((?:[^;{}()]|\([^()]*\))+)", css):
        sides = re.findall(r"(?:[^\s()]|\([^()]*\))+", four)
        assert len(sides) < 4 or sides[1] == sides[3], four
    physical = re.findall(r"(?<![\w-])(?:(?:margin|padding|border|inset)-)?(?:left|right)\s*:", css)
    assert physical == []
    assert re.findall(r"(?:text-align|float|clear)\s*:\s*(?:left|right)", css) == []


def test_latin_names_in_hebrew_lists_stand_where_the_column_begins() -> None:
    """Chromium knows `match-parent` by its older name only, and drops a declaration that it does not know."""
    for sheet in (HERE / "static").glob("*.css"):
        assert "text-align: match-parent" not in sheet.read_text("utf-8").replace(
            "text-align: -webkit-match-parent; text-align: match-parent;", ""
        ), sheet.name


def test_what_is_put_into_a_text_is_escaped(locale: Locale) -> None:
    said = locale.t("fleet.actions_for", name="<img src=x onerror=alert(1)>")
    assert "<img" not in said
    assert "&lt;img" in said


def test_a_text_for_an_attribute_has_no_tags(locale: Locale) -> None:
    label = locale.plain("strip.label", share=locale.percent(0.99))
    assert label == "Connection in the last 24 hours: 99.0%"
    assert locale.plain(
        "fleet.actions_for", name='"><script>'
    ) == "Actions for &#34;&gt;&lt;script&gt;" or "<" not in locale.plain("fleet.actions_for", name='"><script>')


@pytest.mark.parametrize(
    ("phone", "spelled"),
    [("972541234567", "+972 54-123-4567"), ("12125550100", "+1 212-555-0100"), ("4915112345678", "+4915112345678")],
)
def test_phones_are_written_as_people_read_them(phone: str, spelled: str) -> None:
    assert spelled_phone(phone) == spelled


def test_a_phone_stays_left_to_right_inside_hebrew() -> None:
    assert ltr("+972 54-123-4567") == '<bdi class="ltr">+972 54-123-4567</bdi>'


def test_another_day_is_named(locale: Locale) -> None:
    noon = 1_750_075_200_000  # Monday, 16 June 2025, 12:00 UTC
    assert locale.clock(noon).striptags() == "12:00"
    assert locale.clock(noon + 86_400_000).striptags() == "tomorrow 12:00"
    assert locale.clock(noon - 3 * 86_400_000).striptags() == "Fri 12:00"
    assert locale.clock(noon - 30 * 86_400_000).striptags() == "17 May 12:00"


def test_hebrew_has_one_word_for_the_pause_between_messages_and_another_for_a_hold() -> None:
    hebrew, english = texts("he"), texts("en")
    pause, hold = re.compile("הפסק"), re.compile("השהי|מושה|להשהות|השהה")
    paused = {"pace.pause", "wait_reason.PAUSE", "wait_reason_short.PAUSE", "burst.short", "attention.burst_do"}
    paused |= {"alert.session.burst", "alert.session.slowed_down", "attention.slowed_do", "event.session.burst"}
    assert {name for name in paused if not pause.search(hebrew[name]) or hold.search(hebrew[name])} == set()
    held = [name for name in english if re.search(r"(^|\.)hold|held\b", name)]
    assert len(held) > 20
    assert {name for name in held if pause.search(hebrew[name])} == set()


def test_hebrew_names_trust_and_alerts_as_people_do() -> None:
    hebrew = texts("he")
    assert [hebrew[f"trust.{level}"] for level in ("cold", "warm", "hot")] == ["חדש", "מתבסס", "ותיק"]
    assert "התראות" in hebrew["settings.alerts"]
    assert [name for name, text in hebrew.items() if "התרע" in text] == []


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("פרטי התחברות", "פרטי ה?גישה|אישורים"),
        ("אשפה", r"\b[בלמהו]*פח\b|מיחזור"),
        ("יומן פעולות", "יומן ה?ביקורת"),
        ("שרתי פרוקסי", "פרוקסים"),
        ("אימות דו־שלבי", "הגורם השני"),
        ("WhatsApp", "ווא?טסאפ"),
    ],
)
def test_hebrew_has_one_word_for_one_thing(word: str, instead: str) -> None:
    hebrew = texts("he")
    assert [name for name, text in hebrew.items() if re.search(instead, text)] == []
    assert any(word in text for text in hebrew.values())


def test_hebrew_joins_a_letter_to_a_latin_word_by_a_maqaf() -> None:
    assert [name for name, text in texts("he").items() if re.search(r"[א-ת][-‑](?=[A-Za-z{])", text)] == []


def test_hebrew_that_begins_with_a_latin_word_is_written_from_the_right_wherever_it_stands() -> None:
    """In an alert or a title, the first letter sets the direction."""
    begins = re.compile(r"(?:<[^>]*>)?[A-Za-z]")
    in_a_page_only = {"first.rehearse_text"}
    texts_he = texts("he").items()
    found = {name for name, text in texts_he if begins.match(text) and re.search("[א-ת]", text)}
    assert found == in_a_page_only


def test_hebrew_calls_the_preset_of_limits_and_the_profile_of_a_device_by_two_names() -> None:
    english, hebrew = texts("en"), texts("he")
    presets = {name for name, text in english.items() if re.search(r"\bpreset", text, re.IGNORECASE)}
    profiles = {name for name, text in english.items() if re.search(r"\bprofiles?\b", text)}
    assert len(presets) > 10
    assert {name for name in presets if "פרופיל" in hebrew[name]} == set()
    assert {name for name in profiles if "פרופיל" not in hebrew[name] and name != "profiles.any_number"} == set()


def test_a_day_is_named_in_the_zone_of_the_installation() -> None:
    noon, day_ms = 1_750_075_200_000, 86_400_000  # Monday, 16 June 2025, 12:00 UTC
    here = Locale("en", ZoneInfo("Asia/Jerusalem"), noon)
    evening = noon - 14 * 3_600_000  # 22:00 UTC of the 15th is 01:00 of the 16th there
    assert [here.day(evening), Locale("en", ZoneInfo("UTC"), noon).day(evening)] == ["Today", "Yesterday"]
    assert [here.day(noon - each * day_ms).striptags() for each in (2, 400)] == ["Sat, 14 Jun", "Sun, 12 May 2024"]
    hebrew = Locale("he", ZoneInfo("Asia/Jerusalem"), noon)
    assert [hebrew.day(noon - each * day_ms).striptags() for each in (0, 1, 2)] == ["היום", "אתמול", "שבת, 14 ביוני"]


@pytest.fixture
def locale() -> Locale:
    """English in UTC on a Monday at noon."""
    return Locale("en", ZoneInfo("UTC"), 1_750_075_200_000)
