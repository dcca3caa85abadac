"""Looks up what a message refers to: the person behind a LID or a username, and the message that it answers."""

from typing import NamedTuple

from wa_orchestrator.context import Context
from wa_orchestrator.domain import recipient
from wa_orchestrator.domain.messages.content import LONGEST_QUOTE
from wa_orchestrator.domain.messages.incoming import Quote
from wa_orchestrator.domain.messages.message import SUCCEEDED
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.gateway.usernames import Usernames
from wa_orchestrator.messages import message_search, named_message
from wa_orchestrator.messages.named_message import NamedMessage
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.web.auth import Caller


class ResolvedBody(NamedTuple):
    """A message as it is accepted: `to` in the name by which we know the person, from the phone that has the quote."""

    body: SendBody
    quote: Quote | None = None


def needs_lookup(body: SendBody) -> bool:
    """Whether a message must be looked up before it is accepted; nearly every one need not."""
    return body.reply_to is not None or not recipient.is_phone(body.to) or recipient.may_be_lid(body.to)


class References:
    """Resolves what messages refer to."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scripts = context.scripts
        self._usernames = Usernames(context)

    async def resolve(self, body: SendBody, caller: Caller) -> ResolvedBody:
        """Return a message with what it refers to. Raises `Refused` for a reference to nothing, or to another chat."""
        if not needs_lookup(body):
            return ResolvedBody(body)
        body = await self._with_known_name(await self._usernames.resolve(body, caller))
        if body.reply_to is None:
            return ResolvedBody(body)
        quoted = await self._quoted(body, body.reply_to, caller)
        if body.phone is None:  # a reply leaves from the phone that has the conversation
            body = body.model_copy(update={"phone": quoted.phone})
        quote = Quote(
            quoted.whatsapp_id,
            quoted.is_ours or None,
            quoted.author_phone or None,
            quoted.author_lid or None,
            quoted.kind,
            quoted.text[:LONGEST_QUOTE] or None,
        )
        return ResolvedBody(body, quote)

    async def _with_known_name(self, body: SendBody) -> SendBody:
        """Return the message with the phone of its recipient, if we know it: opt-outs and pace go by that."""
        lid = recipient.lid_of(body.to)
        if lid and (phone := await contacts.phone_of_lid(self._scripts, lid)):
            return body.model_copy(update={"to": phone})
        if recipient.may_be_lid(body.to) and await contacts.is_known_lid(self._scripts, body.to):
            raise recipient.lid_refusal(body.to)
        return body

    async def _quoted(self, body: SendBody, name: str, caller: Caller) -> NamedMessage:
        both = (self._scripts, self._context.archive)
        found = await named_message.find(*both, name, await self._sessions(body))
        if found is None:
            text = "The quoted message may be in the archive, which this process cannot read. Send it to ORCH_PORT."
            await message_search.require_complete(*both, text)
        if found is None or not await named_message.is_reached(self._context.session_labels, caller.reach, found):
            text = "There is no such message to reply to. Where `replyTo` is WhatsApp's id, name the session too."
            raise Refused("NO_SUCH_QUOTE", text, 422)
        if found.chat != body.to:  # it would show one person what another wrote
            raise Refused("QUOTE_OF_OTHER_CHAT", "The quoted message is in another chat.", 422)
        if not found.phone or body.phone not in (None, found.phone):
            text = "The quoted message is in a chat of another phone. Leave out `phone`."
            raise Refused("QUOTE_OF_OTHER_PHONE", text, 409)
        if found.status is not None and found.status not in SUCCEEDED:
            raise Refused("QUOTE_NOT_SENT", "The quoted message was not sent, so nobody can see it.", 409)
        return found

    async def _sessions(self, body: SendBody) -> list[str]:
        """Return the sessions where WhatsApp's id of a person's message is looked for."""
        if body.session_id is not None:
            return [body.session_id]
        if body.phone is not None:
            return [each.id for each in await records.sessions_of_phone(self._scripts, body.phone)]
        known = await contacts.affinity(self._scripts, body.to)
        return [known] if known else []
