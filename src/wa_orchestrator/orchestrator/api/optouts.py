"""Who does not want to be written to: the list, as an operator sees and corrects it."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain import phone
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.messages import incoming
from wa_orchestrator.store import audit, contacts, keys
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import AdminCaller, ReadCaller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses


class OptOutBody(RequestModel):
    """Somebody who asked not to be written to."""

    phone: Annotated[str, Field(min_length=1, max_length=40, examples=["972501234567"])]


def router(context: Context) -> APIRouter:
    """Offer `/api/v1/opt-outs`."""
    routes = APIRouter(prefix="/api/v1/opt-outs", tags=["opt-outs"])
    api = _OptOuts(context)
    routes.get("", summary="Who opted out")(api.listed)
    routes.post("", status_code=201, summary="Write to somebody never again", responses=responses(BAD_PHONE=400))(
        api.add
    )
    routes.delete("/{recipient}", summary="They want to hear again", responses=responses(NO_SUCH_OPT_OUT=404))(
        api.delete
    )
    return routes


class _OptOuts:
    """One method per route."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def listed(
        self, _caller: ReadCaller, cursor: str | None = None, limit: Annotated[int, Query(ge=1, le=500)] = 100
    ) -> dict[str, Any]:
        stored: Any = await self._context.redis.hgetall(keys.OPT_OUTS)
        found, after = paging.page(sorted(stored.items()), cursor, limit, lambda each: str(each[0]))
        return {"optOuts": [_shown(name, json.loads(text)) for name, text in found], "next": after}

    async def add(self, body: OptOutBody, caller: AdminCaller) -> dict[str, Any]:
        recipient = phone.parse(body.phone)
        await contacts.opt_out(self._context.scripts, recipient, word="", via="api")
        cancelled = await incoming.cancel_for(self._context.scripts, recipient)
        await audit.record(self._context.scripts, caller.key_id, "opt_out.add", recipient[-4:], cancelled=cancelled)
        stored: Any = await self._context.redis.hget(keys.OPT_OUTS, recipient)
        return _shown(recipient, json.loads(stored)) | {"cancelled": cancelled}

    async def delete(self, recipient: str, caller: AdminCaller) -> dict[str, bool]:
        name = recipient if recipient.startswith("lid:") else phone.parse(recipient)
        if not await contacts.opt_in(self._context.scripts, name):
            raise Refused("NO_SUCH_OPT_OUT", "This person is not on the list. GET /api/v1/opt-outs shows it.", 404)
        await audit.record(self._context.scripts, caller.key_id, "opt_out.delete", name[-4:])
        return {"deleted": True}


def _shown(name: str, raw: dict[str, Any]) -> dict[str, Any]:
    lid = name.removeprefix("lid:") if name.startswith("lid:") else None
    return {
        "phone": None if lid else name,
        "lid": lid,
        "at": iso(int(raw.get("at_ms", 0))),
        "word": raw.get("word") or None,
        "via": raw.get("via"),
    }
