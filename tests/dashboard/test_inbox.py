"""The inbox in a browser: who waits, what they wrote, and an answer that says when it leaves."""

import json
import re
from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, Page, Response, Route, expect

from tests.dashboard import sample_conversations
from tests.dashboard.browsing import log_in, visit
from tests.dashboard.sample_conversations import DANA, HERE, SESSION, answer, says
from tests.dashboard.sample_fleet import FleetBuilder
from tests.dashboard.served_fleet import ServedFleet, serve_fleet
from tests.dashboard.serving import PASSWORD, VIEWER_PASSWORD
from tests.dashboard.test_pages import OVER_THE_EDGE, serious
from tests.pictures import jpeg
from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.domain.stream_events import CallReported, EventType
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import contacts

pytestmark = pytest.mark.browser


@pytest.fixture
def served(redis_url: str, chromium: Browser) -> Iterator[ServedFleet]:
    """A sample fleet with conversations."""
    assert chromium.is_connected()
    with serve_fleet(redis_url) as made:
        made.do(sample_conversations.fill)
        yield made


def opened(page: Page, address: str) -> None:
    page.goto(f"{address}/inbox")
    page.click(f'[data-open-conversation="{HERE}"]')
    page.wait_for_selector("#reply")


def test_an_answer_is_queued_with_its_time_and_what_comes_in_is_appended(
    served: ServedFleet, chromium: Browser
) -> None:
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    expect(page.locator(".msg")).to_have_count(5)
    expect(page.locator(".react")).to_have_count(1)
    expect(page.locator("#reply-eta")).not_to_be_empty()
    page.fill("#reply textarea", "/ho")
    page.press("#reply textarea", "Enter")  # fills, and does not send
    expect(page.locator("#reply textarea")).to_have_value("We are open from 9 to 17.")
    page.press("#reply textarea", "Enter")
    expect(page.locator(".msg.ours .say p")).to_have_text("We are open from 9 to 17.")
    expect(page.locator(".msg.ours .under")).to_be_visible()
    served.do(lambda on: says(on, "3A08", "Thank you!"))
    expect(page.locator(".msg").last).to_contain_text("Thank you!")
    page.context.close()


def test_whoever_knows_that_a_message_arrived_says_so_and_it_counts_as_sent(
    served: ServedFleet, chromium: Browser
) -> None:
    lost = served.do(lambda on: answer(on, 900, "The code is 4471", "unknown"))
    viewer = log_in(visit(chromium, served.address), served.address, VIEWER_PASSWORD)
    viewer.goto(f"{served.address}/inbox?c={HERE}")
    expect(viewer.locator(f"#m-{lost} .under")).to_contain_text("Not confirmed")
    expect(viewer.locator(f"#m-{lost} button")).to_have_count(0)
    viewer.context.close()
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    page.locator(f"#m-{lost}").get_by_role("button", name="The contact has it").click()
    expect(page.locator(f"#m-{lost} .meta [data-s=sent]")).to_have_count(1)
    expect(page.locator(f"#m-{lost} .under")).to_have_count(0)
    page.context.close()


def test_a_message_that_perhaps_arrived_is_retried_with_the_same_whatsapp_id(
    served: ServedFleet, chromium: Browser
) -> None:
    lost = served.do(lambda on: answer(on, 900, "The code is 4471", "unknown"))
    before = served.do(lambda on: on.redis.hget(keys.message(lost), "whatsapp_id"))
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    expect(page.locator(f"#m-{lost} .under")).to_contain_text("keeps its WhatsApp id, so nobody sees it twice")
    expect(page.locator("[action='/do/send-again']")).to_have_count(0)
    page.locator(f"#m-{lost}").get_by_role("button", name="Retry", exact=True).click()
    expect(page.locator(f"#m-{lost} .under")).to_contain_text("Queued")
    expect(page.locator(".msg.ours")).to_have_count(1)  # it is the same message, not a second one
    assert served.do(lambda on: on.redis.hget(keys.message(lost), "whatsapp_id")) == before
    page.context.close()


