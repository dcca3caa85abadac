"""What strangers, customers and workers can write, shown in a real browser on every page: as text, and never run.

Everything is planted past the checks of the API, so that a page depends on none of them.
"""

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.dashboard import sample_fleet
from tests.dashboard.browsing import chromium, log_in, visit
from tests.dashboard.served_fleet import ServedFleet, serve_fleet
from tests.dashboard.serving import PASSWORD
from wa_orchestrator.dashboard.app import PAGES
from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.access.permissions import Role, Scope
from wa_orchestrator.domain.jobs import Job
from wa_orchestrator.domain.pacing.limits import Override
from wa_orchestrator.domain.pacing.tag_limits import TagLimit
from wa_orchestrator.messages.session_pace import encode_tag_limit
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.access import api_keys, people
from wa_orchestrator.store.conversations import quick_replies
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.sessions.passkeys import PasskeyCeremony

__all__ = ["chromium"]
pytestmark = pytest.mark.browser
#: What people have typed into names and messages to make browsers run it.
PLANTED: Final = (
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    "' autofocus onfocus=window.hacked=1 x='",
    "</textarea><script>window.hacked=1</script>",
    "javascript:window.hacked=1//",
    "<a href=javascript:window.hacked=1>x</a>",
    "{{constructor.constructor('window.hacked=1')()}}",
    "</title><script>window.hacked=1</script>",
    "\u202e<iframe srcdoc='<script>parent.hacked=1</script>'>",
    "</template></svg><math><mtext><table><mglyph><style><img src=x onerror=window.hacked=1>",
    "\\u003cscript\\u003ewindow.hacked=1\\u003c/script\\u003e${window.hacked=1}`-window.hacked=1-`",
)
#: Who has written each of these.
CHATS: Final = [f"9725255502{number:02}" for number in range(len(PLANTED))]
#: What a page would have if a text had become markup: attributes that run, scripts and frames that are not ours, links that run.
FOREIGN: Final = """
    [...document.querySelectorAll('*')].filter(each =>
      [...each.attributes].some(at => /^on/i.test(at.name) || /^\\s*(javascript|data:text)/i.test(at.value)
        && ['href', 'src', 'action', 'formaction', 'srcdoc', 'xlink:href'].includes(at.name))
      || each.matches('iframe, object, embed, base, math, mglyph, img[src=x]')
      || each.matches('script') && !(each.src && new URL(each.src).pathname.startsWith('/static/'))
    ).map(each => each.outerHTML.slice(0, 200))
"""
#: Fields of records that the server alone writes, from closed lists of words.
_OWN_WORDS: Final = {
    "id", "status", "reason", "standing", "phone", "proxy", "limits", "tag_limits", "timezone", "named_phone", "reported_phone", "leaving",
    "left_phone", "url", "session", "to", "body", "kind", "pinned", "wanted", "removing", "removing_queued", "restore", "pairing", "expires_on",
}  # fmt: skip


def _texts_of(record: type) -> list[str]:
    """The fields of a record that hold a text, so that one that is added is planted too."""
    found = [each.name for each in fields(record) if each.type in (str, "str") and each.name not in _OWN_WORDS]
    assert found, record
    return found


async def _plant(on: sample_fleet.FleetBuilder) -> None:
    for number, text in enumerate(PLANTED):
        await _plant_one(on, number + 1, text)
    for name in map(str, await on.redis.smembers(keys.PROXIES_ALL)):
        await on.redis.hset(keys.proxy(name), mapping=dict.fromkeys(_texts_of(records.Proxy), PLANTED[1]))
        await on.redis.hset(keys.proxy(name), "status", "BAD")
    for job in Job:
        run = {"began_at": 1, "ended_at": 2, "error": PLANTED[0], "by": PLANTED[1]}
        await on.redis.lpush(keys.job_runs(job), json.dumps(run))
        await on.redis.hset(keys.JOBS_ASKED, job, PLANTED[2])
    await api_keys.create(on.scripts, PLANTED[0], [Scope.READ])
    account = await people.create(on.scripts, PLANTED[3], Role.VIEWER, (PLANTED[2],))
    for number, text in enumerate(PLANTED, 1):
        await quick_replies.put(on.scripts, f"reply{number}<b>", text)
        await _plant_conversation(on, number, text, account.id)
        await _plant_campaign(on, f"c_{number:012x}", text)


