"""Sending one message: what is taken, what is refused, and with which words."""

import asyncio
import json

import pytest

from tests.conftest import Clock
from tests.gateway.conftest import NOON_MS, PHONE, Gate, OpenGate, code_of
from wa_orchestrator.store import accepting, keys, reading


async def test_a_message_is_queued_and_the_answer_says_where_and_when(gate: Gate) -> None:
    response = await gate.send(reference="order-1")
    assert response.status_code == 202
    told = response.json()
    assert set(told) == {"queued", "messageId", "sessionId", "position", "eta", "because"}
    assert (told["queued"], told["sessionId"], told["position"], told["because"]) == (True, "w1", 1, "NOTHING")
    assert told["eta"] == "2025-06-15T12:00:00.000Z"
    message = await reading.message(gate.scripts, told["messageId"])
    assert message is not None
    assert (message.to, message.phone, message.status) == ("972511111111", PHONE, "queued")
    assert message.whatsapp_id == "3EB0" + told["messageId"].removeprefix("m_").upper()
    stored = {name: message.fields[name] for name in ("kind", "reference", "api_key", "pinned", "why")}
    assert stored == {"kind": "text", "reference": "order-1", "api_key": "configured", "pinned": "", "why": "MOST_ROOM"}
    assert json.loads(message.fields["body"]) == {"kind": "text", "text": "hello"}