@pytest.mark.parametrize("path", [f"/inbox?c={HERE}", f"/messages?id=m_{900:018x}"])
def test_a_retry_that_may_leave_from_another_phone_asks_first(
    served: ServedFleet, chromium: Browser, path: str
) -> None:
    lost = served.do(lambda on: answer(on, 900, "The code is 4471", "unknown"))
    served.do(lambda on: on.redis.hset(keys.message(lost), "reason", Failure.SENDER_LOST))
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    page.goto(served.address + path)
    page.get_by_role("button", name="Retry…").click()
    expect(page.locator("dialog[open]")).to_contain_text("would then get it twice")
    page.keyboard.press("Escape")
    assert served.do(lambda on: on.redis.hget(keys.message(lost), "status")) == "unknown"
    page.context.close()


def test_an_unconfirmed_message_whose_text_is_erased_cannot_be_retried(served: ServedFleet, chromium: Browser) -> None:
    lost = served.do(lambda on: answer(on, 900, "The code is 4471", "unknown"))
    served.do(lambda on: on.redis.hdel(keys.message(lost), "body"))
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    expect(page.locator(f"#m-{lost} .under")).to_contain_text("Not confirmed")
    expect(page.locator(f"#m-{lost} button")).to_have_text(["The contact has it"])
    page.context.close()


@pytest.mark.parametrize(("language", "theme", "width"), [("en", "light", 1280), ("he", "dark", 390)])
def test_the_inbox_keeps_nobody_out_and_runs_nothing_that_people_wrote(
    served: ServedFleet, chromium: Browser, language: str, theme: str, width: int
) -> None:
    context = visit(chromium, served.address, language=language, theme=theme, width=width)
    page = log_in(context, served.address, PASSWORD)
    said: list[str] = []
    page.on("dialog", lambda dialog: said.append(dialog.message))
    for path in ("/inbox", f"/inbox?c={HERE}", "/inbox?q=gil", "/inbox?q=nobody"):
        page.goto(served.address + path)
        page.wait_for_selector("h1", state="attached")
        assert serious(page) == [], path
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert (over, page.evaluate(OVER_THE_EDGE) if path == "/inbox" else []) == (0, []), path
        if width < 400:
            page.set_viewport_size({"width": 320, "height": 900})
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over == 0, f"{path} at 320"
            page.set_viewport_size({"width": width, "height": 900})
    assert said == []
    context.close()


async def _move_back(on: FleetBuilder, name: str, days: int) -> None:
    thread, message = keys.thread(SESSION, DANA), incoming.id_of(SESSION, name)
    await on.redis.zadd(thread, {message: await on.scripts.now_ms() - days * 86_400_000})


@pytest.mark.parametrize(("language", "names"), [("en", ["Yesterday", "Today"]), ("he", ["אתמול", "היום"])])
def test_a_line_stands_between_the_days_also_when_earlier_ones_are_read_back(
    served: ServedFleet, chromium: Browser, language: str, names: list[str]
) -> None:
    served.do(lambda on: _move_back(on, "3A02", 1))
    page = log_in(visit(chromium, served.address, language=language), served.address, PASSWORD)
    opened(page, served.address)
    expect(page.locator(".msgs > .day")).to_have_text(names)
    assert page.locator(".msgs > li").first.get_attribute("class") == "day"
    served.do(lambda on: says(on, "3A08", "Thank you!"))
    expect(page.locator(".msg").last).to_contain_text("Thank you!")
    expect(page.locator(".msgs > .day")).to_have_text(names)  # the day is the same
    served.do(_talk)
    page.goto(f"{served.address}/inbox?c={HERE}")
    expect(page.locator(".msgs > .day")).to_have_text(names[1:])
    for shown in (60, 90, 120, 150, 156):
        page.evaluate("document.querySelector('#messages').scrollTop = 0")
        expect(page.locator(".msg")).to_have_count(shown)
    expect(page.locator(".msgs > .day")).to_have_text(names)
    page.context.close()


