"""Judging proxies: what a check or a worker's complaint makes of one, and what follows for its sessions."""

import asyncio
from collections.abc import Coroutine
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
from wa_orchestrator.store import keys, proxies, records
from wa_orchestrator.store.records import Proxy, ProxyChanges

#: Complaints that come so soon after a strike are about the same incident: four sessions share a proxy.
SAME_INCIDENT_MS = 5_000
_TRIES = 20

log = structlog.get_logger(__name__)


def health_of(proxy: Proxy) -> Health:
    """Read a proxy's health from its record."""
    return Health(
        proxy.status,
        proxy.good_in_a_row,
        proxy.bad_in_a_row,
    )


class ProxyHealth:
    """Checks proxies and writes the verdicts. Complaints about one proxy at one time share one check."""

    def __init__(self, context: Context, checker: ProxyCheck | None = None) -> None:
        self._context = context
        self._check = checker or self._real_check
        self._inquiries: dict[str, asyncio.Task[None]] = {}
        self._busy: set[asyncio.Task[None]] = set()

    async def _real_check(self, url: str) -> CheckPassed | CheckFailed:
        settings = self._context.settings
        return await check(url, settings.check_target, settings.check_timeout_ms)

    async def check(self, proxy_id: str) -> CheckPassed | CheckFailed | None:
        """Check a proxy as the monitor does, and drain it if it is bad now; None when there is no such proxy."""
        proxy = await records.proxy(self._context.scripts, proxy_id)
        if proxy is None:
            return None
        result = await self._check(proxy.url)
        is_bad = await self._write_check(proxy_id, result)
        # Also when it was bad before: a crash may have left sessions on it. After a drain nobody is there.
        if is_bad and await self._context.redis.scard(keys.sessions_of_proxy(proxy_id)):
            await placement.drain(self._context, proxy_id, ProxyReason.CHECK_FAILED)
        return result

    def report_failure(self, proxy_id: str, session_id: str, epoch: int) -> asyncio.Task[None]:
        """Take in a worker's complaint; the inquiry goes on in the background."""
        running = self._inquiries.get(proxy_id)
        if running is None:
            running = self._inquiries[proxy_id] = self._begin(self._inquire(proxy_id))
            running.add_done_callback(lambda _: self._inquiries.pop(proxy_id))
        return self._begin(self._follow_up(running, proxy_id, session_id, epoch))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start something in the background; a task that nobody keeps would be collected."""
        task = asyncio.create_task(work)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)
        return task

    async def _inquire(self, proxy_id: str) -> None:
        """Check at once; a proxy that passes gets a strike, and the second one within five minutes condemns it."""
        proxy = await records.proxy(self._context.scripts, proxy_id)
        if proxy is None or proxy.status == ProxyStatus.BAD:
            return
        result = await self._check(proxy.url)
        verdict = await self._write_verdict(proxy_id, result)
        if isinstance(verdict, MarkBad):
            await placement.drain(self._context, proxy_id, ProxyReason.PROXY_FAILED)

    async def _follow_up(self, inquiry: asyncio.Task[None], proxy_id: str, session_id: str, epoch: int) -> None:
        """Restart the one who complained on the same proxy, if that kept its good name."""
        await asyncio.shield(inquiry)
        session = await records.session(self._context.scripts, session_id)
        unchanged = session is not None and session.proxy == proxy_id and session.epoch == epoch
        if (
            session is None
            or not unchanged
            or not transitions.wants_worker(session)
            or transitions.restart_pending(session)
        ):
            return
        proxy = await records.proxy(self._context.scripts, proxy_id)
        if proxy is not None and proxy.status == ProxyStatus.BAD:  # it was bad before, and the session is still there
            await placement.assign_slot(self._context, session, ProxyReason.PROXY_FAILED)
        else:
            await transitions.request_restart(self._context, session, Event.PROXY_STRUCK)

    async def _write_verdict(self, proxy_id: str, result: CheckPassed | CheckFailed) -> MarkBad | Strike | None:
        for _ in range(_TRIES):
            proxy = await records.proxy(self._context.scripts, proxy_id)
            if proxy is None or proxy.status == ProxyStatus.BAD:
                return None
            now = await self._context.scripts.now_ms()
            passed = isinstance(result, CheckPassed)
            strikes = proxy.strikes
            if passed and strikes and now - strikes[-1] < self._context.settings.scaled(SAME_INCIDENT_MS):
                return None
            verdict = domain.judge(check_passed=passed, strikes_at_ms=strikes, now_ms=now)
            if await self._mark(proxy, verdict, result, now):
                return verdict
        return None

    async def _mark(self, proxy: Proxy, verdict: MarkBad | Strike, result: CheckPassed | CheckFailed, now: int) -> bool:
        fields = _checked(result, now)
        match verdict:
            case MarkBad(why):
                fields |= ProxyChanges(strikes=(), good_in_a_row=0, bad_in_a_row=1, bad_because=why)
                fields |= self._next(now, 1)
                status, reason = ProxyStatus.BAD, str(why)
            case Strike(strikes):
                fields |= ProxyChanges(strikes=strikes)
                fields |= self._next(now, 0)
                status, reason = ProxyStatus.OK, "STRIKE"
        log.warning("proxy.judged", proxy=proxy.id, status=status, why=reason, found=_said(result))
        outcome = await proxies.mark(
            self._context.scripts, proxy.id, version=proxy.version, status=status, reason=reason, fields=fields
        )
        return isinstance(outcome, proxies.Marked)

    async def _write_check(self, proxy_id: str, result: CheckPassed | CheckFailed) -> bool:
        """Write a monitor's check; True when the proxy is bad now."""
        for _ in range(_TRIES):
            proxy = await records.proxy(self._context.scripts, proxy_id)
            if proxy is None:
                return False
            now = await self._context.scripts.now_ms()
            after = domain.after_check(health_of(proxy), passed=isinstance(result, CheckPassed))
            fields = _checked(result, now) | self._next(now, after.bad_in_a_row)
            fields |= ProxyChanges(good_in_a_row=after.good_in_a_row, bad_in_a_row=after.bad_in_a_row)
            if proxy.draining:
                after = Health(ProxyStatus.BAD, after.good_in_a_row, after.bad_in_a_row)
            outcome = await proxies.mark(
                self._context.scripts,
                proxy_id,
                version=proxy.version,
                status=after.status,
                reason=_said(result),
                fields=fields,
            )
            if isinstance(outcome, proxies.Marked):
                if after.status != proxy.status:
                    log.warning("proxy.changed", proxy=proxy_id, status=after.status, why=_said(result))
                return after.status is ProxyStatus.BAD
        return False

    def _next(self, now: int, bad_in_a_row: int) -> ProxyChanges:
        wait_ms = domain.next_check_ms(bad_in_a_row, self._context.settings.monitor_interval_ms)
        return ProxyChanges(next_check_at=now + wait_ms)


def _checked(result: CheckPassed | CheckFailed, now: int) -> ProxyChanges:
    match result:
        case CheckPassed(latency_ms):
            return ProxyChanges(checked_at=now, latency_ms=latency_ms, last_error="")
        case CheckFailed():
            return ProxyChanges(checked_at=now, last_error=str(result))


def _said(result: CheckPassed | CheckFailed) -> str:
    return "passed" if isinstance(result, CheckPassed) else str(result)


async def mark_by_operator(
    context: Context, proxy_id: str, status: ProxyStatus, reason: str, fields: ProxyChanges
) -> bool:
    """Write an operator's word about a proxy; False when there is no such proxy."""
    for _ in range(_TRIES):
        proxy = await records.proxy(context.scripts, proxy_id)
        if proxy is None:
            return False
        outcome = await proxies.mark(
            context.scripts, proxy_id, version=proxy.version, status=status, reason=reason, fields=fields
        )
        if isinstance(outcome, proxies.Marked):
            return True
    return False
