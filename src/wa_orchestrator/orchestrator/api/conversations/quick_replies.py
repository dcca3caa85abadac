"""Answers that people insert into a reply."""

from typing import Annotated, Final

from fastapi import Path

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.conversations.models import QuickReplies, QuickReply, QuickReplyBody
from wa_orchestrator.store.conversations import quick_replies
from wa_orchestrator.web.auth import OperateCaller, ReadCaller
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

ReplyName = Annotated[str, Path(pattern=r"^[^\s/\x00-\x1f\x7f]{1,40}$", examples=["hours"])]
_MOST: Final = 500


class QuickReplyRoutes(RouteGroup):
    """Routes `/api/v1/quick-replies`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/quick-replies", "conversations")
        self.get("")(self.list_quick_replies)
        self.put("/{name}", responses=responses(TOO_MANY_QUICK_REPLIES=409))(self.put_quick_reply)
        self.delete("/{name}", responses=responses(NO_SUCH_QUICK_REPLY=404))(self.delete_quick_reply)

    async def list_quick_replies(self, _caller: ReadCaller) -> QuickReplies:
        """List answers that people insert, by name."""
        found = await quick_replies.every(self._scripts)
        return QuickReplies(quick_replies=[QuickReply(name=name, text=text) for name, text in found.items()])

    async def put_quick_reply(self, name: ReplyName, body: QuickReplyBody, caller: OperateCaller) -> QuickReply:
        """Add or replace an answer."""
        known = await quick_replies.every(self._scripts)
        if name not in known and len(known) >= _MOST:
            raise Refused("TOO_MANY_QUICK_REPLIES", f"There are {_MOST} already. Delete one first.", 409)
        await quick_replies.put(self._scripts, name, body.text)
        await self._audit(caller, "quick_reply.put", name)
        return QuickReply(name=name, text=body.text)

    async def delete_quick_reply(self, name: ReplyName, caller: OperateCaller) -> QuickReplies:
        """Delete an answer; the others are returned."""
        if not await quick_replies.remove(self._scripts, name):
            text = "There is no such answer. GET /api/v1/quick-replies lists them."
            raise Refused("NO_SUCH_QUICK_REPLY", text, 404)
        await self._audit(caller, "quick_reply.delete", name)
        return await self.list_quick_replies(caller)
