"""Words that programs leave in records are sentences on a page: none of them is shown as it stands."""

import ast
import re
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
from pydantic.alias_generators import to_camel
from redis.asyncio import Redis

from tests.dashboard.sample_fleet import fill
from tests.dashboard.serving import settings
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html import labels
from wa_orchestrator.dashboard.html.locale import Locale
from wa_orchestrator.dashboard.html.renderer import HERE, Renderer
from wa_orchestrator.dashboard.internal_api import ApiResponse
from wa_orchestrator.dashboard.pages import live_log, session
from wa_orchestrator.dashboard.routes import actions
from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.domain.proxies.proxy_health import ProxyFailure
from wa_orchestrator.domain.stream_events import EventType, ProxyReason
from wa_orchestrator.orchestrator.api.conversations.models import ConversationPatch
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import FILES, Scripts
from wa_orchestrator.store.messages import holds
from wa_orchestrator.texts.catalogue import languages, texts
from wa_orchestrator.web import auth

ENGLISH = Locale("en", ZoneInfo("UTC"), 0)
HEBREW = Locale("he", ZoneInfo("UTC"), 0)
WORD = re.compile(r"[a-z_]+\.[a-z_]+")
CODE = re.compile("[A-Z]+_[A-Z_]+|DRAINED|REINSTATED")


def _calls(*names: str) -> Iterator[ast.Call]:
    for path in HERE.parent.rglob("*.py"):
        for call in (each for each in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(each, ast.Call)):
            if getattr(call.func, "attr", getattr(call.func, "id", "")) in names:
                yield call


def _words(pattern: re.Pattern[str], *names: str) -> set[str]:
    """The constants of this shape that are given to these functions."""
    given = [each.value for call in _calls(*names) for each in call.args if isinstance(each, ast.Constant)]
    return {word for word in given if isinstance(word, str) and pattern.fullmatch(word)}


def test_everything_that_the_audit_log_records_is_said_in_words() -> None:
    actions = _words(WORD, "record", "_audit", "_done")
    assert {"session.restart", "hold.lift", "dashboard.login_failed"} <= actions
    assert {f"action.{name}" for name in actions} <= set(texts("he"))


def test_everything_that_moves_a_session_or_binds_a_phone_is_said_in_words() -> None:
    codes = _words(CODE, "mark_by_operator") | set(ProxyReason)
    assert {"DRAINED", "REINSTATED"} <= codes
    bindings = set(re.findall(r"how = '(\w+)'", FILES["bind_phone"].read_text("utf-8"))) - {"same"}
    assert {name for name in codes | bindings if not labels.cause(HEBREW, name)} == set()


def test_everything_that_a_message_goes_through_is_said_in_words() -> None:
    scripts = "".join(path.read_text("utf-8") for path in FILES.values())
    written = re.findall(r"(?:set_status|fail_message)\('?\w+'?,(?: \w+,)+ '(\w+)'\)", scripts)
    written += re.findall(r"refuse\('\w+', '(\w+)'\)", scripts)
    written += re.findall(r"take_back\((?:\w+, )+'(\w+)'", scripts)
    notes = {*written, "CANCELLED", "EXPIRED", "NO_SENDER"}
    assert {"RETRIED", "NEW_EPOCH"} <= notes
    for status in ("queued", "failed", "unknown"):
        assert {note for note in notes | set(Failure) if labels.message_note(HEBREW, note, status) == note} == set()


@pytest.mark.parametrize(
    "stored",
    [
        "NO_ANSWER:2.5",
        "UNREACHABLE:Connection refused",
        *[each for each in ProxyFailure if each not in ("NO_ANSWER", "UNREACHABLE", "CONNECT_REFUSED")],
        *[f"CONNECT_REFUSED:{reply}" for reply in range(1, 9)],
    ],
)
def test_why_a_proxy_failed_is_said_in_the_language_of_the_page(stored: str) -> None:
    english = labels.proxy_failure(ENGLISH, stored).striptags()
    assert re.match("it |no answer", english)
    assert stored not in english
    hebrew = labels.proxy_failure(HEBREW, stored).striptags()
    assert re.search("[א-ת]", hebrew)
    assert not re.search("[a-z]{3}", hebrew.partition("(")[0])


