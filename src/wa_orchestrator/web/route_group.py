"""Base class of routes that belong together, with the context and the audit log that their handlers need."""

from fastapi import APIRouter

from wa_orchestrator import audit_log
from wa_orchestrator.context import Context
from wa_orchestrator.settings import Settings
from wa_orchestrator.web.auth import Caller
from wa_orchestrator.web.keyed_route import KeyedRoute


class RouteGroup(APIRouter):
    """A router whose handlers are its methods; a subclass registers them."""

    def __init__(self, context: Context, prefix: str, tag: str) -> None:
        super().__init__(prefix=prefix, tags=[tag], route_class=KeyedRoute)
        self._context, self._scripts = context, context.scripts

    @property
    def _settings(self) -> Settings:
        return self._context.settings

    async def _audit(self, caller: Caller, action: str, target: str, **details: object) -> None:
        await audit_log.record(self._context, caller.key_id, caller.name, action, target, **details)
