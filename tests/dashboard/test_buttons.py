"""What buttons do and say, pressed in a real browser in both languages: holds, limits, webhooks, queues, keys."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.dashboard.browsing import log_in, visit
from tests.dashboard.served_fleet import ServedFleet, serve_fleet
from tests.dashboard.serving import PASSWORD, VIEWER_PASSWORD
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.messages import holds
from wa_orchestrator.store.records import SessionChanges
from wa_orchestrator.texts.catalogue import languages, texts

pytestmark = pytest.mark.browser
SENDER = "worker_4"
PHONE = f"97250{1234567 + 4 * 991:07d}"
Enter = Callable[[str], Page]


@pytest.fixture
def served(redis_url: str, chromium: Browser) -> Iterator[ServedFleet]:
    """A sample fleet with the whole API; private addresses are allowed."""
    assert chromium.is_connected()
    with serve_fleet(redis_url, allow_private_urls=True) as made:
        yield made


@pytest.fixture
def enter(served: ServedFleet, chromium: Browser) -> Iterator[Enter]:
    """Comes in as an administrator who reads a language."""
    contexts: list[BrowserContext] = []

    def entered(language: str) -> Page:
        contexts.append(visit(chromium, served.address, language=language))
        return log_in(contexts[-1], served.address, PASSWORD)

    yield entered
    for context in contexts:
        context.close()


def said(language: str, name: str) -> re.Pattern[str]:
    """A text as a pattern that knows nothing of what is put into it."""
    text = re.sub(r"<[^>]+>", "", texts(language)[name])
    return re.compile(".*".join(re.escape(part) for part in re.split(r"\{\w+\}", text)))


def confirm(page: Page) -> None:
    """Answer the question with the button that is not focused."""
    expect(page.locator("#confirm")).to_be_visible()
    page.locator("#confirm [data-yes]").click()


def toast(page: Page, language: str, name: str) -> Locator:
    """The answer of a button."""
    return page.locator(".toast", has_text=said(language, name))


def test_a_banned_phone_is_let_go_from_its_sessions_page_and_all_sending_is_not(
    served: ServedFleet, enter: Enter
) -> None:
    ban = holds.Hold(holds.of_phone(PHONE), 9 * 10**15, "BAN_SIGNAL", holds.SERVER, SENDER)
    served.do(lambda on: holds.put(on.scripts, ban))
    page = enter("en")
    page.goto(served.address + "/anti-ban")
    expect(page.locator("#held li", has_text="Sales North")).to_contain_text("Only an administrator can end this pause")
    page.goto(served.address + f"/sessions/{SENDER}")
    page.locator("#session-head form[action='/do/resume'] button").click()
    expect(page.locator("#session-head form[action='/do/hold'] button")).to_be_visible()
    assert holds.of_phone(PHONE) not in served.do(lambda on: on.redis.hkeys(keys.HOLDS))

    served.do(lambda on: holds.put(on.scripts, holds.Hold("all", 9 * 10**15, "", "Dana")))
    expect(page.locator("#session-head a[href='/anti-ban']")).to_be_visible()
    page.goto(served.address + "/live-log?kind=hold.")
    expect(page.locator("main")).to_contain_text("all sessions: paused by Dana", ignore_case=True)


@pytest.mark.parametrize("language", languages())
def test_a_group_and_then_everything_is_held_and_let_go(served: ServedFleet, enter: Enter, language: str) -> None:
    page = enter(language)
    page.goto(served.address + "/anti-ban")
    page.fill("#hold-group", "Sales North")
    page.locator("#held form[action='/do/hold'] button").click()
    mine = page.locator("#held li", has_text="Sales North")
    expect(mine).to_contain_text("Dana")
    mine.locator("button").click()
    expect(mine).to_have_count(0)

    page.goto(served.address + "/")
    page.locator("[data-open=hold-all]").click()
    assert page.evaluate("document.activeElement.matches('[data-cancel]')"), "the harmless button has the focus"
    page.fill("#hold-all [name=why]", "ban wave")
    page.locator("#hold-all .primary").click()
    expect(page.locator("#holding .pill")).to_have_text(said(language, "hold.all_held"))
    assert "all" in served.do(lambda on: on.redis.hkeys(keys.HOLDS))
    page.locator("#holding form[action='/do/resume'] button").click()
    expect(page.locator("[data-open=hold-all]")).to_be_visible()
    assert "all" not in served.do(lambda on: on.redis.hkeys(keys.HOLDS))


@pytest.fixture
def pressed(served: ServedFleet, enter: Enter) -> Page:
    """The page with the holds, which notes when the server has sent that list anew."""
    page = enter("en")
    page.goto(served.address + "/anti-ban")
    page.wait_for_selector("body[data-live]")
    page.evaluate("addEventListener('parts', e => { if ('held' in e.detail) document.body.dataset.heldCame = '1' })")
    return page


def _change_the_list(served: ServedFleet, page: Page) -> None:
    served.do(lambda on: holds.put(on.scripts, holds.Hold("session:worker_5", 9 * 10**15, "a change", "Maya")))
    page.wait_for_selector("body[data-held-came]")


def test_a_button_whose_list_changes_while_it_is_pressed_is_clicked_all_the_same(
    served: ServedFleet, pressed: Page
) -> None:
    row = pressed.locator("#held li", has_text="wrong price list")
    row.locator("button").hover()
    pressed.mouse.down()
    _change_the_list(served, pressed)
    pressed.mouse.up()
    expect(row).to_have_count(0)
    expect(pressed.locator("#held")).to_contain_text("a change")
    assert "session:worker_12" not in served.do(lambda on: on.redis.hkeys(keys.HOLDS))


def test_what_was_typed_is_sent_although_the_list_around_it_has_changed(served: ServedFleet, pressed: Page) -> None:
    pressed.locator("#hold-group").press_sequentially("Sales North")
    _change_the_list(served, pressed)
    pressed.locator("#held form[action='/do/hold'] button").hover()
    pressed.mouse.down()
    # The field has lost the focus, and what follows from that has happened.
    pressed.evaluate("new Promise(done => setTimeout(done))")
    pressed.mouse.up()
    expect(pressed.locator("#held li", has_text="Sales North")).to_contain_text("Dana")
    expect(pressed.locator("#held")).to_contain_text("a change")


@pytest.mark.parametrize("language", languages())
def test_limits_above_the_preset_need_a_tick_and_can_be_taken_back(
    served: ServedFleet, enter: Enter, language: str
) -> None:
    page = enter(language)
    page.goto(served.address + "/anti-ban?q=" + SENDER)
    row = page.locator(".near tbody tr", has_text="Sales North")
    row.locator("[data-open=limits]").click()
    dialog = page.locator("#limits")
    expect(dialog.locator("[data-name]")).to_have_text("Sales North")
    dialog.locator("[name=per_day]").fill("900")
    dialog.locator(".primary").click()
    if language == "he":
        expect(dialog.locator("[data-error]")).to_have_text(said("he", "error.RISK"))
    expect(dialog.locator("[data-error]")).to_be_visible()
    dialog.locator("[name=acknowledge]").check()
    dialog.locator(".primary").click()
    expect(row.locator(".pill")).to_contain_text("900")
    row.locator("[data-open=limits]").click()
    dialog.locator("[formaction='/do/limits-reset']").click()
    expect(row).to_contain_text(said(language, "pace.standard_limits"))


@pytest.mark.parametrize("language", languages())
def test_limits_of_a_tag_are_set_shown_and_removed(served: ServedFleet, enter: Enter, language: str) -> None:
    served.do(lambda on: sessions.change(on.scripts, "worker_1", SessionChanges(tags=("vip",))))
    page = enter(language)
    page.goto(f"{served.address}/anti-ban")
    card = page.locator("#tag-limits")
    expect(card).to_contain_text(said(language, "pace.no_tag_limits"))
    page.locator("[data-open=tag-limits-change]").click()
    dialog = page.locator("#tag-limits-change")
    dialog.locator("[name=tag]").fill("vip")
    dialog.locator("[name=per_day]").fill("900")
    dialog.locator(".primary").click()
    expect(page.locator("#tag-limits-change [data-error], .toast[data-s=error]").first).to_be_visible()
    assert not served.do(lambda on: on.redis.exists(keys.TAG_LIMITS))
    dialog.locator("[name=per_day]").fill("3")
    dialog.locator(".primary").click()
    expect(toast(page, language, "done.tag-limits")).to_be_visible()
    expect(card.locator("li")).to_contain_text("vip")
    expect(card.locator("li b.num").first).to_have_text("3")
    page.goto(f"{served.address}/sessions/worker_1")
    expect(page.locator("#limits-from dd").first).to_contain_text(said(language, "pace.from_tag"))
    expect(page.locator("#limits-from dd").nth(1)).to_contain_text(said(language, "pace.from_preset"))
    page.goto(f"{served.address}/anti-ban")
    card.locator("form[action='/do/tag-limits-reset'] button").click()
    confirm(page)
    expect(toast(page, language, "done.tag-limits-reset")).to_be_visible()
    expect(card).to_contain_text(said(language, "pace.no_tag_limits"))


@pytest.mark.parametrize("language", languages())
def test_a_webhook_shows_its_secret_once_and_sends_a_delivery_again(
    served: ServedFleet, enter: Enter, language: str
) -> None:
    page = enter(language)
    page.goto(served.address + "/settings")
    page.fill("form[action='/do/webhook-add'] [name=url]", "http://127.0.0.1:9/hook")
    page.fill("form[action='/do/webhook-add'] [name=types]", "message.*")
    page.locator("form[action='/do/webhook-add'] button").click()
    made = page.locator("#secret")
    expect(made.locator("h2")).to_have_text(said(language, "done.webhook-add"))
    secret = made.locator("[data-secret]").inner_text()
    assert secret.startswith("whsec_")
    made.locator("[data-copy]").click()
    expect(made.locator("[data-copy]")).to_have_text(said(language, "script.copied"))
    expect(page.locator("#webhooks")).to_contain_text("http://127.0.0.1:9/hook")
    expect(made).to_be_visible()
    made.locator(".primary").click()
    expect(made.locator("[data-secret]")).to_be_empty()
    assert secret not in page.content(), "closed means gone"
    expect(page.locator("#webhooks")).to_contain_text("http://127.0.0.1:9/hook")
    page.reload()
    expect(page.locator("#webhooks")).to_contain_text("http://127.0.0.1:9/hook")
    assert secret not in page.content()

    page.locator("#ws-wh_1").click()
    failed = page.locator("#wd-wh_1 li", has=page.locator(".pill[data-s=failed]"))
    expect(failed).to_contain_text(said(language, "delivery.answered"))
    failed.locator("button").click()
    expect(toast(page, language, "done.webhook-replay")).to_be_visible()
    expect(page.locator("#wd-wh_1 li", has_text=said(language, "delivery.waiting"))).to_be_visible()
    expect(page.locator("#wd-wh_1")).to_have_attribute("open", "")
    assert [each for each in served.do(lambda on: on.redis.zrange(keys.WEBHOOK_DUE, 0, -1)) if each.startswith("wh_1/")]

    page.locator("#wm-wh_1 summary").click()
    page.locator("#wm-wh_1 form[action='/do/webhook-remove'] button").click()
    confirm(page)
    expect(page.locator("#ws-wh_1")).to_have_count(0)


@pytest.mark.parametrize("language", languages())
def test_a_queue_is_emptied_only_after_its_question(served: ServedFleet, enter: Enter, language: str) -> None:
    page = enter(language)
    page.goto(f"{served.address}/sessions/{SENDER}")
    empty = page.locator("form[action='/do/empty-queue'] button")
    empty.click()
    expect(page.locator("#confirm h2")).to_have_text(said(language, "session.empty_ask"))
    expect(page.locator("#confirm h2")).to_contain_text("8")
    page.keyboard.press("Escape")
    expect(page.locator("#confirm")).to_be_hidden()
    assert served.do(lambda on: on.redis.zcard(keys.queue(PHONE))) == 8
    empty.click()
    confirm(page)
    expect(toast(page, language, "done.empty-queue")).to_contain_text("8")
    expect(page.locator("#session-queue")).to_contain_text(said(language, "session.queue_empty"))
    assert served.do(lambda on: on.redis.zcard(keys.queue(PHONE))) == 0


@pytest.mark.parametrize("language", languages())
def test_a_banned_session_is_started_only_after_a_question_with_the_reason(
    served: ServedFleet, enter: Enter, language: str
) -> None:
    page = enter(language)
    page.goto(f"{served.address}/sessions/worker_16")
    for action in ("start", "restart"):
        form = page.locator(f"form[action='/do/{action}']", has=page.locator("[name=confirm][value=BANNED]"))
        form.locator("button").click()
        expect(page.locator("#confirm h2")).to_have_text(said(language, "session.banned_ask"))
        page.keyboard.press("Escape")
        expect(page.locator("#confirm")).to_be_hidden()


@pytest.mark.parametrize("language", languages())
def test_the_answer_to_several_says_which_one_was_refused_and_why(
    served: ServedFleet, enter: Enter, language: str
) -> None:
    page = enter(language)
    for name in ("worker_1", "worker_2"):
        page.locator(f"#row-{name} .pick").check()
    served.do(lambda on: on.redis.delete(keys.session("worker_2")))
    page.locator(".bulk form[action='/do/hold'] button").click()
    expect(page.locator("#confirm h2")).to_contain_text("(2)")
    expect(page.locator("#confirm [data-names] li")).to_have_text(["Support Haifa", "Support Tel Aviv"])
    confirm(page)
    answer = page.locator(".toast[data-s=error]")
    expect(answer).to_contain_text(re.compile("Support Haifa|worker_2"))  # its name, until it is read anew
    if language == "he":
        expect(answer).to_contain_text(said("he", "error.NO_SUCH_SESSION"))
    assert "session:worker_1" in served.do(lambda on: on.redis.hkeys(keys.HOLDS))


def test_keys_walk_the_fleet_pick_rows_and_go_to_pages(served: ServedFleet, enter: Enter) -> None:
    page = enter("en")
    names = page.locator(".fleet tbody .name").all_inner_texts()
    focused = "document.activeElement.innerText"
    for key, at in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        assert page.evaluate(focused) == names[at], key
    page.keyboard.press("x")
    expect(page.locator("[data-picked]")).to_have_text("1")
    page.keyboard.press("/")
    page.keyboard.type("jx?")
    assert page.input_value("#q") == "jx?", "keys are letters while one types"
    page.keyboard.press("Tab")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.wait_for_url(served.address + "/messages")


@pytest.mark.parametrize("language", languages())
def test_a_viewer_is_refused_in_their_language(served: ServedFleet, chromium: Browser, language: str) -> None:
    context = visit(chromium, served.address, language=language)
    page = log_in(context, served.address, VIEWER_PASSWORD, "Guest")
    page.goto(served.address + "/settings")
    expect(page.locator("h1")).to_have_text(said(language, "viewer.title"))
    page.goto(served.address + "/anti-ban")
    page.locator("#held form button").evaluate_all("buttons => buttons.forEach(each => each.disabled = false)")
    page.locator("#held form[action='/do/resume'] button").first.click()
    expect(toast(page, language, "error.VIEWERS_ONLY_LOOK")).to_be_visible()
    context.close()


def test_a_message_that_is_picked_on_a_phone_comes_into_sight(served: ServedFleet, chromium: Browser) -> None:
    context = visit(chromium, served.address, width=390)
    page = log_in(context, served.address, PASSWORD)
    page.goto(served.address + "/messages")
    page.locator("#list .picks a").first.click()
    expect(page.locator("#message-details")).to_be_in_viewport(ratio=0.3)
    context.close()
