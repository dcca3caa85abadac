"""Proxy health: what a check or a worker's report makes of a proxy, and what follows for its sessions."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain import proxy as domain
from wa_orchestrator.domain.proxy import Health, MarkBad, ProxyStatus, Strike
from wa_orchestrator.domain.session import Event
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed, CheckPassed, ProxyCheck, check
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import proxies, records
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.records import Proxy, ProxyChanges

#: Reports that come so soon after a strike are about the same incident: four sessions share a proxy.
SAME_INCIDENT_MS = 5_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProxyMark:
    """A proxy's new status, why, and the fields that change with it."""

    status: ProxyStatus
    reason: str
    fields: ProxyChanges


async def mark_proxy(
    context: Context, proxy_id: str, decide: Callable[[Proxy, int], ProxyMark | None]
) -> tuple[Proxy, ProxyMark] | None:
    """Write what `decide` makes of a proxy at this time; return the proxy as it was and the mark.

    None if there is no such proxy, or if `decide` returned None.
    """

    async def attempt() -> tuple[Proxy, ProxyMark] | Changed | None:
        proxy = await records.proxy(context.scripts, proxy_id)
        mark = decide(proxy, await context.scripts.now_ms()) if proxy is not None else None
        if proxy is None or mark is None:
            return None
        outcome = await proxies.mark(
            context.scripts,
            proxy_id,
            version=proxy.version,
            status=mark.status,
            reason=mark.reason,
            fields=mark.fields,
        )
        match outcome:
            case Changed():
                return outcome
            case proxies.Unknown():
                return None
            case proxies.Marked():
                return proxy, mark

    return await compare_and_set(f"Proxy {proxy_id}", attempt)


async def mark_by_operator(
    context: Context, proxy_id: str, status: ProxyStatus, reason: str, fields: ProxyChanges
) -> bool:
    """Write an operator's decision about a proxy; False if there is no such proxy."""
    return await mark_proxy(context, proxy_id, lambda _proxy, _now: ProxyMark(status, reason, fields)) is not None


