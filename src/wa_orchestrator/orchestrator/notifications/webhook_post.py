"""One attempt to deliver an event to a webhook: signed (Standard Webhooks), to a checked address."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

import httpx
from standardwebhooks.webhooks import Webhook as Signer

from wa_orchestrator import outbound_http
from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.events.webhooks import Webhook

TIMEOUT_S = 15.0
_MAX_RESPONSE_BYTES = 65_536


async def post(context: Context, hook: Webhook, event: str, body: str) -> str:
    """Deliver an event. Returns '' when it was accepted (2xx), else an error code."""
    # An event has the same id in every attempt: by it the receiver recognizes a repetition.
    secrets = hook.secrets(await context.scripts.now_ms())
    headers = signed_headers(secrets, f"evt_{event}", body) | {"User-Agent": "wa-orchestrator"}
    try:
        target = await outbound_http.check(hook.url, allow_private=context.settings.allow_private_urls)
        async with outbound_http.request(
            "POST", target, timeout_s=TIMEOUT_S, headers=headers, content=body.encode(), trust=_tls_context()
        ) as response:
            await outbound_http.drain(response, _MAX_RESPONSE_BYTES)
            return "" if response.is_success else f"HTTP_{response.status_code}"
    except Refused as refusal:
        return refusal.code
    except (httpx.HTTPError, OSError) as error:
        return type(error).__name__


def signed_headers(secrets: Sequence[str], message_id: str, body: str) -> dict[str, str]:
    """Return the headers of a delivery, with a signature by each secret: its receiver may know any of them."""
    now = datetime.now(tz=UTC)
    signatures = [Signer(secret).sign(msg_id=message_id, timestamp=now, data=body) for secret in secrets]
    return {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    """Cached TLS context; loading the CA certificates takes tens of milliseconds."""
    return ssl.create_default_context()
