"""Route that changes what an operator chose for a session: its names, its zone, its presence, its proxy."""

from typing import Any, cast

from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies.proxy_move import MoveTime
from wa_orchestrator.domain.sessions.session import Event, State
from wa_orchestrator.orchestrator.api.sessions.changes import PRESENCE, PresenceMode
from wa_orchestrator.orchestrator.api.sessions.reads import SessionDetail, SessionId, detail, find
from wa_orchestrator.orchestrator.proxies import chosen_proxy
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import sessions
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.web.auth import OperateCaller
from wa_orchestrator.web.models import RequestModel, TagNames, TimezoneName
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_REFUSALS = responses(
    BAD_PROXY_URL=400, NO_SUCH_SESSION=404, NO_SUCH_PROXY=404, PROXY_UNREACHABLE=409, PROXY_BAD=409, PROXY_FULL=409,
    STICKY_PROXY_FULL=409, BANNED_KEEPS_PROXY=409, MOVES_TOGETHER=409,
)  # fmt: skip


class SessionPatch(RequestModel):
    """What to change about a session. Missing fields stay; null removes a value."""

    label: str | None = Field(None, max_length=100, examples=["support"])
    tags: TagNames | None = Field(None, description="All of its tags; others are removed.")
    notes: str | None = Field(None, max_length=2_000, description="For people.")
    timezone: TimezoneName | None = Field(None, description="Time zone of its hours and days. Null: `TIMEZONE`.")
    presence: PresenceMode | None = Field(None, description=PRESENCE)
    proxy: str | None = Field(
        None,
        max_length=2_000,
        examples=["p_1a2b3c4d5e", "socks5h://user:password@proxy.example.com:1080"],
        description="Another proxy, by id or URL. It is checked first, and all sessions of the phone move together.",
    )
    proxy_move: MoveTime = Field(MoveTime.NOW, description="`now` replaces the workers; `restart` waits for the next.")

    def fields(self) -> SessionChanges:
        """Return what is written to the record: what was given, also what is null."""
        given: dict[str, Any] = {
            "label": (self.label or "").strip(),
            "tags": tuple(self.tags or ()),
            "notes": (self.notes or "").strip(),
            "timezone": self.timezone or "",
            "presence": self.presence or "",
        }
        return cast("SessionChanges", {name: given[name] for name in given if name in self.model_fields_set})


class SessionChangeRoutes(RouteGroup):
    def __init__(self, context: Context, proxy_health: ProxyHealth) -> None:
        super().__init__(context, "/api/sessions", "sessions")
        self._proxy_health = proxy_health
        self.patch("/{session_id}", responses=_REFUSALS)(self.change_session)

    async def change_session(self, session_id: SessionId, body: SessionPatch, caller: OperateCaller) -> SessionDetail:
        """Change a session. A running worker is replaced where the change needs it; no new scan is needed.

        The proxy is moved first: if it cannot be had, nothing is changed.
        """
        session = await find(self._context, session_id)
        fields, moved = body.fields(), False
        if body.proxy is not None:
            probe = self._proxy_health.probe
            moved = await chosen_proxy.choose(self._context, session, body.proxy.strip(), body.proxy_move, probe)
        if fields:
            await sessions.change(self._scripts, session_id, fields)
        await self._replace_worker(session, fields)
        after = await find(self._context, session_id)
        noted = {name: value for name, value in fields.items() if name != "notes"}
        if moved:
            noted |= {"proxy": after.proxy, "proxy_before": session.proxy, "proxy_move": body.proxy_move}
        await self._audit(caller, "session.change", session_id, changed=sorted(body.model_fields_set), **noted)
        return await detail(self._context, after)

    async def _replace_worker(self, before: Session, fields: SessionChanges) -> None:
        """Replace the worker of a connected session whose presence changed: workers read it when they start."""
        if fields.get("presence", before.presence) != before.presence and before.status is State.CONNECTED:
            await transitions.request_restart(self._context, before, Event.RESTART_ASKED)
