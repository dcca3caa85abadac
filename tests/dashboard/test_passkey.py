"""Linking with a passkey in a real browser: the owner signs on WhatsApp's site, comes back, and the device is linked."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.dashboard.browsing import visit
from tests.dashboard.test_walkthrough import SLOW_MS, Product, product

__all__ = ["product"]
pytestmark = pytest.mark.browser
SITE = "https://web.whatsapp.com/"


def _provisioned(page: Page, address: str, phone: str) -> str:
    """A session whose code waits; its id."""
    page.goto(f"{address}/scan")
    page.keyboard.press("n")
    page.fill("#new-session [name=label]", f"Branch {phone[-2:]}")
    page.locator("#new-session .primary").click()
    page.wait_for_url(re.compile(r"/scan\?id="))
    expect(page.locator("#qr-card .qr[data-s=qr_ready] svg.code")).to_be_visible(timeout=SLOW_MS)
    return page.url.partition("id=")[2]


def _scan(made: Product, session: str, phone: str, **fault: Any) -> None:
    """Scan with a phone whose account has a passkey."""
    body = {"target": {"phone": phone}, "kind": "passkey", "times": 1, **fault}
    made.control.post("/faults", json=body).raise_for_status()
    key = made.server.context.settings.api_key.get_secret_value()
    import httpx

    code = httpx.get(f"{made.address}/api/sessions/{session}/qr", headers={"X-API-Key": key}).raise_for_status()
    made.control.post(f"/phones/{phone}/scan", json={"qr": code.json()["qr"]}).raise_for_status()


def _whatsapps_site(page: Page, made: Product, phone: str) -> Page:
    """WhatsApp's site in another tab, and a virtual authenticator with the passkey of the account."""
    site = page.context.new_page()
    held = made.control.get(f"/phones/{phone}/passkey").raise_for_status().json()
    devtools = page.context.new_cdp_session(site)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": True, "automaticPresenceSimulation": True,
    }  # fmt: skip
    added = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    credential = {**held, "isResidentCredential": True, "signCount": 0}
    arguments = {"authenticatorId": added["authenticatorId"], "credential": credential}
    devtools.send("WebAuthn.addCredential", arguments)
    site.goto(SITE)
    return site


def _be_whatsapp(route: Route) -> None:
    route.fulfill(content_type="text/html", body="<!doctype html><title>WhatsApp</title><body></body>")


@pytest.mark.parametrize("way", ["by itself", "pasted"])
def test_the_owner_signs_on_whatsapps_site_and_the_session_is_linked(
    product: Product, chromium: Browser, way: str
) -> None:
    person = visit(chromium, product.address)
    person.grant_permissions(["clipboard-read", "clipboard-write"], origin=product.address)
    person.route(re.compile(re.escape(SITE)), _be_whatsapp)
    page = person.new_page()
    page.goto(product.link())
    page.wait_for_url(product.address + "/")
    phone = "972509990101" if way == "pasted" else "972509990102"
    session = _provisioned(page, product.address, phone)
    _scan(product, session, phone)
    page.get_by_role("link", name="Sign with the passkey").click(timeout=SLOW_MS)
    expect(page.locator(".notice[data-s=warn]")).to_contain_text("how accounts get stolen")
    page.locator("[data-copy-code]").click()
    expect(page.locator("[data-copy-code] span")).not_to_have_text("Copy the code")
    pasted = page.evaluate("navigator.clipboard.readText()")
    assert "fetch(" not in pasted
    site = _whatsapps_site(page, product, phone)
    site.evaluate(pasted)
    site.get_by_role("button", name="Sign with passkey").click()
    answer = site.locator("#passkey-panel textarea").input_value(timeout=SLOW_MS)
    if way == "pasted":
        page.fill("#passkey-answer [name=answer]", '{"no": "answer"}')
        page.locator("#passkey-answer .primary").click()
        expect(page.locator("#passkey-answer [data-error]")).to_contain_text("not the answer of a passkey")
        page.fill("#passkey-answer [name=answer]", answer)
        page.locator("#passkey-answer .primary").click()
        there = page
    else:
        site.get_by_role("button", name="Send back").click()
        there = site
        there.wait_for_url(re.compile(r"/link/.*/passkey"), timeout=SLOW_MS)
    expect(there.locator("#passkey")).to_contain_text("Linked with the passkey", timeout=SLOW_MS)
    assert "pk=" not in there.url
    assert product.control.get(f"/phones/{phone}/devices").json()[0]["device"] == 1
    person.close()


def test_without_a_request_the_page_says_so_and_a_viewer_does_not_see_it(product: Product, chromium: Browser) -> None:
    person = visit(chromium, product.address)
    page = person.new_page()
    page.goto(product.link())
    page.wait_for_url(product.address + "/")
    session = _provisioned(page, product.address, "972509990103")
    page.goto(f"{product.address}/link/{session}/passkey")
    expect(page.locator("#passkey")).to_contain_text("does not ask for a passkey now")
    person.close()
