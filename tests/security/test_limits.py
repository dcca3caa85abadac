"""Rates, quotas, forwarded addresses and HSTS."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.gateway.conftest import make_settings
from tests.orchestrator.fakes import API_KEY
from tests.security.peers import HEALTH, Peer, Serve
from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.messages import uploads
from wa_orchestrator.web.rates import Rates

MIB = 1024 * 1024


def test_a_rate_gives_a_minute_s_worth_at_once_and_then_one_after_the_other() -> None:
    rates = Rates()
    assert [rates.spend("a", 60, now=0.0) for _ in range(60)] == [0.0] * 60
    assert rates.spend("a", 60, now=0.0) == pytest.approx(1.0)
    assert rates.spend("b", 60, now=0.0) == 0.0
    assert rates.spend("a", 60, now=1.0) == 0.0
    assert rates.spend("a", 60, now=1.0) > 0


async def test_a_key_that_asks_too_often_is_told_when_to_go_on(context: Context, stranger: httpx.AsyncClient) -> None:
    context.settings = context.settings.model_copy(update={"api_rate_per_minute": 3})
    key = {"X-API-Key": API_KEY}
    answers = [await stranger.get("/api/sessions", headers=key) for _ in range(4)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert answers[-1].json()["error"]["code"] == "RATE_LIMITED"


async def test_a_stranger_s_guesses_are_counted_by_address(context: Context, stranger: httpx.AsyncClient) -> None:
    context.settings = context.settings.model_copy(update={"public_rate_per_minute": 3})
    guesses = [await stranger.get("/api/sessions", headers={"X-API-Key": f"wao_{n}"}) for n in range(4)]
    assert [each.status_code for each in guesses] == [401, 401, 401, 429]
    assert (await stranger.get("/api/sessions", headers={"X-API-Key": API_KEY})).status_code == 200


async def _bytes(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // MIB):
        yield b"x" * MIB


async def test_a_key_stores_no_more_than_its_quota(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, upload_quota_mb=3, min_free_disk_mb=0)
    await uploads.save(settings, _bytes(2 * MIB), mimetype="application/pdf", owner="k_1")
    with pytest.raises(Refused) as refused:
        await uploads.save(settings, _bytes(2 * MIB), mimetype="application/pdf", owner="k_1")
    assert (refused.value.code, refused.value.status) == ("UPLOAD_QUOTA", 507)
    assert len(list((tmp_path / "uploads").iterdir())) == 2  # the first one and its description
    await uploads.save(settings, _bytes(2 * MIB), mimetype="application/pdf", owner="k_2")
    await uploads.save(settings, _bytes(MIB), mimetype="application/pdf", owner="k_1")


async def test_uploads_leave_disk_space_free(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free // MIB
    settings = make_settings(tmp_path, min_free_disk_mb=free + 1000)
    with pytest.raises(Refused) as refused:
        await uploads.save(settings, _bytes(MIB), mimetype="application/pdf", owner="k_1")
    assert (refused.value.code, refused.value.status) == ("DISK_FULL", 507)
    assert list((tmp_path / "uploads").iterdir()) == []


async def test_hsts_is_sent_behind_tls_only(context: Context) -> None:
    async def header(scheme: str, public_url: str | None) -> str | None:
        context.settings = context.settings.model_copy(update={"public_url": public_url})
        gateway = Gateway(context)
        transport = httpx.ASGITransport(gateway.app())
        async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://server") as client:
            answer = await client.get("/health")
        found: str | None = answer.headers.get("strict-transport-security")
        return found

    assert await header("http", None) is None
    assert await header("http", "https://wa.example.com") == "max-age=31536000"
    assert await header("https", None) == "max-age=31536000"


@pytest.mark.parametrize(("trusted", "believed"), [((), False), (("127.0.0.2",), True), (("127.0.0.9",), False)])
async def test_forwarded_headers_are_believed_of_trusted_proxies_only(
    serve: Serve, trusted: tuple[str, ...], believed: bool
) -> None:
    async with serve(trusted=trusted) as port:
        peer = await Peer.connect(port, "127.0.0.2")
        await peer.send(HEALTH[:-2] + b"X-Forwarded-Proto: https\r\nConnection: close\r\n\r\n")
        assert (b"strict-transport-security" in await peer.rest()) == believed
