"""Addresses that customers give us never lead inside."""

import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.gateway.conftest import Gate, OpenGate, code_of, make_settings
from tests.gateway.website import Website
from wa_orchestrator import outbound_http
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.messages import uploads
from wa_orchestrator.store import records

INSIDE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.28.0.1", "192.168.1.1", "169.254.169.254",
    "169.254.1.1", "100.64.0.1", "100.100.100.200", "192.0.0.1", "192.0.0.9", "192.0.0.170", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1", "192.0.2.1", "198.18.0.1", "198.51.100.7",
    "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
    "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::10.0.0.1",
    "2002:7f00:1::", "2002:a00:1::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
    "2001:0:4136:e378:8000:63bf:f5ff:fffe",
    "2001:1::1", "2001:20::1", "2001:30::1", "2620:4f:8000::1", "3fff::1", "5f00::1", "100::1", "100:0:0:1::1", "::ffff:0:7f00:1",
    "4000::1", "2001:2::1",
]  # fmt: skip
OUTSIDE = ["93.184.216.34", "8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_not_public(address: str) -> None:
    assert not outbound_http.is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert outbound_http.is_public(ipaddress.ip_address(address))


NEVER = [
    "169.254.169.254", "169.254.1.1", "0.0.0.0", "224.0.0.1", "100.100.100.200", "::", "fe80::1", "febf::1", "ff02::1",
    "fd00:ec2::254", "::ffff:169.254.169.254", "::169.254.169.254", "::ffff:224.0.0.1", "::ffff:0.0.0.0",
    "2002:a9fe:a9fe::", "64:ff9b::a9fe:a9fe", "fe80::1%eth0",
]  # fmt: skip


@pytest.mark.parametrize("address", NEVER)
async def test_an_address_that_nobody_means_is_refused_also_on_a_trusted_lan(address: str) -> None:
    with pytest.raises(outbound_http.BadUrl, match="never requested"):
        await outbound_http.check(
            "http://files.example.com/a", allow_private=True, resolve=Names("192.168.1.1", address)
        )


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "::1", "fc00::1", "::ffff:192.168.1.1"])
async def test_a_trusted_lan_is_reached_when_it_is_allowed(address: str) -> None:
    target = await outbound_http.check("http://files.example.com/a", allow_private=True, resolve=Names(address))
    assert target.address == str(ipaddress.ip_address(address))


class Names:
    """A name server of the test's own that counts how often it is asked."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.addresses


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/a", "ftp://example.com/a", "file:///etc/passwd", "//example.com/a", "example.com",
        "https://", "https:///a", "https://user:pass@example.com/a", "https://user@example.com/a",
        "https://example.com:port/", "https://exa mple.com/", "https://example.com\\@127.0.0.1/", "javascript:alert(1)",
        "https://example.com/\r\nHost: inside", "https://example.com/\x01", "gopher://example.com", "https://[::1", "",
    ],
)  # fmt: skip
async def test_an_address_of_the_wrong_shape_is_refused_without_a_look_up(url: str) -> None:
    names = Names("8.8.8.8")
    with pytest.raises(outbound_http.BadUrl):
        await outbound_http.check(url, allow_private=False, resolve=names)
    assert names.asked == []


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("8.8.8.8", "10.0.0.1"), ("::ffff:169.254.169.254",), ()])
async def test_a_name_that_leads_inside_is_refused(addresses: tuple[str, ...]) -> None:
    with pytest.raises(outbound_http.BadUrl):
        await outbound_http.check("https://files.example.com/a", allow_private=False, resolve=Names(*addresses))


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://127.1/",
        "https://localhost/",
    ],
)
async def test_however_loopback_is_written_it_is_refused(url: str) -> None:
    with pytest.raises(outbound_http.BadUrl):
        await outbound_http.check(url, allow_private=False)


async def test_the_connection_goes_to_the_checked_address_under_the_name() -> None:
    names = Names("8.8.8.8")
    target = await outbound_http.check("https://files.example.com:8443/a?b=c#d", allow_private=False, resolve=names)
    assert target.connect_url == "https://8.8.8.8:8443/a?b=c"
    assert (target.host, target.host_header) == ("files.example.com", "files.example.com:8443")
    assert names.asked == ["files.example.com"]


async def test_the_lan_may_be_allowed() -> None:
    target = await outbound_http.check("http://nas.example.com/a", allow_private=True, resolve=Names("192.168.1.2"))
    assert (target.connect_url, target.secure) == ("http://192.168.1.2:80/a", False)


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
    upload = uploads.open(make_settings(tmp_path), stored[0].stem)
    assert upload is not None
    assert (upload.path.read_bytes(), upload.mimetype, upload.filename) == (
        b"%PDF-1.4 menu",
        "application/pdf",
        "menu.pdf",
    )


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
