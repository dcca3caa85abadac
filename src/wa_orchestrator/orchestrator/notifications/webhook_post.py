"""One attempt to deliver one event: signed by Standard Webhooks, to an address that was checked."""

import ssl
from datetime import UTC, datetime
from functools import lru_cache

import httpx
from standardwebhooks.webhooks import Webhook as Signer

from wa_orchestrator import outbound_http
from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.webhooks import Webhook

ANSWER_S = 15.0
_MOST_ANSWER_BYTES = 65_536


async def post(context: Context, hook: Webhook, event: str, body: str) -> str:
    """Deliver an event. Gives '' when it was taken (2xx), else what went wrong in a word."""
    try:
        target = await outbound_http.check(hook.url, allow_private=context.settings.allow_private_urls)
        async with outbound_http.request(
            "POST",
            target,
            timeout_s=ANSWER_S,
            headers=_headers(hook, event, body),
            content=body.encode(),
            trust=_trust(),
        ) as answer:
            await _drain(answer)
            return "" if answer.is_success else f"HTTP_{answer.status_code}"
    except Refused as refusal:
        return refusal.code
    except (httpx.HTTPError, OSError) as error:
        return type(error).__name__


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """Whom we believe to be who they say. Read once: it takes tens of milliseconds."""
    return ssl.create_default_context()


def _headers(hook: Webhook, event: str, body: str) -> dict[str, str]:
    """The same event has the same id in every attempt: that is how its reader knows a repetition."""
    name, now = f"evt_{event}", datetime.now(tz=UTC)
    return {
        "Content-Type": "application/json",
        "User-Agent": "wa-orchestrator",
        "webhook-id": name,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Signer(hook.secret).sign(msg_id=name, timestamp=now, data=body),
    }


async def _drain(answer: httpx.Response) -> None:
    """Read what is answered and forget it; nobody may keep us reading."""
    read = 0
    async for chunk in answer.aiter_raw():
        read += len(chunk)
        if read > _MOST_ANSWER_BYTES:
            return