def test_a_note_stands_in_the_thread_where_it_was_written_and_says_that_it_was_not_sent(
    served: ServedFleet, chromium: Browser
) -> None:
    page = log_in(visit(chromium, served.address, width=1440), served.address, PASSWORD)
    opened(page, served.address)
    page.wait_for_selector("body[data-live]")
    expect(page.locator(".note")).to_have_count(0)
    page.fill("#facts [name=notes]", "Prefers the morning <b>")
    page.click("#facts form button")
    note = page.locator(".msgs > .note")
    expect(note).to_be_visible()
    expect(note).to_contain_text("Dana Note, not sent")
    expect(note).to_contain_text("last changed")
    expect(page.locator("#facts .noted")).to_contain_text("Last changed by Dana")
    expect(note.locator("p")).to_have_text("Prefers the morning <b>")
    served.do(lambda on: says(on, "3A08", "Thank you!"))
    expect(page.locator(".msgs > li").last).to_contain_text("Thank you!")  # came later
    expect(page.locator(".msgs > li:nth-last-child(2)")).to_have_id("thread-note")
    served.do(_talk)
    page.goto(f"{served.address}/inbox?c={HERE}")
    expect(page.locator(".msg:not(.note)")).to_have_count(30)
    expect(note).to_be_hidden()  # what was said around it is not here yet
    for shown in (60, 90, 120, 150, 156):
        page.evaluate("document.querySelector('#messages').scrollTop = 0")
        expect(page.locator(".msg:not(.note)")).to_have_count(shown)
    expect(page.locator("#thread-note + .msg")).to_contain_text("Thank you!")
    page.context.close()


def test_text_in_a_part_of_the_page_stays_when_its_writer_goes_on_to_the_next_field(
    served: ServedFleet, chromium: Browser
) -> None:
    page = log_in(visit(chromium, served.address, width=1440), served.address, PASSWORD)
    opened(page, served.address)
    page.wait_for_selector("body[data-live]")
    page.fill("#facts [name=notes]", "half of a note")
    page.press("#facts [name=notes]", "Tab")
    served.do(lambda on: on.redis.hset(keys.conversation(SESSION, DANA), "tags", '["from elsewhere"]'))
    served.do(lambda on: says(on, "3A09", "One more thing"))
    expect(page.locator("#facts .tags")).to_contain_text("from elsewhere")  # the part is a new one
    expect(page.locator("#facts [name=notes]")).to_have_value("half of a note")
    page.click("#facts button:has-text('Save')")
    expect(page.locator("#facts .noted")).to_be_visible()
    page.fill("#facts [name=notes]", "a whole note")
    page.click("#facts button:has-text('Save')")
    page.locator("#facts .earlier summary").click()
    expect(page.locator("#facts .earlier")).to_contain_text("half of a note")
    page.context.close()


def test_filters_say_how_many_conversations_they_show(served: ServedFleet, chromium: Browser) -> None:
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    page.goto(f"{served.address}/inbox")
    chips = page.locator("#inbox-chips a")
    expect(chips).to_have_text(["Open 2", "Waiting 2", "Mine 0", "Nobody's 2", "Closed 0"])
    page.wait_for_selector("body[data-live]")
    served.do(lambda on: says(on, "3A09", "Hello?", phone="972525550300"))
    expect(chips).to_have_text(["Open 3", "Waiting 3", "Mine 0", "Nobody's 3", "Closed 0"])
    opened(page, served.address)
    page.click("[data-close-form] button")
    expect(chips).to_have_text(["Open 2", "Waiting 2", "Mine 0", "Nobody's 2", "Closed 1"])
    page.context.close()


def test_an_upload_that_was_cut_keeps_the_file_and_is_retried_from_its_chip(
    served: ServedFleet, chromium: Browser
) -> None:
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    page.evaluate(_FILE, "drop")
    page.fill("#reply textarea", "Here it is")
    page.route("**/inbox/upload", lambda route: route.abort())
    page.press("#reply textarea", "Enter")
    chip = page.locator(".attach li")
    expect(chip.get_by_role("alert")).to_have_text("The upload broke off. Your text and the file are still here.")
    expect(page.locator("#reply textarea")).to_have_value("Here it is")
    expect(page.locator(".msg.ours")).to_have_count(0)
    page.unroute("**/inbox/upload")
    chip.get_by_role("button", name="Retry").click()
    expect(page.locator(".msg.ours .file")).to_contain_text("drop.pdf")
    expect(page.locator(".msg.ours .file a[download]")).to_have_count(1)  # what was sent can be looked at again
    expect(page.locator(".msg.ours")).to_have_count(1)
    expect(chip).to_have_count(0)
    expect(page.locator("#reply textarea")).to_have_value("")
    page.context.close()


#: One pixel.
_PICTURE = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")


