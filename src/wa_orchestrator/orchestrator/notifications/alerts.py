"""Carries alerts to Telegram and to a webhook: grouped, at a pace they bear, and never lost by an outage of theirs.

The cursor in the stream and the queue of each receiver are in Redis and written together. A receiver that is away
keeps its own queue waiting and nothing else.
"""

import base64
import binascii
import json
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import httpx
import structlog
from redis.exceptions import WatchError
from standardwebhooks.webhooks import Webhook

from wa_orchestrator.context import Context
from wa_orchestrator.loop import Loop
from wa_orchestrator.orchestrator.notifications import alert_texts
from wa_orchestrator.orchestrator.notifications.alert_texts import Alert
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import event_stream, keys

MOST_WAITING = 1_000
_BATCH = 200
_TOGETHER = 100
#: Telegram bears about twenty messages a minute in a group.
GAP_S = 3.0
_LONGEST_WAIT_S = 300.0
_ROUND_S = 0.5
_TIMEOUT_S = 10.0

log = structlog.get_logger(__name__)


class Sink(Protocol):
    """Somebody who gets alerts."""

    name: str

    async def deliver(self, alerts: Sequence[Alert]) -> float | None:
        """Hand alerts over together. None when they were taken, else the seconds after which to try again (0: any)."""
        ...


class TelegramChat:
    """A chat that a bot writes to."""

    name = "telegram"

    def __init__(self, settings: Settings, client: httpx.AsyncClient) -> None:
        token = settings.telegram_bot_token.get_secret_value() if settings.telegram_bot_token else ""
        self._url = f"{settings.telegram_api_url}/bot{token}/sendMessage"
        self._chat = settings.telegram_chat_id
        self._language = settings.language
        self._client = client

    async def deliver(self, alerts: Sequence[Alert]) -> float | None:
        """Send one text."""
        body = {"chat_id": self._chat, "text": alert_texts.text_of(alerts, self._language)[:4096]}
        try:
            answer = await self._client.post(self._url, json=body)
        except httpx.HTTPError as error:
            log.warning("alerts.telegram_away", error=type(error).__name__)  # its text would hold the token
            return 0
        if answer.is_success:
            return None
        log.warning("alerts.telegram_refused", status=answer.status_code)
        return _retry_after(answer)


class AlertWebhook:
    """An address that gets alerts as JSON, signed with WEBHOOK_SECRET."""

    name = "webhook"

    def __init__(self, settings: Settings, client: httpx.AsyncClient) -> None:
        self._url = settings.alert_webhook_url or ""
        self._webhook = Webhook(_signing_secret(settings.webhook_secret.get_secret_value()))
        self._language = settings.language
        self._client = client

    async def deliver(self, alerts: Sequence[Alert]) -> float | None:
        """Post them together."""
        body = json.dumps(
            {
                "text": alert_texts.text_of(alerts, self._language),
                "alerts": [{"type": a.kind, "subject": a.who, "reason": a.reason, "at": a.at_ms} for a in alerts],
            },
            ensure_ascii=False,
        )
        name, now = f"alert_{secrets.token_hex(8)}", datetime.now(tz=UTC)
        headers = {
            "content-type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._webhook.sign(name, now, body),
        }
        try:
            answer = await self._client.post(self._url, content=body, headers=headers)
        except httpx.HTTPError as error:
            log.warning("alerts.webhook_away", error=type(error).__name__)
            return 0
        return None if answer.is_success else _retry_after(answer)


def _signing_secret(secret: str) -> str:
    try:
        base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        return "whsec_" + base64.b64encode(secret.encode()).decode()
    return secret


def _retry_after(answer: httpx.Response) -> float:
    try:
        return float(answer.json()["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        return float(answer.headers.get("retry-after") or 0) if answer.headers.get("retry-after", "").isdigit() else 0


def sinks(settings: Settings, client: httpx.AsyncClient) -> list[Sink]:
    """Give those who are to get alerts."""
    chosen: list[Sink] = []
    if settings.telegram_bot_token is not None:
        chosen.append(TelegramChat(settings, client))
    if settings.alert_webhook_url:
        chosen.append(AlertWebhook(settings, client))
    return chosen


class Alerts:
    """Makes alerts of the stream and delivers them. Any number may run; each event becomes an alert once."""

    def __init__(self, context: Context, receivers: Sequence[Sink] | None = None, gap_s: float = GAP_S) -> None:
        self._context = context
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False)
        self._sinks = sinks(context.settings, self._client) if receivers is None else receivers
        self._gap_s = gap_s
        self._next: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    async def step(self) -> float:
        """Collect what is new, and deliver what is due."""
        if not self._sinks:
            return 60.0
        await self.collect()
        for sink in self._sinks:
            if time.monotonic() >= self._next.get(sink.name, 0):
                await self._deliver(sink)
        return _ROUND_S

    async def run(self) -> None:
        """Step until cancelled."""
        try:
            await Loop("alerts", self).run()
        finally:
            await self._client.aclose()

    async def collect(self) -> None:
        """Turn new events into alerts; the cursor and the queues are written together, by one process."""
        transaction: Any = self._context.redis.pipeline(transaction=True)
        async with transaction as pipe:
            await pipe.watch(keys.ALERT_CURSOR)
            cursor = await pipe.get(keys.ALERT_CURSOR)
            if cursor is None:
                cursor = await self._beginning()
            entries = await event_stream.read(self._context.scripts, after=str(cursor), most=_BATCH)
            found = [alert for entry in entries if (alert := alert_texts.alert_of(entry.fields))]
            pipe.multi()
            pipe.set(keys.ALERT_CURSOR, entries[-1].cursor if entries else cursor)
            for sink in self._sinks if found else ():
                pipe.rpush(keys.alerts(sink.name), *(alert.encode() for alert in found))
                pipe.ltrim(keys.alerts(sink.name), -MOST_WAITING, -1)
            try:
                await pipe.execute()
            except WatchError:
                log.debug("alerts.collected_elsewhere")

    async def _beginning(self) -> str:
        """Where a first start begins: what happened before anybody asked for alerts is no news."""
        last: Any = await self._context.redis.xrevrange(keys.EVENTS, count=1)
        return str(last[0][0]) if last else "0"

    async def _deliver(self, sink: Sink) -> None:
        redis, key = self._context.redis, keys.alerts(sink.name)
        waiting: Any = await redis.lrange(key, 0, _TOGETHER - 1)
        if not waiting:
            return
        again_s = await sink.deliver([alert_texts.decode(text) for text in waiting])
        if again_s is None:
            # These and no others: meanwhile another process may have delivered them too, or a full queue shed some.
            async with redis.pipeline(transaction=True) as pipe:
                for text in waiting:
                    pipe.lrem(key, 1, text)
                await pipe.execute()
            self._failures[sink.name] = 0
            wait_s = self._gap_s
        else:
            self._failures[sink.name] = self._failures.get(sink.name, 0) + 1
            wait_s = max(again_s, min(_LONGEST_WAIT_S, self._gap_s * 2 ** min(self._failures[sink.name], 8)))
        self._next[sink.name] = time.monotonic() + wait_s
