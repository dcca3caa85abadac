"""Routes of proxies."""

import asyncio
import time
from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.proxies.proxy_health import ProxyStatus
from wa_orchestrator.domain.proxies.proxy_url import BadProxyUrl, ProxyUrl
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth, mark_by_operator
from wa_orchestrator.orchestrator.proxies.socks_check import CheckPassed
from wa_orchestrator.store import proxies, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.outcomes import Removed, Unknown
from wa_orchestrator.store.records import Proxy, ProxyChanges
from wa_orchestrator.texts import catalogue
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import OperateCaller, ReadCaller
from wa_orchestrator.web.models import NextCursor, OptionalText, OptionalTimestamp, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

ProxyId = Annotated[str, Path(pattern=r"^p_[0-9a-f]{4,32}$", examples=["p_1a2b3c4d5e"])]
MOST_LINES = 2_000
#: How long a drained proxy waits for the old workers of its sessions to end, and how often it looks.
_WORKERS_END_S, _POLL_S = 15.0, 0.05


class AddProxyBody(RequestModel):
    """A proxy to add to the pool."""

    url: str = Field(examples=["socks5h://user:password@proxy.example.com:1080"], max_length=2_000)


class ImportProxiesBody(RequestModel):
    """A pasted list, one proxy per line: a URL, or `host:port:user:password`, also as CSV; # begins a comment."""

    text: str = Field(
        max_length=1_000_000,
        examples=["socks5h://user:password@a.example.com:1080\nsocks5h://user:password@b.example.com:1080"],
    )


class ProxyView(ResponseModel):
    """A proxy of the pool."""

    id: str = Field(examples=["p_1a2b3c4d5e"])
    url: str = Field(description="Without the password.", examples=["socks5h://user:***@proxy.example.com:1080"])
    status: ProxyStatus
    sessions: list[str] = Field(description="The ids of the sessions that use it.")
    slots: int = Field(description="How many sessions may use it.")
    free: int = Field(description="How many more sessions may use it now.")
    last_check_at: OptionalTimestamp
    next_check_at: OptionalTimestamp
    latency_ms: int | None
    last_error: OptionalText = Field(description="Why the last check failed, for a person.")
    last_failure: OptionalText = Field(
        description="The same as a stable code, with a detail after a colon where there is one.",
        examples=["NO_ANSWER:5"],
    )
    strikes: int = Field(description="How many sessions reported trouble with it lately.")
    origin: OptionalText = Field(description="`environment` or `operator`.")
    draining: bool = Field(description="Whether its sessions are being moved away.")
    added_at: OptionalTimestamp
    name: OptionalText = Field(description="Display name.")
    provider: OptionalText
    country: OptionalText = Field(description="Two letters, ISO 3166.", examples=["IL"])
    expires_on: OptionalText = Field(description="The last day that is paid for.", examples=["2026-12-31"])


class Inventory(ResponseModel):
    """Slots of the whole pool."""

    proxies: int
    healthy: int
    slots: int = Field(description="All slots of healthy proxies.")
    free: int
    waiting: int = Field(description="Sessions that wait for a slot.")


class ProxyPage(ResponseModel):
    """A page of proxies, sorted by id."""

    proxies: list[ProxyView]
    total: int = Field(description="How many match, on all pages.")
    next: NextCursor
    inventory: Inventory


class CheckedProxy(ProxyView):
    """A proxy after a check."""

    passed: bool


class ImportedLineError(ResponseModel):
    """A line that is not a proxy."""

    line: int
    code: str
    message: str


class ImportedProxies(ResponseModel):
    """What became of each line."""

    added: list[str] = Field(description="Ids of the proxies that were added.")
    known: list[str] = Field(description="Ids of the proxies that were in the pool already.")
    errors: list[ImportedLineError]


class RemovedProxy(ResponseModel):
    """The proxy is out of the pool."""

    id: str
    removed: Literal[True] = True


_MISSING = responses(NO_SUCH_PROXY=404)


