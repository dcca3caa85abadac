"""Addresses that customers give us never lead inside."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.gateway.names import Names
from tests.orchestrator.fakes import ADMIN
from tests.security.fleet import MINE, RECIPIENT, TwoCustomers, two_customers
from wa_orchestrator import outbound_http
from wa_orchestrator.domain.access.permissions import Only, Scope
from wa_orchestrator.orchestrator.notifications import webhook_post
from wa_orchestrator.store.events import webhooks

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


#: One address in all the ways in which a URL can have it, and others that are inside under any spelling.
SPELLINGS = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.1.",
    "localhost", "LocalHost", "localhost.", "0", "0.0.0.0", "127。0。0。1", "①②⑦.⓪.⓪.①", "１２７.0.0.1", "%31%32%37.0.0.1",
    "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[64:ff9b::a9fe:a9fe]", "[fe80::1%25lo]", "[fd00:ec2::254]", "[fc00::1]",
    "169.254.169.254", "2852039166", "0xa9fea9fe", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "192.0.0.8",
    "198.18.0.1", "255.255.255.255", "224.0.0.1", "168.63.129.16", "100.100.100.200",
]  # fmt: skip


@pytest.fixture
async def fleet(redis: Redis, tmp_path: Path) -> AsyncIterator[TwoCustomers]:
    made = await two_customers(redis, tmp_path)
    yield made
    await made.client.aclose()


async def test_however_an_address_inside_is_written_no_route_takes_it(
    fleet: TwoCustomers, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[object] = []
    monkeypatch.setattr(outbound_http, "request", lambda *given, **_: requested.append(given))
    taken = []
    for host in SPELLINGS:
        for url in (f"https://{host}/x.png", f"https://{host}:8443/x.png"):
            answers = {
                "media": await fleet.client.post(
                    "/api/v1/send", headers=ADMIN, json={"to": RECIPIENT, "media": {"url": url}}
                ),
                "webhook": await fleet.client.post(
                    "/api/v1/webhooks", headers=ADMIN, json={"url": url, "events": ["*"]}
                ),
            }
            for what, answer in answers.items():
                if (answer.status_code, answer.json()["error"]["code"]) != (422, "URL_REFUSED"):
                    taken.append((what, url, answer.status_code, answer.text))
    assert taken == []
    assert requested == []


async def test_a_name_that_leads_inside_only_later_is_refused_at_each_delivery(
    fleet: TwoCustomers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the name server changes between the check of a webhook and its deliveries, or between two of these."""
    answers = iter(["93.184.216.34", "127.0.0.1"])
    requested: list[object] = []

    async def resolve(_host: str, _port: int) -> list[str]:
        return [next(answers)]

    monkeypatch.setattr(outbound_http.check, "__kwdefaults__", {"resolve": resolve})
    monkeypatch.setattr(outbound_http, "request", lambda *given, **_: requested.append(given))
    made = await fleet.client.post(
        "/api/v1/webhooks", headers=ADMIN, json={"url": "https://crm.example.com/", "events": ["*"]}
    )
    assert made.status_code == 201, made.text
    (hook,) = (await webhooks.every(fleet.context.scripts)).values()
    assert await webhook_post.post(fleet.context, hook, "1-0", "{}") == "URL_REFUSED"
    assert requested == []


async def test_a_redirect_of_a_webhook_is_not_followed(fleet: TwoCustomers) -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(b"HTTP/1.1 307 Go\r\nLocation: /inside\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    fleet.context.settings = fleet.context.settings.model_copy(update={"allow_private_urls": True})
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        hook = webhooks.Webhook("wh_1", url, ("*",), "whsec_AAAA", "0-0", 1)
        assert await webhook_post.post(fleet.context, hook, "1-0", "{}") == "HTTP_307"
    assert seen == [b"POST /hook HTTP/1.1"]


async def test_a_customer_s_key_cannot_name_a_proxy(fleet: TwoCustomers) -> None:
    """A proxy may be inside: it is the operator's own choice, and a worker connects to it."""
    mine = await fleet.key(Scope.SEND, Scope.READ, Scope.OPERATE, reach=Only(sessions=frozenset({MINE})))
    proxy = "socks5h://127.0.0.1:1080"
    for path, body in (
        ("/api/sessions/provision", {"proxy": proxy}),
        ("/api/v1/proxies", {"url": proxy}),
        ("/api/v1/proxies/import", {"text": proxy}),
    ):
        answer = await fleet.client.post(path, headers=mine, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "KEY_LIMITED"), path


async def test_the_connection_goes_to_the_checked_address_under_the_name() -> None:
    names = Names("8.8.8.8")
    target = await outbound_http.check("https://files.example.com:8443/a?b=c#d", allow_private=False, resolve=names)
    assert target.connect_url == "https://8.8.8.8:8443/a?b=c"
    assert (target.host, target.host_header) == ("files.example.com", "files.example.com:8443")
    assert names.asked == ["files.example.com"]


async def test_the_lan_may_be_allowed() -> None:
    target = await outbound_http.check("http://nas.example.com/a", allow_private=True, resolve=Names("192.168.1.2"))
    assert (target.connect_url, target.secure) == ("http://192.168.1.2:80/a", False)
