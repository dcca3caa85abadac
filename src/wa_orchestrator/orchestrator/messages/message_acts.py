"""What a session does besides sending: react, edit, delete for everyone, mark as read, show typing, look up, block.

None of it starts a conversation, so none is queued or paced as messages are; each counts against a light limit of its
session. Each can be repeated without harm: an answer that was lost is asked for again.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain import recipient
from wa_orchestrator.domain.messages import amendment
from wa_orchestrator.domain.messages.amendment import Unamendable
from wa_orchestrator.domain.messages.incoming import IncomingKind
from wa_orchestrator.domain.pacing.limits import DAY_MS
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import message_lookup
from wa_orchestrator.messages.act_runner import ActRunner, Limit, not_connected
from wa_orchestrator.messages.named_message import NamedMessage
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import contacts, incoming_messages, outbox
from wa_orchestrator.store.messages.incoming_messages import OwnChange
from wa_orchestrator.store.records import Session

_REFUSALS: Final[dict[str, str]] = {
    Unamendable.NOT_OURS: "Somebody else wrote this message.",
    Unamendable.NOT_SENT: "WhatsApp does not have this message. One that waits can be cancelled: DELETE it.",
    Unamendable.TOO_LATE: "WhatsApp's time for it is over: 15 minutes for an edit, 60 hours for a deletion.",
    Unamendable.NO_WORDS: "Only a text, or the caption of a picture, a video or a document can be edited.",
}


class MessageActs:
    """Carries out acts through the worker of their session."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scripts = context.scripts
        self._worker = ActRunner(context.settings, context.scripts)

    async def react(self, target: NamedMessage, emoji: str) -> None:
        """React to a message; '' takes the reaction back."""
        await self._require_opted_in(target.chat)
        await self._on_message("react", target, text=emoji)
        await self._put_change(target, IncomingKind.REACTION, emoji)

    async def edit(self, target: NamedMessage, text: str) -> None:
        """Replace the text of a message that we sent, on the recipients' phones and in its record."""
        now_ms, facts = await self._scripts.now_ms(), {"is_ours": target.is_ours, "sent_ms": target.at_ms}
        _require(amendment.edit_refusal(target.kind, target.status, now_ms=now_ms, **facts))  # type: ignore[arg-type]
        await self._require_opted_in(target.chat)
        await self._on_message("edit", target, text=text)
        await self._note(target, "EDITED", text)

    async def delete(self, target: NamedMessage) -> None:
        """Delete a message for everyone. It stays in its record, which says so. Allowed also after an opt-out."""
        now_ms, in_group = await self._scripts.now_ms(), recipient.is_group(target.chat)
        refusal = amendment.deletion_refusal(
            target.status, is_ours=target.is_ours, in_group=in_group, sent_ms=target.at_ms, now_ms=now_ms
        )
        _require(refusal)
        await self._on_message("delete", target)
        await self._note(target, "DELETED")

    async def mark_read(self, target: NamedMessage) -> None:
        """Tell the author that their message was read."""
        if target.is_ours:
            raise Refused("NOT_THEIRS", "Only a message that somebody sent to you can be marked as read.", 409)
        await self._on_message("mark_read", target)

    async def show_typing(self, session: Session, to: str, state: str) -> None:
        """Show in a chat that we type or record, or do no longer. WhatsApp shows it for about 25 seconds."""
        name = await contacts.known_name(self._scripts, to)
        await self._require_opted_in(name)
        await self._worker.spend(session.id, Limit.ACTS)
        await self._worker.run(session, "typing", to=recipient.address(name), text=state)

    async def check_number(self, session: Session, phone: str) -> Mapping[str, Any]:
        """Return whether a phone has WhatsApp, and its LID."""
        await self._worker.spend(session.id, Limit.LOOKUPS)
        return await self._worker.run(session, "check_number", to=phone)

    async def profile_picture(self, session: Session, to: str) -> Mapping[str, Any]:
        """Return the address of a person's or a group's picture, as far as it is shown to us."""
        await self._worker.spend(session.id, Limit.LOOKUPS)
        return await self._worker.run(session, "profile_picture", to=recipient.address(to))

    async def set_blocked(self, session: Session, to: str, how: str) -> None:
        """Block or unblock a person for this account."""
        await self._worker.spend(session.id, Limit.ACTS)
        await self._worker.run(session, how, to=recipient.address(await contacts.known_name(self._scripts, to)))

    async def _on_message(self, kind: str, target: NamedMessage, **more: str) -> None:
        session = await self._session_of(target)
        await self._worker.spend(session.id, Limit.ACTS)
        who = {"phone": target.author_phone, "lid": target.author_lid, "fromMe": "yes" if target.is_ours else ""}
        named = {"to": recipient.address(target.chat), "whatsappId": target.whatsapp_id}
        await self._worker.run(session, kind, **named, **{name: value for name, value in who.items() if value}, **more)

    async def _session_of(self, target: NamedMessage) -> Session:
        """Return a connected session of the phone that has the message: its own, or another one."""
        known = await records.session(self._scripts, target.session)
        others = await records.sessions_of_phone(self._scripts, target.phone)
        same = [known] if known is not None and known.phone == target.phone else []
        ready = [each for each in (*same, *others) if each.status is State.CONNECTED]
        if not ready:
            raise not_connected()
        return ready[0]

    async def _require_opted_in(self, name: str) -> None:
        if await contacts.opt_out_of(self._scripts, name):
            text = "The recipient opted out. Remove the opt-out first: /api/v1/opt-outs."
            raise Refused("OPTED_OUT", text, 422)

    async def _put_change(self, target: NamedMessage, kind: IncomingKind, text: str = "") -> None:
        """Store what we did to a message beside it, for its conversation."""
        change = OwnChange(target.session, target.chat, target.whatsapp_id, kind, text)
        keep_ms = self._context.settings.body_retention_days * DAY_MS
        await incoming_messages.put_own_change(self._scripts, change, keep_ms=keep_ms)

    async def _note(self, target: NamedMessage, how: Any, text: str = "") -> None:
        """Note what became of a message in its record; one that was not sent from here has none, but a conversation."""
        place = await message_lookup.restored(self._scripts, self._context.archive, target.message_id)
        message = await records.message(self._scripts, target.message_id)
        if place is None or message is None:
            await self._put_change(target, IncomingKind.EDIT if how == "EDITED" else IncomingKind.DELETION, text)
            return
        body = json.loads(message.body or "{}")
        if how == "EDITED" and body:
            words = body.get("media", body)
            words["caption" if "media" in body else "text"] = text
        changed = json.dumps(body, ensure_ascii=False) if how == "EDITED" and body else ""
        await outbox.amend(self._scripts, place, how, changed)


def _require(refusal: Unamendable | None) -> None:
    if refusal is not None:
        raise Refused(str(refusal), _REFUSALS[refusal], 409)
