"""The server reads the page of a link, if it is asked to: by the guarded way, within limits, and never at the cost of the message."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import Gate, OpenGate, code_of, make_settings
from tests.gateway.names import Names
from tests.gateway.website import Website
from wa_orchestrator.gateway import link_preview, message_body
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.store import records


async def _sent(gates: OpenGate, directory: Path, website: Website, text: str, **body: Any) -> Any:
    """What is stored of a text that was accepted."""
    settings = make_settings(directory, allow_private_urls=True)
    gate = await gates(contents=ContentLoader(settings, resolve=Names("127.0.0.1"), trust=website.trust()))
    await gate.add_session()
    response = await gate.send(message=text, **body)
    assert response.status_code == 202, response.text
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    stored = json.loads(message.body)
    assert stored["text"] == text
    return stored.get("preview")


@pytest.fixture
def website(tmp_path: Path) -> Website:
    return Website(tmp_path)


async def test_a_text_gets_title_description_and_picture_of_its_first_link(
    gates: OpenGate, tmp_path: Path, website: Website
) -> None:
    async with website.serving():
        link = website.url("/article")
        shown = await _sent(gates, tmp_path, website, f"Look ({link}), or {website.url('/nothing')}", linkPreview=True)
    assert (shown["url"], shown["title"], shown["description"]) == (link, "Spring & summer", "What is new")
    assert base64.b64decode(shown["thumbnail"]).startswith(b"\xff\xd8")
    assert [path for _, path in website.seen] == ["/article", "/picture.png"]


async def test_nothing_is_read_unless_it_is_asked_for(gates: OpenGate, tmp_path: Path, website: Website) -> None:
    async with website.serving():
        assert await _sent(gates, tmp_path, website, website.url("/article")) is None
    assert website.seen == []


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/title-only", "A page of its own"),
        ("/no-picture", "Menu"),
        ("/nothing", None),
        ("/hostile", None),
        ("/menu.pdf", None),
        ("/elsewhere", None),
        ("/missing", None),
    ],
)
async def test_what_cannot_be_shown_costs_the_preview_and_never_the_message(
    gates: OpenGate, tmp_path: Path, website: Website, path: str, title: str | None
) -> None:
    async with website.serving():
        shown = await _sent(gates, tmp_path, website, f"See {website.url(path)}.", linkPreview=True)
    assert (shown and shown["title"]) == title
    assert shown is None or "thumbnail" not in shown


async def test_an_address_inside_is_not_asked_and_one_that_nobody_serves_does_not_matter(
    gates: OpenGate, tmp_path: Path, website: Website
) -> None:
    inside = ContentLoader(make_settings(tmp_path), resolve=Names("10.0.0.1"), trust=website.trust())
    gate: Gate = await gates(contents=inside)
    await gate.add_session()
    assert (await gate.send(message="https://intranet.example.com/", linkPreview=True)).status_code == 202
    unserved = website.url("/article").replace(":0/", ":9/")
    assert await _sent(gates, tmp_path, website, unserved, linkPreview=True) is None


async def test_a_batch_reads_the_page_of_equal_texts_once(gates: OpenGate, tmp_path: Path, website: Website) -> None:
    async with website.serving():
        settings = make_settings(tmp_path, allow_private_urls=True)
        gate = await gates(contents=ContentLoader(settings, resolve=Names("127.0.0.1"), trust=website.trust()))
        await gate.add_session()
        text = f"See {website.url('/title-only')}"
        items = [{"to": f"97251111111{each}", "message": text, "linkPreview": True} for each in range(3)]
        response = await gate.client.post("/api/v1/send/batch", json={"messages": items})
    found = [await records.message(gate.scripts, each["messageId"]) for each in response.json()["items"]]
    titles = [json.loads(each.body)["preview"]["title"] for each in found if each is not None]
    assert titles == ["A page of its own"] * 3
    assert len(website.seen) == 1


async def test_a_key_from_before_the_field_existed_still_names_its_request(gates: OpenGate) -> None:
    gate = await gates()
    await gate.add_session()
    first = await gate.send(idempotencyKey="k")
    assert (await gate.send(idempotencyKey="k", linkPreview=False)).content == first.content
    assert code_of(await gate.send(idempotencyKey="k", linkPreview=True)) == "IDEMPOTENCY_CONFLICT"
    body = SendBody.model_validate({"to": "972511111111", "message": "hello"})
    assert b"link" not in message_body.canonical(body)


async def test_only_a_text_has_a_preview(gates: OpenGate) -> None:
    gate = await gates()
    await gate.add_session()
    place = {"latitude": 32.0, "longitude": 34.0}
    body = {"to": "972511111111", "location": place, "linkPreview": True}
    refused = await gate.client.post("/api/v1/send", json=body)
    assert code_of(refused) == "VALIDATION_FAILED"
    assert [each["path"] for each in refused.json()["error"]["errors"]] == ["linkPreview"]


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("https://example.com/a?b=1#c", "https://example.com/a?b=1#c"),
        ("(see https://example.com/a).", "https://example.com/a"),
        ("http://example.com", ""),
        ("example.com", ""),
        ("https://example.com/" + "x" * 3000, ""),
    ],
)
def test_the_link_of_a_text_is_the_first_https_address(text: str, link: str) -> None:
    assert link_preview.link_in(text) == link
