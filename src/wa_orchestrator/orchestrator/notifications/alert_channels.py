"""Channels that alerts go to: a Telegram chat and a signed webhook."""

import base64
import binascii
import json
import secrets
from collections.abc import Sequence
from typing import Protocol

import httpx
import structlog

from wa_orchestrator.orchestrator.notifications import alert_texts
from wa_orchestrator.orchestrator.notifications.alert_texts import Alert
from wa_orchestrator.orchestrator.notifications.webhook_post import signed_headers
from wa_orchestrator.settings import Settings

_TELEGRAM_MAX_TEXT = 4096

log = structlog.get_logger(__name__)


class AlertChannel(Protocol):
    """Something that delivers alerts."""

    name: str

    async def deliver(self, alerts: Sequence[Alert]) -> float | None:
        """Deliver alerts together. None when they were accepted, else the seconds to wait at least (0: any)."""
        ...


class TelegramChannel:
    """A chat that a bot writes to."""

    name = "telegram"

    def __init__(self, settings: Settings, client: httpx.AsyncClient) -> None:
        token = settings.telegram_bot_token.get_secret_value() if settings.telegram_bot_token else ""
        self._url = f"{settings.telegram_api_url}/bot{token}/sendMessage"
        self._chat = settings.telegram_chat_id
        self._language = settings.language
        self._base_url = settings.public_base_url
        self._client = client

    async def deliver(self, alerts: Sequence[Alert]) -> float | None:
        """Send one text."""
        text = alert_texts.text_of(alerts, self._language, self._base_url)[:_TELEGRAM_MAX_TEXT]
        try:
            response = await self._client.post(self._url, json={"chat_id": self._chat, "text": text})
        except httpx.HTTPError as error:
            log.warning("alerts.telegram_unreachable", error=type(error).__name__)  # its text would hold the token
            return 0
        if response.is_success:
            return None
        log.warning("alerts.telegram_refused", status=response.status_code)
        return _retry_after_s(response)


class WebhookChannel:
    """A URL that gets alerts as JSON, signed with WEBHOOK_SECRET."""

    name = "webhook"

    def __init__(self, settings: Settings, client: httpx.AsyncClient) -> None:
        self._url = settings.alert_webhook_url or ""
        self._secret = _signing_secret(settings.webhook_secret.get_secret_value())
        self._language = settings.language
        self._base_url = settings.public_base_url
        self._client = client

    async def deliver(self, alerts: Sequence[Alert]) -> float | None:
        """Post them together."""
        body = json.dumps(
            {
                "text": alert_texts.text_of(alerts, self._language, self._base_url),
                "alerts": [
                    {"type": a.kind, "subject": a.who, "name": a.name or a.who, "reason": a.reason, "at": a.at_ms}
                    for a in alerts
                ],
            },
            ensure_ascii=False,
        )
        headers = signed_headers(self._secret, f"alert_{secrets.token_hex(8)}", body)
        try:
            response = await self._client.post(self._url, content=body, headers=headers)
        except httpx.HTTPError as error:
            log.warning("alerts.webhook_unreachable", error=type(error).__name__)
            return 0
        return None if response.is_success else _retry_after_s(response)


def _signing_secret(secret: str) -> str:
    try:
        base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        return "whsec_" + base64.b64encode(secret.encode()).decode()
    return secret


def _retry_after_s(response: httpx.Response) -> float:
    """Return the wait that Telegram puts in the body, or any server in the header Retry-After."""
    try:
        return float(response.json()["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        header = response.headers.get("retry-after", "")
        return float(header) if header.isdigit() else 0


def configured_channels(settings: Settings, client: httpx.AsyncClient) -> list[AlertChannel]:
    """Return the channels that the settings name."""
    channels: list[AlertChannel] = []
    if settings.telegram_bot_token is not None:
        channels.append(TelegramChannel(settings, client))
    if settings.alert_webhook_url:
        channels.append(WebhookChannel(settings, client))
    return channels
