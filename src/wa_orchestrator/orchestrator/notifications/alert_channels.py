"""Channels that alerts go to: a Telegram chat and a signed webhook."""

import base64
import binascii
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import httpx
import structlog

from wa_orchestrator import outbound_http
from wa_orchestrator.domain import whole_number
from wa_orchestrator.orchestrator.notifications import alert_texts
from wa_orchestrator.orchestrator.notifications.alert_texts import Alert
from wa_orchestrator.orchestrator.notifications.webhook_post import signed_headers
from wa_orchestrator.settings import Settings

_TELEGRAM_MAX_TEXT = 4096
_MAX_RESPONSE_BYTES = 65_536

log = structlog.get_logger(__name__)


class AlertChannel(Protocol):
    """Something that delivers alerts."""

    @property
    def name(self) -> str: ...

    async def deliver(self, alerts: Sequence[Alert]) -> float | None:
        """Deliver alerts together. None when they were accepted, else the seconds to wait at least (0: any)."""
        ...


@dataclass(frozen=True, slots=True)
class HttpChannel:
    """A channel that gets alerts by an HTTP request, which `request` makes."""

    name: str
    client: httpx.AsyncClient
    request: Callable[[Sequence[Alert]], httpx.Request]

    async def deliver(self, alerts: Sequence[Alert]) -> float | None:
        request = self.request(alerts)
        request.headers["Accept-Encoding"] = "identity"
        try:
            response = await self.client.send(request, stream=True)
            try:  # of a refusal the body is read, because Telegram says there when to try again
                said = b"" if response.is_success else await outbound_http.drain(response, _MAX_RESPONSE_BYTES)
            finally:
                await response.aclose()
        except httpx.HTTPError as error:  # its text would hold Telegram's token
            log.warning("alerts.unreachable", channel=self.name, error=type(error).__name__)
            return 0
        if response.is_success:
            return None
        log.warning("alerts.refused", channel=self.name, status=response.status_code)
        return _retry_after_s(response, said)


def telegram_channel(settings: Settings, client: httpx.AsyncClient) -> HttpChannel:
    """Return a chat that a bot writes to, one text for all alerts."""
    token = settings.telegram_bot_token.get_secret_value() if settings.telegram_bot_token else ""
    url = f"{settings.telegram_api_url}/bot{token}/sendMessage"

    def request(alerts: Sequence[Alert]) -> httpx.Request:
        text = alert_texts.text_of(alerts, settings.language, settings.public_base_url)[:_TELEGRAM_MAX_TEXT]
        return client.build_request("POST", url, json={"chat_id": settings.telegram_chat_id, "text": text})

    return HttpChannel("telegram", client, request)


def webhook_channel(settings: Settings, client: httpx.AsyncClient) -> HttpChannel:
    """Return a URL that gets alerts as JSON, signed with ALERT_WEBHOOK_SECRET, or WEBHOOK_SECRET if there is none.

    During a rotation it is signed with the previous one too.
    """
    given = (settings.alert_webhook_secret, settings.alert_webhook_secret_previous)
    if settings.alert_webhook_secret is None:
        given = (settings.webhook_secret, settings.webhook_secret_previous)
    signing = [_signing_secret(each.get_secret_value()) for each in given if each is not None]

    def request(alerts: Sequence[Alert]) -> httpx.Request:
        text = alert_texts.text_of(alerts, settings.language, settings.public_base_url)
        items = [
            {"type": a.kind, "subject": a.who, "name": a.name or a.who, "reason": a.reason, "at": a.at_ms}
            for a in alerts
        ]
        body = json.dumps({"text": text, "alerts": items}, ensure_ascii=False)
        headers = signed_headers(signing, f"alert_{secrets.token_hex(8)}", body)
        return client.build_request("POST", settings.alert_webhook_url or "", content=body, headers=headers)

    return HttpChannel("webhook", client, request)


def _signing_secret(secret: str) -> str:
    try:
        base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        return "whsec_" + base64.b64encode(secret.encode()).decode()
    return secret


def _retry_after_s(response: httpx.Response, said: bytes) -> float:
    """Return the wait that Telegram puts in the body, or any server in the header Retry-After."""
    try:
        return float(json.loads(said)["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        header = response.headers.get("retry-after", "")
        return float(whole_number.parse(header) or 0)


def configured_channels(settings: Settings, client: httpx.AsyncClient) -> list[AlertChannel]:
    telegram = [telegram_channel(settings, client)] if settings.telegram_bot_token is not None else []
    webhook = [webhook_channel(settings, client)] if settings.alert_webhook_url else []
    return [*telegram, *webhook]
