"""Linking with a passkey in a real browser: the owner signs on WhatsApp's site, and the device is linked, or he reads why not."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.dashboard.browsing import visit
from tests.dashboard.serving import API_KEY
from tests.dashboard.test_walkthrough import Product, running_product
from tests.waiting import PATIENCE_S, until_blocking
from wa_orchestrator.simulator.whatsapp.faults import KINDS, PASSKEY_FAULTS

pytestmark = pytest.mark.browser
SITE, OTHER_SITE = "https://web.whatsapp.com/", "https://www.whatsapp.com/"
#: A phone that does not answer is given up after two minutes; here after 15 s, and everybody else keeps his patience.
FAST = {"time_scale": 8, "ping_timeout_ms": 1_800_000}
FAILED, REFUSED = "Not linked. Nothing was changed.", "WhatsApp refused the answer."
BROKEN_OFF, NO_ANSWER = "WhatsApp ended the attempt.", "The phone did not answer within two minutes."
OLDER = "It answers an older request."


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running_product(tmp_path_factory.mktemp("product"), **FAST) as made:
        yield made


@pytest.fixture
def person(product: Product, chromium: Browser) -> Iterator[BrowserContext]:
    """An administrator's browser, in which WhatsApp's site is an empty page."""
    with visit(chromium, product.address) as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=product.address)
        context.route(re.compile(f"{re.escape(SITE)}|{re.escape(OTHER_SITE)}"), _be_whatsapp)
        yield context


def _arrive(person: BrowserContext, made: Product) -> Page:
    page = person.new_page()
    page.goto(made.link())
    page.wait_for_url(made.address + "/")
    return page


def _provisioned(page: Page, address: str, phone: str) -> str:
    """A session whose code waits; its id."""
    page.goto(f"{address}/scan")
    page.keyboard.press("n")
    page.fill("#new-session [name=label]", f"Branch {phone[-2:]}")
    page.locator("#new-session .primary").click()
    page.wait_for_url(re.compile(r"/scan\?id="))
    expect(page.locator("#qr-card .qr[data-s=qr_ready] svg.code")).to_be_visible()
    return page.url.partition("id=")[2]


def _scan(made: Product, session: str, phone: str, fault: dict[str, Any], *, before: str = "") -> str:
    """Scan, with a phone whose account has a passkey, a code other than the one `before`. Returns the code."""
    body = {"target": {"phone": phone}, "kind": "passkey", "times": 1, **fault}
    made.control.post("/faults", json=body).raise_for_status()

    def fresh() -> str | None:
        shown = httpx.get(
            f"{made.address}/api/sessions/{session}/qr", headers={"X-API-Key": API_KEY}, timeout=PATIENCE_S
        )
        code = str(shown.json()["qr"]) if shown.is_success else before
        return code if code != before else None

    qr = until_blocking(fresh, "a code that was not scanned yet")
    made.control.post(f"/phones/{phone}/scan", json={"qr": qr}).raise_for_status()
    return qr


def _whatsapps_site(page: Page, made: Product, phone: str, *, verifies: bool = True) -> Page:
    """WhatsApp's site in another tab, and a virtual authenticator with the passkey of the account.

    Without `verifies` nobody unlocks it: the person cancels.
    """
    site = page.context.new_page()
    held = made.control.get(f"/phones/{phone}/passkey").raise_for_status().json()
    devtools = page.context.new_cdp_session(site)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": verifies, "automaticPresenceSimulation": True,
    }  # fmt: skip
    added = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    credential = {**held, "isResidentCredential": True, "signCount": 0}
    arguments = {"authenticatorId": added["authenticatorId"], "credential": credential}
    devtools.send("WebAuthn.addCredential", arguments)
    site.goto(SITE)
    return site


def _be_whatsapp(route: Route) -> None:
    route.fulfill(content_type="text/html", body="<!doctype html><title>WhatsApp</title><body></body>")


def _devices(made: Product, phone: str) -> list[int]:
    return [each["device"] for each in made.control.get(f"/phones/{phone}/devices").json()]


def test_the_owner_signs_on_whatsapps_site_and_the_session_is_linked(product: Product, person: BrowserContext) -> None:
    page, phone = _arrive(person, product), "972509990102"
    session = _provisioned(page, product.address, phone)
    _scan(product, session, phone, {})
    page.get_by_role("link", name="Sign with the passkey").click()
    expect(page.locator(".notice[data-s=warn]")).to_contain_text("how accounts get stolen")
    _see_the_clock_run(page)
    page.locator("[data-copy-code]").click()
    expect(page.locator("[data-copy-code] span")).not_to_have_text("Copy the code")
    pasted = page.evaluate("navigator.clipboard.readText()")
    assert "fetch(" not in pasted
    site = _whatsapps_site(page, product, phone)
    site.evaluate(pasted)
    site.get_by_role("button", name="Sign with passkey").click()
    expect(site.locator("#passkey-panel textarea")).to_be_visible()
    site.get_by_role("button", name="Send back").click()
    site.wait_for_url(re.compile(r"/link/.*/passkey"))
    expect(site.locator("#passkey")).to_contain_text("Linked with the passkey")
    assert "pk=" not in site.url
    assert _devices(product, phone) == [1]


def _see_the_clock_run(page: Page) -> None:
    """The time left is counted on the page; when it is over, the page says so and where to go on."""
    clock = page.locator("#passkey [data-until]")
    expect(clock).to_have_text(re.compile(r"^(9|10):[0-5]\d$"))
    seen = clock.text_content() or ""
    expect(clock).not_to_have_text(seen)
    expect(page.locator("[data-over]")).to_be_hidden()
    ends = clock.evaluate("clock => { const was = clock.dataset.until; clock.dataset.until = 1; return was }")
    expect(clock).to_have_text("0:00")
    expect(page.locator("[data-over]")).to_contain_text("Time is up. Start again with a new code")
    clock.evaluate("(clock, ends) => { clock.dataset.until = ends }", ends)
    expect(page.locator("[data-over]")).to_be_hidden()


def _sign(page: Page, site: Page) -> None:
    """Sign what the page asks now, and paste the answer into it."""
    site.goto(SITE)
    site.evaluate(page.locator("[data-code]").text_content() or "")
    site.get_by_role("button", name="Sign with passkey").click()
    _paste(page, site.locator("#passkey-panel textarea").input_value())


def _paste(page: Page, answer: str) -> None:
    page.fill("#passkey-answer [name=answer]", answer)
    page.locator("#passkey-answer .primary").click()


def _compare(page: Page, made: Product, phone: str) -> None:
    """Compare the codes, and confirm on both sides; until then nothing is linked."""
    expect(page.locator("#passkey")).to_contain_text("Does the phone show the same code?")
    assert _devices(made, phone) == []
    code = made.control.post(f"/phones/{phone}/confirm-link").raise_for_status().json()["code"]
    expect(page.locator("#passkey .code8")).to_have_text(code)
    page.get_by_role("button", name="The phone shows the same code").click()


#: What goes wrong first, the sentence about it, and what is otherwise than usual when the person begins anew.
PAIRS: Final[Sequence[tuple[str, str, str]]] = (
    ("drop", "The connection closed.", "noOptions"),
    ("shortNonce", BROKEN_OFF, "twice"),
    ("unknownChild", BROKEN_OFF, "twiceAfter"),
    ("oldSecret", "WhatsApp’s pairing was not signed for this device", "refuse"),
    ("foreign", NO_ANSWER, "compare"),
    ("noContinuation", NO_ANSWER, "staleChallenge"),
    ("garbage", BROKEN_OFF, "oldProof"),
)
#: After these WhatsApp asks once more, and the answer to that comes without a proof.
ASKS_AGAIN: Final = frozenset({"refuse", "staleChallenge", "oldProof"})


def test_every_fault_of_the_simulators_menu_is_met_in_the_browser() -> None:
    assert {name for wrong, _, then in PAIRS for name in (wrong, then)} == set(PASSKEY_FAULTS)
    assert {name for name in PASSKEY_FAULTS if f"{name} (" not in KINDS["passkey"]} == set()


@pytest.mark.parametrize(("wrong", "sentence", "then"), PAIRS, ids=lambda each: each if each.isalpha() else "")
def test_whatever_goes_wrong_the_page_says_what_and_the_person_can_go_on(
    product: Product, person: BrowserContext, wrong: str, sentence: str, then: str
) -> None:
    page, phone = _arrive(person, product), f"97250999020{PAIRS.index((wrong, sentence, then))}"
    session = _provisioned(page, product.address, phone)
    scanned = _scan(product, session, phone, {wrong: True})
    page.get_by_role("link", name="Sign with the passkey").click()
    site = _whatsapps_site(page, product, phone)
    _paste(page, '{"no": "answer"}')
    expect(page.locator("#passkey-answer [data-error]")).to_contain_text("not the answer of a passkey")
    _sign(page, site)
    expect(page.locator("#passkey p.body[role=status]")).to_contain_text(f"{FAILED} {sentence}")
    assert _devices(product, phone) == []
    page.get_by_role("link", name="Start again with a new code").click()
    _scan(product, session, phone, {then: 1}, before=scanned)
    page.get_by_role("link", name="Sign with the passkey").click()
    _sign(page, site)
    if then == "twice":
        _sign_the_newer(page, site)
    if then in ASKS_AGAIN:
        expect(page.locator("#passkey p.body[role=status]")).to_contain_text(REFUSED)
        _sign(page, site)
    if then in ASKS_AGAIN or then == "compare":
        _compare(page, product, phone)
    expect(page.locator("#passkey")).to_contain_text("Linked with the passkey")
    assert len(_devices(product, phone)) == 1


def test_what_the_person_does_wrong_is_said_and_costs_no_attempt_before_whatsapp_has_it(
    product: Product, person: BrowserContext
) -> None:
    page, phone = _arrive(person, product), "972509990210"
    session = _provisioned(page, product.address, phone)
    _scan(product, session, phone, {})
    page.get_by_role("link", name="Sign with the passkey").click()
    code = page.locator("[data-code]").text_content() or ""

    elsewhere = _whatsapps_site(page, product, phone)
    elsewhere.goto(OTHER_SITE)
    with elsewhere.expect_event("dialog") as asked:
        elsewhere.once("dialog", lambda dialog: dialog.dismiss())
        elsewhere.evaluate(code)
    assert asked.value.message == "Wrong site: open web.whatsapp.com"
    elsewhere.evaluate(code.replace("https://web.whatsapp.com", OTHER_SITE.removesuffix("/")))
    elsewhere.get_by_role("button", name="Sign with passkey").click()
    _paste(page, elsewhere.locator("#passkey-panel textarea").input_value())
    expect(page.locator("#passkey-answer [data-error]")).to_contain_text("signed on another site")

    locked = _whatsapps_site(page, product, phone, verifies=False)
    locked.evaluate(code)
    locked.get_by_role("button", name="Sign with passkey").click()
    expect(locked.locator("#passkey-panel")).to_contain_text("No passkey was given (NotAllowedError)")

    _sign(page, _whatsapps_site(page, product, "972509990211"))
    expect(page.locator("#passkey p.body[role=status]")).to_contain_text(REFUSED)
    _sign(page, _whatsapps_site(page, product, phone))
    _compare(page, product, phone)
    expect(page.locator("#passkey")).to_contain_text("Linked with the passkey")
    assert len(_devices(product, phone)) == 1


def _sign_the_newer(page: Page, site: Page) -> None:
    """Of two requests only the newer can be answered: whoever signed the other reads that, and signs again."""
    refused = page.locator("#passkey-answer [data-error]:not([hidden])")
    expect(refused.or_(page.locator("#passkey:not([data-stage=required])")).first).to_be_visible()
    if refused.count():
        expect(refused).to_contain_text(OLDER)
        _sign(page, site)


def test_without_a_request_the_page_says_so(product: Product, person: BrowserContext) -> None:
    page = _arrive(person, product)
    session = _provisioned(page, product.address, "972509990103")
    page.goto(f"{product.address}/link/{session}/passkey")
    expect(page.locator("#passkey")).to_contain_text("does not ask for a passkey now")
