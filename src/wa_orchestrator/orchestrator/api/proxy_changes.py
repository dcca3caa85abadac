"""Route that changes what an operator knows about a proxy, and its password."""

from dataclasses import replace
from datetime import date
from typing import Annotated, cast

import structlog
from pydantic import AfterValidator, Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.proxies.proxy_url import ProxyUrl
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.proxies import ProxyId, ProxyView, find, no_such_proxy, view
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import proxies, records
from wa_orchestrator.store.records import Proxy, ProxyChanges
from wa_orchestrator.web.auth import OperateCaller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

log = structlog.get_logger(__name__)
_Country = Annotated[str, Field(pattern="^[A-Za-z]{2}$", examples=["IL"]), AfterValidator(str.upper)]


class ProxyPatch(RequestModel):
    """What to change about a proxy. Missing fields stay; null removes a value."""

    name: str | None = Field(None, max_length=100, examples=["Tel Aviv 3"])
    provider: str | None = Field(None, max_length=100)
    country: _Country | None = Field(None, description="Two letters, ISO 3166.")
    expires_on: date | None = Field(None, description="The last day that is paid for.")
    password: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="A new password. It is checked first; then the workers of its sessions are replaced, one by one. "
        "The proxy keeps its id and its sessions. Null: it stays.",
    )

    def fields(self) -> ProxyChanges:
        """Return what is written to the record, without the password."""
        given = {
            "name": (self.name or "").strip(),
            "provider": (self.provider or "").strip(),
            "country": self.country or "",
            "expires_on": self.expires_on.isoformat() if self.expires_on else "",
        }
        return cast("ProxyChanges", {name: given[name] for name in given if name in self.model_fields_set})


class ProxyChangeRoutes(RouteGroup):
    def __init__(self, context: Context, proxy_health: ProxyHealth) -> None:
        super().__init__(context, "/api/v1/proxies", "proxies")
        self._proxy_health = proxy_health
        refusals = responses(NO_SUCH_PROXY=404, PROXY_UNREACHABLE=409, NO_USER=422)
        self.patch("/{proxy_id}", responses=refusals)(self.change_proxy)

    async def change_proxy(self, proxy_id: ProxyId, body: ProxyPatch, caller: OperateCaller) -> ProxyView:
        """Change a proxy: its name, provider, country, the day it expires, its password."""
        proxy = await find(self._scripts, proxy_id)
        fields, alias = body.fields(), ""
        if body.password is not None:
            url = await self._with_password(proxy, body.password)
            fields |= ProxyChanges(url=url.url, masked=url.masked, next_check_at=0)
            alias = url.id
        if fields and not await proxies.change(self._scripts, proxy_id, fields, alias=alias):
            raise no_such_proxy(proxy_id)
        if body.password is not None:
            await self._replace_workers(proxy_id)
        changed = body.password is not None
        await self._audit(caller, "proxy.change", proxy_id, password_changed=changed, **body.fields())
        return view(await find(self._scripts, proxy_id), self._settings.max_sessions_per_proxy)

    async def _with_password(self, proxy: Proxy, password: str) -> ProxyUrl:
        """Return the URL with another password, which the proxy takes."""
        known = proxy_url.parse(proxy.url)
        if known.user is None:
            raise Refused("NO_USER", "This proxy has no user, so it has no password. Add it with both instead.", 422)
        url = replace(known, password=password)
        result = await self._proxy_health.probe(url.url)
        if isinstance(result, CheckFailed):
            text = f"The proxy failed our check with this password ({result}). Nothing was changed."
            raise Refused("PROXY_UNREACHABLE", text, 409, failure=str(result.why))
        return url

    async def _replace_workers(self, proxy_id: str) -> None:
        """Replace the workers that use the old password, on the same proxy. The restart queue spreads them."""
        proxy = await find(self._scripts, proxy_id)
        for session in await records.sessions(self._scripts, proxy.sessions):
            if session.proxy == proxy_id and transitions.wants_worker(session):
                await transitions.request_restart(self._context, session, Event.RESTART_ASKED)
        log.info("proxy.password_changed", proxy=proxy_id, sessions=len(proxy.sessions))