@pytest.mark.parametrize("stored", ["no answer within 5 s", "it did not connect: host unreachable", "{odd}"])
def test_a_sentence_that_an_older_version_stored_is_shown_as_it_is(stored: str) -> None:
    assert labels.proxy_failure(HEBREW, stored).striptags() == stored
    assert labels.cause(HEBREW, stored) == ""


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (auth.CONFIGURED, "the configured API key"), (holds.SERVER, "the server"), ("dashboard:Dana", "Dana"),
        ("dashboard:administrator", "an administrator"), ("k_0123456789ab", "the API key k_0123456789ab"),
        ("dashboard:server room", "server room"), ("", "—"),
    ],
)  # fmt: skip
def test_who_did_something_is_named_as_people_would(by: str, said: str) -> None:
    assert labels.actor(ENGLISH, by).striptags() == said


@pytest.mark.parametrize("language", languages())
async def test_no_page_shows_a_code_where_a_word_belongs(redis: Redis, scripts: Scripts, language: str) -> None:
    await fill(scripts)
    hold = holds.Hold("session:worker_4", 9 * 10**15, "OPERATOR", auth.CONFIGURED)
    await holds.put(scripts, hold)
    for kind, reason in (
        ("phone.bound", "sticky_bad"),
        ("session.moved", "STICKY_PROXY"),
        ("session.turned_away", "PHONE_FULL"),
    ):
        await redis.xadd(
            keys.session_events("worker_4"), {"type": kind, "reason": reason, "at": 1, "session": "worker_4"}
        )
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    view = await renderer.view_as(None, "session", language)
    parts = await session.parts(renderer, view, {"id": "worker_4"})
    html = "".join(parts[name].striptags() for name in ("session-why", "session-history", "session-worker"))
    for code in ("OPERATOR", "configured.", "sticky_bad", "STICKY_PROXY", "PHONE_FULL", "turned_away", "phone.bound"):
        assert code not in html, code


@pytest.mark.parametrize(
    ("language", "said"), [("en", "p_1 failed: no answer within 5 s"), ("he", "p_1 נכשל: לא ענה תוך 5 שנ׳")]
)
async def test_the_log_says_why_a_proxy_failed(redis: Redis, language: str, said: str) -> None:
    context = make_context(settings(), redis)
    view = await Renderer(context, SnapshotReader(context)).view_as(None, "live-log", language)
    fields = {"type": "proxy.bad", "proxy": "p_1", "reason": "NO_ANSWER:5"}
    assert live_log.explained_text(view, "proxy.bad", fields).striptags() == said


@pytest.mark.parametrize("language", languages())
async def test_every_event_is_a_line_of_the_log_also_without_its_fields(redis: Redis, language: str) -> None:
    context = make_context(settings(), redis)
    view = await Renderer(context, SnapshotReader(context)).view_as(None, "live-log", language)
    for kind in EventType:
        assert live_log.explained_text(view, kind, {"type": kind}).striptags()


@pytest.mark.parametrize("language", languages())
async def test_the_log_says_in_words_what_changed_in_a_conversation(redis: Redis, language: str) -> None:
    context = make_context(settings(), redis)
    view = await Renderer(context, SnapshotReader(context)).view_as(None, "live-log", language)
    by_people = [to_camel(name) for name in ConversationPatch.model_fields]
    for change in (*by_people, "read", "unread", "optedOut"):
        said = texts(language)[f"inbox.change.{change}"]
        fields = {"contact_phone": "972501234567", "change": f"{change},tags"}
        line = live_log.event_text(view, "conversation.changed", fields).striptags()
        assert line.endswith(f": {said}, {texts(language)['inbox.change.tags']}")


async def test_the_log_says_how_many_proxies_failed_in_our_own_outage(redis: Redis) -> None:
    context = make_context(settings(), redis)
    view = await Renderer(context, SnapshotReader(context)).view_as(None, "live-log", "en")
    said = live_log.explained_text(view, "proxy.outage", {"type": "proxy.outage", "failing": "5", "healthy": "6"})
    assert said.striptags().startswith("5 of 6 proxies fail at once")


def test_every_way_to_run_workers_has_a_name() -> None:
    runners = Settings.model_fields["runner"].annotation.__args__  # type: ignore[union-attr]
    assert {f"runner.{name}" for name in runners} <= set(texts("en"))


@pytest.mark.parametrize("name", ["passkey", "passkey-confirm"])
def test_the_code_of_a_link_by_passkey_is_on_the_page_and_not_in_a_dialog(name: str) -> None:
    answer = ApiResponse(200, {"sessionId": "s1", "stage": "confirm", "code": "PYSL-SH11"})
    assert actions.outcome_of(name, actions.ACTIONS[name], [{"id": "s1"}], [answer], ENGLISH).secret == ""
