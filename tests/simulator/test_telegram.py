"""The simulated Telegram, as a bot sees it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.waiting import PATIENCE_S
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.telegram import Telegram


@pytest.fixture
def telegram() -> Telegram:
    return Telegram(clock=lambda: 1_700_000_000.5)


@pytest.fixture
async def bot(telegram: Telegram) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=telegram.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://telegram/bot123:fake-token/") as client:
        yield client


@pytest.mark.parametrize("way", ["json", "data", "params"])
async def test_a_message_is_accepted_as_json_form_or_query_and_answered_as_telegram_does(
    telegram: Telegram, bot: httpx.AsyncClient, way: str
) -> None:
    message: dict[str, Any] = {"chat_id": "-100200", "text": "✅ connected", "parse_mode": "HTML"}
    ways: dict[str, Any] = {way: message}
    answer = await bot.post("sendMessage", **ways)
    assert answer.status_code == 200
    result = answer.json()["result"]
    assert (result["message_id"], result["chat"]["id"], result["text"]) == (1, -100200, "✅ connected")
    assert result["date"] == 1_700_000_000
    assert telegram.received() == [
        {"n": 1, "at": 1_700_000_000.5, "chatId": "-100200", "text": "✅ connected", "parseMode": "HTML"}
    ]
    assert "fake-token" not in str(telegram.received())


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"text": "x"}, "chat_id is empty"),
        ({"chat_id": 1, "text": " "}, "text is empty"),
        ({"chat_id": 1, "text": "x" * 4097}, "too long"),
    ],
)
async def test_what_telegram_refuses_is_refused(
    telegram: Telegram, bot: httpx.AsyncClient, message: dict[str, Any], why: str
) -> None:
    answer = await bot.post("sendMessage", json=message)
    assert (answer.status_code, answer.json()["ok"], answer.json()["error_code"]) == (400, False, 400)
    assert why in answer.json()["description"]
    assert telegram.received() == []


async def test_faults_can_be_activated_and_cleared(telegram: Telegram, bot: httpx.AsyncClient) -> None:
    message = {"chat_id": 1, "text": "x"}
    telegram.fault("rate_limit", code=17)
    limited = await bot.post("sendMessage", json=message)
    assert (limited.status_code, limited.json()["parameters"]) == (429, {"retry_after": 17})
    telegram.clear_faults()
    telegram.fault("error")
    assert (await bot.post("sendMessage", json=message)).status_code == 500
    telegram.clear_faults()
    assert (await bot.post("sendMessage", json=message)).status_code == 200
    assert (telegram.refused, len(telegram.received(after=0)), telegram.received(after=1)) == (2, 1, [])


async def test_silence_ends_by_itself_and_pending_requests_are_answered(
    telegram: Telegram, bot: httpx.AsyncClient
) -> None:
    telegram.fault("silence", seconds=0.05)
    async with asyncio.timeout(PATIENCE_S):
        assert (await bot.post("sendMessage", json={"chat_id": 1, "text": "x"})).status_code == 200


async def test_an_unknown_method_or_fault_is_an_error(telegram: Telegram, bot: httpx.AsyncClient) -> None:
    assert (await bot.post("sendRocket")).status_code == 404
    with pytest.raises(SimulatorError, match="rate_limit"):
        telegram.fault("explode")
