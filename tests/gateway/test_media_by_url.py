"""Files by URL are fetched over checked TLS, once, and refused where they cannot be sent."""

import ssl
from pathlib import Path

import httpx
import pytest

from tests.gateway.conftest import Gate, OpenGate, code_of, make_settings
from tests.gateway.names import Names
from tests.gateway.website import Website
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.messages import uploads
from wa_orchestrator.store import records


@pytest.fixture
async def website(tmp_path: Path) -> "Website":
    return Website(tmp_path)


def _contents(directory: Path, website: Website, names: Names) -> ContentLoader:
    settings = make_settings(directory, allow_private_urls=True)
    return ContentLoader(settings, resolve=names, trust=website.trust())


async def _media(gate: Gate, url: str, **more: str) -> httpx.Response:
    return await gate.client.post("/api/v1/send", json={"to": "972511111111", "media": {"url": url, **more}})


async def test_a_file_by_address_is_read_once_over_tls_and_stored(
    gates: OpenGate, tmp_path: Path, website: Website
) -> None:
    names = Names("127.0.0.1")
    async with website.serving():
        gate = await gates(contents=_contents(tmp_path, website, names))
        await gate.add_session()
        response = await _media(gate, website.url("/menu.pdf"), caption="The menu")
        assert response.status_code == 202
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    assert message.kind == "document"
    assert website.seen == [("files.example.com", "/menu.pdf")]
    assert website.names == ["files.example.com"]
    stored = list((tmp_path / "uploads").glob("u_*.json"))
    upload = await uploads.open(make_settings(tmp_path), stored[0].stem)
    assert upload is not None
    assert (upload.mimetype, upload.filename) == ("application/pdf", "menu.pdf")
    assert [chunk async for chunk in upload.read()] == [b"%PDF-1.4 menu"]


async def test_a_repeat_of_a_request_does_not_read_the_file_again(
    gates: OpenGate, tmp_path: Path, website: Website
) -> None:
    async with website.serving():
        gate = await gates(contents=_contents(tmp_path, website, Names("127.0.0.1")))
        await gate.add_session()
        body = {"to": "972511111111", "media": {"url": website.url("/menu.pdf")}, "idempotencyKey": "k"}
        first = await gate.client.post("/api/v1/send", json=body)
        again = await gate.client.post("/api/v1/send", json=body)
    assert (first.status_code, again.content) == (202, first.content)
    assert len(website.seen) == 1


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/elsewhere", 422, "MEDIA_UNREACHABLE"),
        ("/missing", 422, "MEDIA_UNREACHABLE"),
        ("/endless", 413, "FILE_TOO_LARGE"),
        ("/page.html", 415, "UNSUPPORTED_TYPE"),
        ("/empty", 422, "FILE_EMPTY"),
    ],
)
async def test_what_cannot_be_sent_is_not_taken(
    gates: OpenGate,
    tmp_path: Path,
    website: Website,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    status: int,
    code: str,
) -> None:
    monkeypatch.setitem(uploads.LARGEST, "image", 100_000)
    async with website.serving():
        gate = await gates(contents=_contents(tmp_path, website, Names("127.0.0.1")))
        await gate.add_session()
        response = await _media(gate, website.url(path))
    assert (response.status_code, code_of(response)) == (status, code)
    assert [each for each in website.seen if each[1] == "/secret"] == []
    assert await gate.queued() == []
    assert list((tmp_path / "uploads").glob("u_*")) == []


async def test_a_certificate_for_another_name_is_not_trusted(gates: OpenGate, tmp_path: Path, website: Website) -> None:
    async with website.serving():
        gate = await gates(contents=_contents(tmp_path, website, Names("127.0.0.1")))
        await gate.add_session()
        response = await _media(gate, website.url("/menu.pdf").replace("files.example.com", "other.example.com"))
    assert (response.status_code, code_of(response)) == (422, "MEDIA_UNREACHABLE")


async def test_media_that_lead_inside_are_refused_by_default(gate: Gate) -> None:
    for url in ("https://127.0.0.1/a.png", "http://example.com/a.png", "https://169.254.169.254/latest/meta-data"):
        response = await _media(gate, url)
        assert (response.status_code, code_of(response)) == (422, "URL_REFUSED")


def test_the_trust_of_the_tests_is_checked_too(website: Website) -> None:
    assert website.trust().verify_mode is ssl.CERT_REQUIRED
