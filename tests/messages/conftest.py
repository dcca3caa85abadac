"""The HTTP side of messages over a real Redis: an app, a client, and workers with genuine tokens."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import NOON, Scenario, settings, settle
from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.api import contacts, groups, holds, media, message_acts, optouts, tag_limits, webhooks
from wa_orchestrator.orchestrator.api.conversations import quick_replies
from wa_orchestrator.orchestrator.api.conversations import routes as conversations
from wa_orchestrator.orchestrator.api.events import routes
from wa_orchestrator.orchestrator.api.sessions import limits
from wa_orchestrator.orchestrator.api.workers import outbox
from wa_orchestrator.orchestrator.messages.outbox_signal import OutboxSignals
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.web.app import make_app

API_KEY = "wao_tests-Zk3vQ9pLx2Rw8sTn"
ROOT_SECRET = "whsec_bm90LWEtcmVhbC1zZWNyZXQtYnV0LWxvbmc="
PHONE = "972500000001"


def secured(**changes: Any) -> Settings:
    """Settings with secrets, as a started server has them."""
    return settings(api_key=API_KEY, webhook_secret=ROOT_SECRET, **changes)


@dataclass
class Worker:
    """A worker's calls, with its own token."""

    client: httpx.AsyncClient
    settings: Settings
    session: str
    epoch: int

    async def call(self, path: str, body: object | None = None, *, to: str | None = None) -> httpx.Response:
        token = tokens.mint(self.settings, self.session, self.epoch).token
        headers = {"Authorization": f"Bearer {token}", "X-Epoch": str(self.epoch)}
        address = f"/api/worker/sessions/{to or self.session}/outbox/{path}"
        return await self.client.post(address, json={} if body is None else body, headers=headers)

    async def claim(self, wait_ms: int = 0, **fields: str) -> dict[str, Any] | None:
        answer = await self.call("claim", {"waitMs": wait_ms, **fields})
        assert answer.status_code in (200, 204), answer.text
        return answer.json() if answer.status_code == 200 else None

    async def ack(self, message: dict[str, Any]) -> httpx.Response:
        return await self.call(f"{message['messageId']}/ack", {"whatsappId": message["whatsappId"], "timestamp": 1})

    async def nack(self, message: dict[str, Any], code: str, retryable: bool = True) -> httpx.Response:
        body = {"code": code, "error": "it did not work", "retryable": retryable}
        return await self.call(f"{message['messageId']}/nack", body)


@dataclass
class MessageApi:
    """An app with a scenario behind it."""

    scenario: Scenario
    context: Context
    client: httpx.AsyncClient
    signals: OutboxSignals

    def worker(self, session: str = "w1", epoch: int | None = None) -> Worker:
        known = self.scenario.epochs.get(session, 1) if epoch is None else epoch
        return Worker(self.client, self.context.settings, session, known)

    async def released(self, session: str = "w1", phone: str = PHONE, **changes: Any) -> str:
        """A message that waits in the session's outbox; its id."""
        message = await self.scenario.accept(session, phone, **changes)
        await settle(self.scenario.dispatcher())
        assert await self.scenario.status(message) in ("scheduled", "sending")
        return message


@pytest.fixture
async def api(held: Scripts, clock: Clock, tmp_path: Path) -> AsyncIterator[MessageApi]:
    """One connected session `w1` at midday, and an HTTP client with an administrator's key."""
    await clock.set(NOON)
    scenario = Scenario(held, secured(data_dir=tmp_path, allow_private_urls=True))
    await scenario.connect("w1", PHONE)
    context = scenario.context
    signals = OutboxSignals(held)
    routers = [
        outbox.WorkerOutboxRoutes(context, signals),
        routes.EventRoutes(context),
        media.MediaRoutes(context),
        message_acts.MessageActRoutes(context),
        message_acts.ChatActRoutes(context),
        groups.GroupRoutes(context),
        webhooks.WebhookRoutes(context),
        optouts.OptOutRoutes(context),
        holds.HoldRoutes(context),
        conversations.ConversationRoutes(context),
        contacts.ContactRoutes(context),
        quick_replies.QuickReplyRoutes(context),
        limits.LimitRoutes(context),
        tag_limits.TagLimitRoutes(context),
    ]
    transport = httpx.ASGITransport(app=make_app(context, routers))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        client.headers["X-API-Key"] = API_KEY
        yield MessageApi(scenario, context, client, signals)
    await signals.close()