async def _plant_one(on: sample_fleet.FleetBuilder, number: int, text: str) -> None:
    session, redis = f"worker_{number}", on.redis
    await redis.hset(keys.session(session), mapping=dict.fromkeys(_texts_of(records.Session), text))
    tagged = encode_tag_limit(TagLimit(text, Override(per_day=3)))
    await redis.hset(keys.session(session), "tag_limits", f"[{tagged}]")
    await redis.hset(keys.TAG_LIMITS, text, tagged)
    message = await on.message(
        900 + number, "worker_4", f"97250{1234567 + 4 * 991:07d}", "972521111111", text, reference=text
    )
    await redis.hset(keys.message(message), mapping=dict.fromkeys((*_texts_of(records.Message), "reason"), text))
    await redis.hset(keys.message(message), "status", ("failed", "queued", "expired")[number % 3])
    await redis.rpush(keys.timeline(message), f"1 failed {text}")
    await contacts.opt_out(on.scripts, f"97252333{number:04d}", word=text, via=text, session=session)
    for kind in (text, "message.received", "session.failed", "webhook.disabled", "proxy.bad", "contact.opted_out"):
        entry: dict[Any, Any] = dict.fromkeys(
            (
                "note",
                "reason",
                "text",
                "pushName",
                "push_name",
                "word",
                "by",
                "kind",
                "from",
                "webhook",
                "error",
                "code",
            ),
            text,
        )
        entry |= {"type": kind, "session": session, "at": "1"}
        await redis.xadd(keys.EVENTS, entry)
        await redis.xadd(keys.session_events(session), entry)
    await redis.xadd(keys.AUDIT, {"at": "1", **dict.fromkeys(("by", "name", "action", "target", "details"), text)})
    await redis.hset(keys.HOLDS, f"session:{session}", json.dumps({"until_ms": 9e15, "why": text, "by": text}))
    await webhooks.put(on.scripts, webhooks.Webhook(f"w{number}", text, (text,), "whsec_x", "0-0", number))
    delivery: dict[Any, Any] = {
        "event": "1-0",
        "type": text,
        "status": "failed",
        "note": text,
        "attempts": 1,
        "made_at": 1,
        "body": "{}",
    }
    await redis.hset(keys.delivery(f"w{number}", "1-0"), mapping=delivery)
    await redis.zadd(keys.delivery_log(f"w{number}"), {"1-0": 1})
    shape = f"stanza:{text}"
    await redis.zadd(keys.DRIFT, {shape: 9e15})
    await redis.hset(keys.drift(shape), mapping={"first_at": 1, "last_at": 2, "count": 3})
    await redis.sadd(keys.drift_sessions(shape), session)
    ceremony = PasskeyCeremony("failed", 1, 1, text, 9 * 10**15, text, False, text, text)
    stored = {each.name: getattr(ceremony, each.name) for each in fields(ceremony)}
    await redis.set(
        keys.passkey(session), json.dumps(stored | {"stage": ("failed", "required", "confirm")[number % 3]})
    )


async def _plant_conversation(on: sample_fleet.FleetBuilder, number: int, text: str, account: str) -> None:
    """Everything that a person can send, and what is noted about them."""
    kinds: dict[str, dict[str, Any]] = {
        "text": {"parts": {"replyTo": {"whatsappId": "3A", "text": text, "kind": "text"}}},
        "document": {"media": {"mimetype": text, "filename": text, "caption": text, "size": 1}},
        "image": {"media": {"mimetype": "image/png", "caption": text, "thumbnail": text}},
        "location": {"location": {"latitude": 1, "longitude": 2, "name": text, "address": text}},
        "contacts": {"parts": {"contacts": [{"name": text, "phones": [text]}]}},
        "poll": {"parts": {"poll": {"options": [text], "selectable": 1}}},
    }
    for index, (kind, more) in enumerate(kinds.items()):
        stored: dict[str, Any] = {"text": text, "push_name": text, "at": 1, "from": text}
        stored |= {name: json.dumps(value) for name, value in more.items()}
        said = contacts.Incoming(
            "worker_2", "972501236549", f"3A{number:02}{index}", kind, CHATS[number - 1], fields=stored, name=text
        )
        await contacts.receive(on.scripts, said, keep_ms=10**9)
    noted = {"notes": text, "tags": json.dumps([text]), "assigned": account}
    await on.redis.hset(keys.conversation("worker_2", CHATS[number - 1]), mapping=noted)  # type: ignore[arg-type]