@pytest.mark.parametrize("status", [410, 503])
def test_a_picture_that_cannot_be_fetched_says_so_and_is_tried_again(
    served: ServedFleet, chromium: Browser, status: int
) -> None:
    served.do(lambda on: says(on, "3A09", "", "image", media={"mimetype": "image/gif", "width": 90, "height": 60}))
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    page.route("**/inbox/media/*", lambda route: route.fulfill(status=status, json={"error": {"code": "GONE"}}))
    opened(page, served.address)
    told = page.locator(".msg").last
    expect(told).to_contain_text("The picture cannot be shown")
    expect(told.locator("img")).to_be_hidden()
    told.get_by_role("button", name="Try again").click()
    expect(told).to_contain_text("The picture cannot be shown")  # it still cannot
    page.unroute("**/inbox/media/*")
    page.route("**/inbox/media/*", lambda route: route.fulfill(content_type="image/gif", body=_PICTURE))
    told.get_by_role("button", name="Try again").click()
    expect(told.locator("img")).to_be_visible()
    expect(told).not_to_contain_text("The picture cannot be shown")
    page.context.close()


def test_a_small_picture_stands_where_the_large_one_is_not_yet_or_not_any_more(
    served: ServedFleet, chromium: Browser
) -> None:
    sized = {"mimetype": "image/jpeg", "width": 900, "height": 600}
    served.do(lambda on: says(on, "3A21", "", "image", media=sized, parts={"hasThumbnail": True}))
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    asked: list[Route] = []

    def hold(route: Route) -> None:
        asked.append(route)

    page.route("**/inbox/media/*", hold)
    page.route("**/inbox/thumbnail/*", lambda route: route.fulfill(content_type="image/jpeg", body=jpeg()))
    opened(page, served.address)
    told, small = page.locator(".msg").last, page.locator(".msg img.ahead")
    expect(small).to_have_js_property("naturalWidth", 72)
    assert small.bounding_box() == told.locator(".shot").bounding_box()  # as large as the picture will be
    expect(told).not_to_contain_text("The picture cannot be shown")
    assert len(asked) == 1
    asked[0].fulfill(status=410, json={"error": {"code": "GONE"}})
    expect(told).to_contain_text("The picture cannot be shown")
    expect(told.locator("img[data-file]")).to_be_hidden()
    expect(small).to_be_visible()
    page.context.close()


def test_what_has_no_small_picture_any_more_is_shown_without_it(served: ServedFleet, chromium: Browser) -> None:
    document = {"mimetype": "application/pdf", "filename": "offer.pdf"}
    link = {"parts": {"hasThumbnail": True}}
    served.do(lambda on: says(on, "3A22", "", "document", media=document, **link))
    served.do(lambda on: says(on, "3A23", "https://shop.test", **link))
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    asked: list[str] = []
    page.on("response", lambda answer: asked.append(answer.url) if "/inbox/thumbnail/" in answer.url else None)
    opened(page, served.address)
    expect(page.locator(".msg img")).to_have_count(0)
    expect(page.locator(".msg").last).to_contain_text("https://shop.test")
    assert len(asked) == 2
    page.context.close()


def _posted(page: Page, action: str) -> list[dict[str, str]]:
    """Answer an action as if WhatsApp had taken it; what was posted is in the list."""
    posted: list[dict[str, str]] = []

    def take(route: Route) -> None:
        fields = re.findall(r'name="(\w+)"\r\n\r\n(.*?)\r\n--', route.request.post_data or "", re.DOTALL)
        posted.append(dict(fields))
        route.fulfill(json={"state": "ok", "toast": '<div class="toast"><div><b>Done</b></div></div>'})

    page.route(f"**/do/{action}", take)
    return posted