def no_such_proxy(proxy_id: str) -> Refused:
    return Refused(
        "NO_SUCH_PROXY", f"There is no proxy {proxy_id}. GET /api/v1/proxies lists them.", 404, proxyId=proxy_id
    )


class ProxyRoutes(RouteGroup):
    def __init__(self, context: Context, proxy_health: ProxyHealth) -> None:
        super().__init__(context, "/api/v1/proxies", "proxies")
        self._proxy_health = proxy_health
        one = "/{proxy_id}"
        self.get("", responses=responses(BAD_CURSOR=400))(self.list_proxies)
        self.post("", status_code=201, responses=responses(BAD_PROXY_URL=400, PROXY_KNOWN=409))(self.add_proxy)
        self.post("/import", responses=responses(TOO_MANY_LINES=422))(self.import_proxies)
        self.get(one, responses=_MISSING)(self.get_proxy)
        self.delete(one, responses=responses(NO_SUCH_PROXY=404, PROXY_IN_USE=409, NO_ROOM_TO_DRAIN=409))(
            self.remove_proxy
        )
        self.post(f"{one}/check", responses=_MISSING)(self.check_proxy)
        self.post(f"{one}/reinstate", responses=_MISSING)(self.reinstate_proxy)

    async def list_proxies(
        self,
        *,
        _caller: ReadCaller,
        status: Annotated[ProxyStatus | None, Query(description="Only with this status.")] = None,
        cursor: paging.Cursor = None,
        limit: paging.Limit = 100,
    ) -> ProxyPage:
        """List proxies, with the slots of the whole pool."""
        found = [proxy for proxy in await records.proxies(self._scripts) if status is None or proxy.status == status]
        shown, following = paging.page(found, cursor, limit, lambda proxy: proxy.id)
        inventory = Inventory(**await placement.inventory(self._context))
        views = [self._view(proxy) for proxy in shown]
        return ProxyPage(proxies=views, total=len(found), next=following, inventory=inventory)

    async def get_proxy(self, proxy_id: ProxyId, _caller: ReadCaller) -> ProxyView:
        """Get a proxy."""
        return self._view(await self._find(proxy_id))

    async def add_proxy(self, body: AddProxyBody, caller: OperateCaller) -> ProxyView:
        """Add a proxy to the pool."""
        url = await proxies.recognized(self._scripts, proxy_url.parse(body.url))
        if not await self._join(url):
            text = f"This proxy is in the pool already, as {url.id}. Use that one."
            raise Refused("PROXY_KNOWN", text, 409, id=url.id)
        await self._audit(caller, "proxy.add", url.id)
        return self._view(await self._find(url.id))

    async def import_proxies(self, body: ImportProxiesBody, caller: OperateCaller) -> ImportedProxies:
        """Add a pasted list of proxies."""
        lines = body.text.splitlines()
        if len(lines) > MOST_LINES:
            raise Refused("TOO_MANY_LINES", f"At most {MOST_LINES} lines at once. Import the list in parts.", 422)
        added: list[str] = []
        known: list[str] = []
        errors: list[ImportedLineError] = []
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                url = await proxies.recognized(self._scripts, proxy_url.parse_line(line))
            except BadProxyUrl as error:
                errors.append(ImportedLineError(line=number, code=error.code, message=error.text))
                continue
            (added if await self._join(url) else known).append(url.id)
        await self._audit(caller, "proxy.import", f"{len(added)} added", errors=len(errors))
        return ImportedProxies(added=added, known=known, errors=errors)

    async def remove_proxy(
        self,
        proxy_id: ProxyId,
        caller: OperateCaller,
        *,
        drain: Annotated[bool, Query(description="Move its sessions to other proxies first.")] = False,
    ) -> RemovedProxy:
        """Remove a proxy that no session uses, or whose sessions fit on others."""
        await self._find(proxy_id)
        if drain:
            await self._drain(proxy_id)
        match await self._remove(proxy_id, wait_s=_WORKERS_END_S if drain else 0):
            case proxies.InUse(count):
                text = f"{count} sessions use this proxy. Delete it with ?drain=true to move them first."
                raise Refused("PROXY_IN_USE", text, 409, sessions=count)
            case Unknown():
                raise no_such_proxy(proxy_id)
        await self._audit(caller, "proxy.remove", proxy_id, drain=drain)
        return RemovedProxy(id=proxy_id)

    async def _remove(self, proxy_id: str, wait_s: float) -> Removed | proxies.InUse | Unknown:
        """Remove a proxy; sessions that were moved keep their slots on it until their old workers have ended."""
        ends_at = time.monotonic() + wait_s
        while True:
            outcome = await proxies.remove(self._scripts, proxy_id)
            if not isinstance(outcome, proxies.InUse) or time.monotonic() >= ends_at:
                return outcome
            await asyncio.sleep(_POLL_S)

    async def _drain(self, proxy_id: str) -> None:
        """Move all sessions away; none can take a slot meanwhile, because the proxy is marked bad."""
        proxy = await self._find(proxy_id)
        need = len(proxy.sessions)
        elsewhere = (await placement.inventory(self._context))["free"] - free_slots(
            proxy, self._settings.max_sessions_per_proxy
        )
        if elsewhere < need:
            text = f"{need} sessions need a slot and {elsewhere} are free. Add a proxy first."
            raise Refused("NO_ROOM_TO_DRAIN", text, 409, sessions=need, free=elsewhere)
        await mark_by_operator(self._context, proxy_id, ProxyStatus.BAD, "DRAINED", ProxyChanges(draining=True))
        await placement.drain(self._context, proxy_id, ProxyReason.DRAINED)

    async def check_proxy(self, proxy_id: ProxyId, caller: OperateCaller) -> CheckedProxy:
        """Check a proxy now."""
        passed = isinstance(await self._proxy_health.check(proxy_id), CheckPassed)
        checked = await self._find(proxy_id)
        await self._audit(caller, "proxy.check", proxy_id)
        return CheckedProxy.of(self._view(checked), passed=passed)

    async def reinstate_proxy(self, proxy_id: ProxyId, caller: OperateCaller) -> ProxyView:
        """Put a bad proxy back into use."""
        fields = ProxyChanges(
            strikes=(), bad_in_a_row=0, good_in_a_row=0, failing_since=0, draining=False, next_check_at=0
        )
        await mark_by_operator(self._context, proxy_id, ProxyStatus.OK, "REINSTATED", fields)
        reinstated = await self._find(proxy_id)
        await self._audit(caller, "proxy.reinstate", proxy_id)
        return self._view(reinstated)

    async def _join(self, url: ProxyUrl) -> bool:
        return await proxies.add(self._scripts, url.id, url=url.url, masked=url.masked, origin="operator")

    def _view(self, proxy: Proxy) -> ProxyView:
        return view(proxy, self._settings.max_sessions_per_proxy)

    async def _find(self, proxy_id: str) -> Proxy:
        return await find(self._scripts, proxy_id)


async def find(scripts: Scripts, proxy_id: str) -> Proxy:
    """Return a proxy; raise `Refused` when there is none."""
    proxy = await records.proxy(scripts, proxy_id)
    if proxy is None:
        raise no_such_proxy(proxy_id)
    return proxy


def free_slots(proxy: Proxy, slots: int) -> int:
    """Return how many more sessions may use a proxy now."""
    return max(0, slots - len(proxy.sessions)) if proxy.status == ProxyStatus.OK else 0


def view(proxy: Proxy, slots: int) -> ProxyView:
    failure = proxy.last_error
    return ProxyView.of(
        proxy,
        url=proxy.masked,  # the other one has the password
        sessions=sorted(proxy.sessions),
        slots=slots,
        free=free_slots(proxy, slots),
        last_check_at=proxy.checked_at,
        last_error=catalogue.proxy_failure(catalogue.DEFAULT, failure) if failure else None,
        last_failure=failure,
        strikes=len(proxy.strikes),
    )
