"""Usernames as recipients: a session asks WhatsApp for the person behind one, a few times a day."""

import re
from hashlib import sha256
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain import recipient
from wa_orchestrator.domain.recipient import Username
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.messages.act_runner import ActRunner, Limit, not_connected
from wa_orchestrator.messages.session_pace import holds_on
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.records import Session
from wa_orchestrator.web.auth import Caller

_LID: Final = re.compile(r"[0-9]{5,20}")


class Usernames:
    """Resolves usernames. What is stored and queued has the LID: opt-outs and pace go by the person, not by a name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scripts = context.scripts
        self._worker = ActRunner(context.settings, context.scripts)

    async def resolve(self, body: SendBody, caller: Caller) -> SendBody:
        """Return a message to a username with the LID as its recipient. Raises `Refused` where WhatsApp tells none."""
        wanted = recipient.username_of(body.to)
        if wanted is None:
            return body
        session = await self._asked(body, wanted, caller)
        # With a key it is asked again: who knows the name alone must not profit from somebody who had the key.
        known = "" if wanted.key else await contacts.lid_of_username(self._scripts, session.phone, wanted.name)
        lid = known or await self._look_up(session, wanted)
        return body.model_copy(update={"to": f"lid:{lid}"})

    async def _asked(self, body: SendBody, wanted: Username, caller: Caller) -> Session:
        """Return the connected session that asks: one that the message names, or always the same for a name."""
        if body.session_id is not None:
            found = await records.sessions(self._scripts, [body.session_id])
        elif body.phone is not None:
            found = await records.sessions_of_phone(self._scripts, body.phone)
        else:
            found = await records.sessions(self._scripts)
        reaches = await self._context.session_labels.filter_for(caller.reach)
        ready = [each for each in found if each.status is State.CONNECTED and reaches(each.id)]
        if not ready:
            raise not_connected()
        holds, now_ms = await records.holds(self._scripts), await self._scripts.now_ms()
        ready = [each for each in ready if not holds_on(holds, each, now_ms)] or ready
        return ready[int.from_bytes(sha256(wanted.name.encode()).digest()[:4]) % len(ready)]

    async def _look_up(self, session: Session, wanted: Username) -> str:
        await self._worker.spend(session.id, Limit.LOOKUPS)
        key = {"text": wanted.key} if wanted.key else {}
        answer = await self._worker.run(session, "find_username", to=wanted.name, **key)
        lid = str(answer.get("lid") or "")
        if not _LID.fullmatch(lid):
            raise Unavailable("ACT_UNANSWERED", "WhatsApp did not say whose username it is. Try again.")
        if not wanted.key:
            await contacts.set_username(self._scripts, session.phone, wanted.name, lid)
        return lid