def test_what_somebody_wrote_is_reacted_to_and_quoted_from_its_menu(served: ServedFleet, chromium: Browser) -> None:
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    reactions = _posted(page, "message-react")
    first, menu = page.locator(".msg").first, page.locator("#acts")
    first.hover()
    first.get_by_role("button", name="React, answer, change").click()
    expect(menu).to_be_visible()
    expect(menu.get_by_role("button", name="Edit")).to_be_hidden()  # it is theirs
    expect(menu.get_by_role("button", name="Delete")).to_be_hidden()
    menu.get_by_role("button", name="React with ❤️").click()
    expect(menu).to_be_hidden()
    expect(page.locator(".toast")).to_contain_text("Done")
    assert reactions == [{"id": incoming.id_of(SESSION, "3A02"), "emoji": "❤️"}]
    first.get_by_role("button", name="React, answer, change").click()
    menu.get_by_role("button", name="Reply to this").click()
    expect(page.locator("[data-quoted]")).to_contain_text("12 Example Street")
    page.keyboard.type("This afternoon")
    page.keyboard.press("Enter")
    expect(page.locator(".msg.ours .quote")).to_contain_text("12 Example Street")
    expect(page.locator(".msg.ours [data-acts]")).to_have_count(0)  # WhatsApp does not have it yet
    page.context.close()


def test_our_message_is_edited_in_the_reply_box_and_deleted_after_a_question(
    served: ServedFleet, chromium: Browser
) -> None:
    sent = served.do(lambda on: answer(on, 901, "See you at nien", "sent"))
    old = served.do(lambda on: answer(on, 902, "Yesterday's", "sent"))
    served.do(lambda on: _age(on, old, hours=3))
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    edits, deletions = _posted(page, "message-edit"), _posted(page, "message-delete")
    box, menu, strip = page.locator("#reply textarea"), page.locator("#acts"), page.locator("[data-quoted]")
    box.fill("a draft")
    page.locator(f"#m-{sent} [data-acts]").click()
    menu.get_by_role("button", name="Edit").click()
    expect(strip).to_have_text(re.compile("Editing: See you at nien"))
    expect(box).to_have_value("See you at nien")
    box.fill("See you at nine")
    box.press("Enter")
    expect(strip).to_be_hidden()
    expect(box).to_have_value("a draft")  # what had been begun before is there again
    assert edits == [{"id": sent, "text": "See you at nine"}]
    page.locator(f"#m-{old} [data-acts]").click()
    expect(menu.get_by_role("button", name="Edit")).to_be_hidden()  # WhatsApp's time for it is over
    menu.get_by_role("button", name="Delete for everyone…").click()
    assert deletions == []
    page.locator("dialog[open]").get_by_role("button", name="Delete for everyone").click()
    expect(page.locator(".toast")).to_contain_text("Done")
    assert deletions == [{"id": old}]
    page.context.close()


def test_an_edit_that_was_left_before_its_answer_came_ends_without_an_error(
    served: ServedFleet, chromium: Browser
) -> None:
    sent = served.do(lambda on: answer(on, 903, "See you at ten", "sent"))
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    page.route("**/do/message-edit", hold)
    box = page.locator("#reply textarea")
    box.fill("a draft")
    page.locator(f"#m-{sent} [data-acts]").click()
    page.locator("#acts").get_by_role("button", name="Edit").click()
    with page.expect_request("**/do/message-edit"):
        box.press("Enter")
    box.press("Escape")
    expect(box).to_have_value("a draft")
    waiting[0].fulfill(json={"state": "ok", "toast": '<div class="toast"><div><b>Done</b></div></div>'})
    expect(page.locator("#said")).to_have_text("Done")
    expect(page.locator("#reply [data-error]")).to_be_hidden()
    expect(box).to_have_value("a draft")
    page.context.close()


async def _age(on: FleetBuilder, message: str, hours: int) -> None:
    await on.redis.hset(keys.message(message), "accepted_at", await on.scripts.now_ms() - hours * 3_600_000)


async def _misses_a_call(on: FleetBuilder) -> None:
    ours = Phone(str(await on.redis.hget(keys.session(SESSION), "phone")))
    call = CallReported(SessionId(SESSION), ours, "c1", "false", Phone(DANA), "", outcome="missed")
    await contacts.report_call(on.scripts, EventType.CALL_ENDED, call, keep_ms=10**9)
    unread = contacts.Incoming(SESSION, ours, "3A99", "", DANA)
    await contacts.report_undecryptable(on.scripts, unread, reason="decrypt", keep_ms=10**9)


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("en", ("Missed voice call", "cannot be read here yet")),
        ("he", ("שיחה קולית שלא נענתה", "אי אפשר לקרוא כאן עדיין")),
    ],
)
def test_a_missed_call_and_what_cannot_be_read_stand_in_the_thread_at_once(
    served: ServedFleet, chromium: Browser, language: str, told: tuple[str, str]
) -> None:
    page = log_in(visit(chromium, served.address, language=language), served.address, PASSWORD)
    opened(page, served.address)
    page.wait_for_selector("body[data-live]")
    served.do(_misses_a_call)
    expect(page.locator(".msgs > .event")).to_contain_text(list(told))
    served.do(lambda on: says(on, "3A99", "Can you call me?"))  # its author sent it again
    expect(page.locator(".msg").last).to_contain_text("Can you call me?")
    page.reload()
    expect(page.locator(".msgs > .event")).to_contain_text([told[0]])
    page.context.close()