class ProxyHealth:
    """Checks proxies and writes the results. Concurrent reports about one proxy share one check."""

    def __init__(self, context: Context, checker: ProxyCheck | None = None) -> None:
        self._context = context
        self._check = checker or self._real_check
        self._inquiries: dict[str, asyncio.Task[None]] = {}
        self._busy: set[asyncio.Task[None]] = set()

    async def _real_check(self, url: str) -> CheckPassed | CheckFailed:
        settings = self._context.settings
        return await check(url, settings.check_target, settings.check_timeout_ms)

    async def probe(self, url: str) -> CheckPassed | CheckFailed:
        """Check a proxy that need not be in the pool; nothing is recorded."""
        return await self._check(url)

    async def check(self, proxy_id: str) -> CheckPassed | CheckFailed | None:
        """Check a proxy as the monitor does, and drain it if it is bad; None if there is no such proxy."""
        proxy = await records.proxy(self._context.scripts, proxy_id)
        if proxy is None:
            return None
        result = await self._check(proxy.url)
        marked = await mark_proxy(self._context, proxy_id, lambda seen, now: self._after_check(seen, result, now))
        if marked is None:
            return result
        before, mark = marked
        if mark.status != before.status:
            log.warning("proxy.status_changed", proxy=proxy_id, status=mark.status, why=mark.reason)
        # Also if it was bad before: a crash may have left sessions on it.
        if mark.status is ProxyStatus.BAD:
            await placement.drain(self._context, proxy_id, ProxyReason.CHECK_FAILED)
        return result

    def _after_check(self, proxy: Proxy, result: CheckPassed | CheckFailed, now: int) -> ProxyMark:
        before = Health(proxy.status, proxy.good_in_a_row, proxy.bad_in_a_row)
        after = domain.after_check(before, passed=isinstance(result, CheckPassed))
        fields = _checked(result, now) | self._next_check(now, after.bad_in_a_row)
        fields |= ProxyChanges(good_in_a_row=after.good_in_a_row, bad_in_a_row=after.bad_in_a_row)
        return ProxyMark(ProxyStatus.BAD if proxy.draining else after.status, _described(result), fields)

    def report_failure(self, proxy_id: str, session_id: str, epoch: int) -> asyncio.Task[None]:
        """Handle a worker's report that its proxy fails. The check runs in the background."""
        running = self._inquiries.get(proxy_id)
        if running is None:
            running = self._inquiries[proxy_id] = self._begin(self._inquire(proxy_id))
            running.add_done_callback(lambda _: self._inquiries.pop(proxy_id))
        return self._begin(self._follow_up(running, proxy_id, session_id, epoch))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a background task; asyncio would collect one that nobody references."""
        task = asyncio.create_task(work)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)
        return task

    async def _inquire(self, proxy_id: str) -> None:
        """Check at once. A proxy that passes gets a strike; the second one within five minutes makes it bad."""
        proxy = await records.proxy(self._context.scripts, proxy_id)
        if proxy is None or proxy.status == ProxyStatus.BAD:
            return
        result = await self._check(proxy.url)
        marked = await mark_proxy(self._context, proxy_id, lambda seen, now: self._after_report(seen, result, now))
        if marked is None:
            return
        _, mark = marked
        log.warning("proxy.judged", proxy=proxy_id, status=mark.status, why=mark.reason, check=_described(result))
        if mark.status is ProxyStatus.BAD:
            await placement.drain(self._context, proxy_id, ProxyReason.PROXY_FAILED)

    def _after_report(self, proxy: Proxy, result: CheckPassed | CheckFailed, now: int) -> ProxyMark | None:
        passed, strikes = isinstance(result, CheckPassed), proxy.strikes
        if proxy.status == ProxyStatus.BAD:
            return None
        if passed and strikes and now - strikes[-1] < self._context.settings.scaled(SAME_INCIDENT_MS):
            return None
        fields = _checked(result, now)
        match domain.judge(check_passed=passed, strikes_at_ms=strikes, now_ms=now):
            case MarkBad(why):
                fields |= ProxyChanges(strikes=(), good_in_a_row=0, bad_in_a_row=1, bad_because=why)
                return ProxyMark(ProxyStatus.BAD, str(why), fields | self._next_check(now, 1))
            case Strike(struck):
                fields |= ProxyChanges(strikes=struck)
                return ProxyMark(ProxyStatus.OK, "STRIKE", fields | self._next_check(now, 0))

    async def _follow_up(self, inquiry: asyncio.Task[None], proxy_id: str, session_id: str, epoch: int) -> None:
        """If the proxy stays healthy, restart the reporting session on it."""
        await asyncio.shield(inquiry)
        session = await records.session(self._context.scripts, session_id)
        if session is None or session.proxy != proxy_id or session.epoch != epoch:
            return
        if not transitions.wants_worker(session) or transitions.restart_pending(session):
            return
        proxy = await records.proxy(self._context.scripts, proxy_id)
        if proxy is not None and proxy.status == ProxyStatus.BAD:  # it was bad before, and the session is still there
            await placement.assign_slot(self._context, session, ProxyReason.PROXY_FAILED)
        else:
            await transitions.request_restart(self._context, session, Event.PROXY_STRUCK)

    def _next_check(self, now: int, bad_in_a_row: int) -> ProxyChanges:
        wait_ms = domain.next_check_ms(bad_in_a_row, self._context.settings.monitor_interval_ms)
        return ProxyChanges(next_check_at=now + wait_ms)


def _checked(result: CheckPassed | CheckFailed, now: int) -> ProxyChanges:
    match result:
        case CheckPassed(latency_ms):
            return ProxyChanges(checked_at=now, latency_ms=latency_ms, last_error="")
        case CheckFailed():
            return ProxyChanges(checked_at=now, last_error=str(result))


def _described(result: CheckPassed | CheckFailed) -> str:
    return "passed" if isinstance(result, CheckPassed) else str(result)
