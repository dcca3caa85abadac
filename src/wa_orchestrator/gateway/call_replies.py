"""Texts to people whose call was rejected. Each is accepted, paced and refused like any other message."""

import secrets
from collections.abc import Mapping
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import idempotency
from wa_orchestrator.gateway.acceptance import Acceptor, SendRequest
from wa_orchestrator.gateway.content_loader import text_content
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.loop import Loop
from wa_orchestrator.store import keys
from wa_orchestrator.store.backups import state_dump
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.leases import Holding, acquire_lease

LEASE: Final = "call_replies"
API_KEY: Final = "call_reply"
_LEASE_MS: Final = 30_000
_STEP_S: Final = 1.0
_STANDBY_S: Final = 5.0
_EVENTS: Final = 500
#: A reply to an older call would surprise.
_OLDEST_MS: Final = 15 * 60_000

log = structlog.get_logger(__name__)


class CallReplies:
    """Answers rejected calls. Any number may run: a lease lets one of them work."""

    def __init__(self, context: Context, acceptor: Acceptor) -> None:
        self._context = context
        self._scripts = context.scripts
        self._acceptor = acceptor
        self._owner = secrets.token_hex(8)

    async def run(self) -> None:
        """Run until cancelled."""
        await Loop("call_replies", self.step).run()

    async def step(self) -> float:
        """Answer the calls since the last round, and return the seconds until the next one."""
        lease = await acquire_lease(self._scripts, LEASE, owner=self._owner, lease_ms=_LEASE_MS)
        if not isinstance(lease, Holding) or await state_dump.is_loading(self._scripts):
            return _STANDBY_S
        entries = await event_stream.unread(self._scripts, keys.CALL_REPLIES_CURSOR, most=_EVENTS)
        for entry in entries:
            await self._answer(entry.fields)
        if entries:
            await event_stream.mark_read(self._scripts, keys.CALL_REPLIES_CURSOR, entries[-1].cursor)
        return 0.0 if len(entries) == _EVENTS else _STEP_S

    async def _answer(self, event: Mapping[str, str]) -> None:
        is_rejected = event.get("type") == EventType.CALL_ENDED and event.get("outcome") == "rejected"
        caller = event.get("contact_phone") or f"lid:{event.get('contact_lid', '')}"
        if not is_rejected or event.get("group") or caller == "lid:":
            return
        if int(event["at"]) < await self._scripts.now_ms() - _OLDEST_MS:
            return
        text = self._context.settings.call_reply
        body = SendBody.model_validate({"to": caller, "message": text, "sessionId": event["session"]})
        # The record of a key lives for a day: that is how often a person may be answered.
        once_a_day = idempotency.record_of(API_KEY, f"{event['phone']} {caller}", b"")
        try:
            await self._acceptor.accept(SendRequest(body, text_content(text), API_KEY, once_a_day))
        except Refused as refused:  # an opt-out, a full day, a session that is gone: then there is no reply
            log.info("call.not_answered", session=event["session"], code=refused.code)