GROUP = "120363025246125486@g.us"


async def _group_talk(on: FleetBuilder) -> None:
    ours = str(await on.redis.hget(keys.session(SESSION), "phone"))
    said = {"at": 1, "text": "Who has the key?", "push_name": "Tamar"}
    quoted = {"replyTo": {"whatsappId": "3C01", "text": "Who has the key?", "phone": "972525550131"}}
    liked = {"target": {"whatsappId": "3C01"}}
    for name, kind, fields, by in (
        ("3C01", "text", said, "972525550131"),
        ("3C02", "text", {"at": 1, "text": "Gil", "parts": json.dumps(quoted)}, "972525550139"),
        ("3C03", "reaction", {"at": 1, "text": "🙏", "parts": json.dumps(liked)}, ""),
    ):
        message = contacts.Incoming(
            SESSION, ours, name, kind, by, "" if by else "99887766554433", GROUP, fields, name="Building 12",
            target="3C01" if kind == "reaction" else "",
        )  # fmt: skip
        await contacts.receive(on.scripts, message, keep_ms=10**9)


def test_in_a_group_a_quote_and_a_reaction_name_the_member_and_not_the_group(
    served: ServedFleet, chromium: Browser
) -> None:
    served.do(_group_talk)
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    page.goto(f"{served.address}/inbox?c={conversation.id_of(SESSION, GROUP)}")
    expect(page.locator(".quote b")).to_have_text("+972525550131")
    expect(page.locator(".react [title]")).to_have_attribute("title", "Hidden number")
    page.context.close()


def test_the_end_stays_in_sight_when_a_picture_of_unknown_size_arrives(served: ServedFleet, chromium: Browser) -> None:
    served.do(_talk)
    served.do(lambda on: says(on, "3C41", "", "image", media={"mimetype": "image/jpeg"}))
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    page.route("**/inbox/media/*", lambda route: route.fulfill(content_type="image/jpeg", body=jpeg(300, 300)))
    opened(page, served.address)
    expect(page.locator(".msg").last.locator("img[data-file]")).to_have_js_property("naturalWidth", 300)
    expect(page.locator(".msg").last.locator(".meta")).to_be_in_viewport()
    page.context.close()


_AT_THE_START = """where => {
  const text = document.createRange()
  text.selectNodeContents(document.querySelector(where))
  const box = document.querySelector(where).parentElement.getBoundingClientRect()
  return Math.round(box.right - text.getBoundingClientRect().right) }"""


def test_an_address_and_a_quote_in_latin_letters_begin_where_a_page_in_hebrew_does(
    served: ServedFleet, chromium: Browser
) -> None:
    place = {"latitude": 32.08, "longitude": 34.78, "name": "Example Square", "address": "1 Main St"}
    served.do(lambda on: says(on, "3A31", "", "location", location=place))
    page = log_in(visit(chromium, served.address, language="he"), served.address, PASSWORD)
    opened(page, served.address)
    assert page.evaluate(_AT_THE_START, ".file .two small[dir]") <= 1
    assert page.evaluate(_AT_THE_START, ".say > .quote [dir]") <= 16  # its padding
    page.context.close()


def test_a_viewer_reads_and_has_no_reply_box(served: ServedFleet, chromium: Browser) -> None:
    page = log_in(visit(chromium, served.address), served.address, VIEWER_PASSWORD)
    page.goto(f"{served.address}/inbox?c={HERE}")
    expect(page.locator(".msg")).to_have_count(5)
    expect(page.locator("#reply, [data-close-form], [data-acts]")).to_have_count(0)
    page.context.close()


async def _talk(on: FleetBuilder) -> None:
    for at in range(150):
        await says(on, f"3B{at:04X}", f"Line {at}")