async def _plant_campaign(on: sample_fleet.FleetBuilder, campaign: str, text: str) -> None:
    stored: dict[Any, Any] = dict.fromkeys(("name", "text", "consent", "made_by"), text)
    stored |= {"id": campaign, "state": "paused", "why": "OPT_OUTS", "total": 1, "tags": json.dumps([text])}
    await on.redis.hset(keys.campaign(campaign), mapping=stored)
    await on.redis.zadd(keys.CAMPAIGNS, {campaign: 1})
    await on.redis.sadd(keys.CAMPAIGNS_ACTIVE, campaign)
    await on.redis.hset(keys.campaign_rows(campaign), "1", json.dumps([1, "972521111111", {"name": text}]))
    await on.redis.zadd(keys.campaign_waiting(campaign), {"1": 1})
    entry: dict[Any, Any] = {"type": "campaign.paused_itself", "campaign": campaign, "state": text, "reason": text}
    await on.redis.xadd(keys.EVENTS, entry | {"at": "1"})


@pytest.fixture
def served(redis_url: str, chromium: Browser) -> Iterator[ServedFleet]:
    assert chromium.is_connected()
    with serve_fleet(redis_url) as made:
        made.do(_plant)
        yield made


@pytest.fixture
def person(served: ServedFleet, chromium: Browser) -> Iterator[BrowserContext]:
    """A browser that calls itself by a script."""
    context = visit(chromium, served.address)
    context.set_extra_http_headers({"User-Agent": PLANTED[1]})
    yield context
    context.close()


def _paths() -> list[str]:
    every = [path for path in PAGES if "{" not in path]
    assert len(every) > 10, "the walk has lost its way"
    one = range(1, len(PLANTED) + 1)
    script = "%22%3E%3Cimg%20src=x%20onerror=window.hacked=1%3E"
    return [
        *every,
        *(f"{path}?{name}={script}" for path in every for name in ("q", "id", "kind", "state", "session")),
        *(f"/sessions/worker_{number}" for number in one),
        *(f"/link/worker_{number}/passkey" for number in one),
        *(f"/messages?id=m_{900 + number:018x}" for number in one),
        *(f"/inbox?c={conversation.id_of('worker_2', each)}" for each in CHATS),
        *(f"/campaigns/c_{number:012x}" for number in one),
        f"/nothing/{script}",
        "/scan?id=worker_1",
    ]


def test_planted_texts_are_shown_as_texts_on_every_page_and_never_run(
    served: ServedFleet, person: BrowserContext
) -> None:
    page = log_in(person, served.address, PASSWORD, name=PLANTED[1])
    refused = _watch(page)
    for path in _paths():
        answer = page.goto(served.address + path)
        assert answer is not None
        assert answer.status < 500, path
        page.wait_for_selector("h1")
        assert page.evaluate("window.hacked") is None, path
        assert page.evaluate(FOREIGN) == [], path
    assert refused == []
    page.goto(served.address + "/sessions/worker_1")
    expect(page.locator("h1")).to_have_text(PLANTED[0])
    page.goto(served.address + f"/messages?id=m_{901:018x}")
    expect(page.locator(".bubble")).to_have_text(PLANTED[0])
    page.goto(f"{served.address}/inbox?c={conversation.id_of('worker_2', CHATS[0])}")
    expect(page.locator(".msg .say p").first).to_contain_text(PLANTED[0])
    page.goto(f"{served.address}/campaigns/c_{1:012x}")
    expect(page.locator("h1")).to_have_text(PLANTED[0])


def test_what_comes_while_a_page_is_open_is_text_too(served: ServedFleet, person: BrowserContext) -> None:
    page = log_in(person, served.address, PASSWORD, name=PLANTED[1])
    refused = _watch(page)
    page.goto(served.address + "/live-log")
    page.wait_for_selector("body[data-live]")

    async def happen(on: sample_fleet.FleetBuilder) -> None:
        for text in PLANTED:
            await on.redis.xadd(keys.EVENTS, {"type": f"late.{text}", "session": "worker_1", "at": "1", "note": text})

    served.do(happen)
    expect(page.locator("#log summary code", has_text="late.").first).to_be_visible()
    assert (page.evaluate("window.hacked"), page.evaluate(FOREIGN), refused) == (None, [], [])


def test_the_answer_to_a_button_is_text_too(served: ServedFleet, person: BrowserContext) -> None:
    page = log_in(person, served.address, PASSWORD, name=PLANTED[1])
    refused = _watch(page)
    for text in PLANTED[:3]:
        page.goto(served.address + "/anti-ban")
        page.fill("#hold-group", text)
        page.locator("#held form[action='/do/hold'] button").click()
        expect(page.locator(".toast").first).to_be_visible()
        assert (page.evaluate("window.hacked"), page.evaluate(FOREIGN), refused) == (None, [], [])


def _watch(page: Page) -> list[str]:
    """Collect what the browser refused to run, and dialogs."""
    refused: list[str] = []
    page.on("console", lambda line: refused.append(line.text) if "Content Security Policy" in line.text else None)
    page.on("dialog", lambda dialog: refused.append(dialog.message))
    return refused