def test_a_long_conversation_opens_at_its_end_and_is_read_back_page_by_page(
    served: ServedFleet, chromium: Browser
) -> None:
    served.do(_talk)
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    expect(page.locator(".msg")).to_have_count(30)
    expect(page.locator(".msg").last).to_be_in_viewport()
    for shown in (60, 90, 120, 150, 155):
        first = page.locator(".msg").first.get_attribute("id")
        page.evaluate("document.querySelector('#messages').scrollTop = 0")  # reading back fetches what comes before
        expect(page.locator(".msg")).to_have_count(shown)
        expect(page.locator(f"#{first}")).to_be_in_viewport()  # what was read stays where it was
    expect(page.locator("[data-earlier]")).to_have_count(0)
    expect(page.locator(".msg").first).to_contain_text("12 Example Street")
    page.context.close()


_FILE = """kind => {
  const carried = new DataTransfer()
  carried.items.add(new File(['%PDF-1.4'], `${kind}.pdf`, { type: 'application/pdf' }))
  const at = document.querySelector('#reply textarea')
  const how = { bubbles: true, cancelable: true }
  at.dispatchEvent(kind === 'paste'
    ? new ClipboardEvent('paste', { ...how, clipboardData: carried })
    : new DragEvent('drop', { ...how, dataTransfer: carried })) }"""


def _keeps(draft: str, answer: Response) -> bool:
    """Whether the server has taken this draft."""
    return (
        answer.url.endswith("/inbox/here") and answer.ok and (answer.request.post_data_json or {}).get("draft") == draft
    )


def test_a_draft_follows_its_writer_and_others_see_that_somebody_writes(served: ServedFleet, chromium: Browser) -> None:
    dana = log_in(visit(chromium, served.address), served.address, PASSWORD)
    maya = log_in(visit(chromium, served.address), served.address, PASSWORD, "Maya")
    opened(maya, served.address)
    opened(dana, served.address)
    strip = dana.locator("[data-presence]")
    expect(strip).to_have_text("Maya has this open too.")
    maya.clock.install()
    maya.clock.pause_at(maya.evaluate("Date.now()") / 1000 + 1)  # she has just written, however long the others take
    maya.locator("#reply textarea").press_sequentially("I will look")
    with maya.expect_response(partial(_keeps, "I will look")):
        maya.clock.run_for(2000)
    dana.goto(f"{served.address}/inbox?c={HERE}")
    expect(strip).to_have_text("Maya is writing an answer here now. Yours is kept as a draft.")
    expect(dana.locator("#reply textarea")).to_have_value("")  # a draft is its writer's own
    elsewhere = log_in(visit(chromium, served.address), served.address, PASSWORD, "Maya")
    elsewhere.goto(f"{served.address}/inbox?c={HERE}")
    expect(elsewhere.locator("#reply textarea")).to_have_value("I will look")
    expect(elsewhere.locator(f"#cv-{HERE} .say-short")).to_have_text("Draft: I will look")
    with elsewhere.expect_response(partial(_keeps, "")):
        elsewhere.press("#reply textarea", "Enter")
    expect(elsewhere.locator("#reply textarea")).to_have_value("")
    elsewhere.goto(f"{served.address}/inbox?c={HERE}")
    expect(elsewhere.locator("#reply textarea")).to_have_value("")
    for page in (dana, maya, elsewhere):
        page.context.close()


def test_an_answer_quotes_and_carries_files_that_were_dropped_or_pasted(served: ServedFleet, chromium: Browser) -> None:
    page = log_in(visit(chromium, served.address), served.address, PASSWORD)
    opened(page, served.address)
    for kind in ("drop", "paste"):
        page.evaluate(_FILE, kind)
    expect(page.locator(".attach li")).to_have_count(2)
    page.press("#reply textarea", "ArrowUp")
    expect(page.locator("[data-quoted]")).to_be_visible()
    page.fill("#reply textarea", "Here they are")
    page.press("#reply textarea", "Enter")
    expect(page.locator(".msg.ours .file")).to_have_count(2)
    expect(page.locator(".msg.ours .quote")).to_have_count(1)
    expect(page.locator("[data-quoted]")).to_be_hidden()
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(page.locator("#facts [name=assigned]")).to_be_focused()
    page.context.close()
