"""Proxy health: what a check or a worker's report makes of a proxy, and what follows for its sessions."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain import proxy as domain
from wa_orchestrator.domain.proxy import CONDEMNED, Health, Patience, ProxyStatus, Verdict
from wa_orchestrator.domain.session import Event
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.proxies import placement, pool_evidence
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed, CheckPassed, ProxyCheck, check
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import proxies, records
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.outcomes import Unknown, Written
from wa_orchestrator.store.records import Proxy, ProxyChanges

PATIENCE = Patience()
#: At most so many checks at once.
_CONCURRENT_CHECKS = 16
_REASONS = {Verdict.FAILED_CHECK: ProxyReason.CHECK_FAILED, Verdict.STRUCK_OUT: ProxyReason.STRUCK_OUT}

T = TypeVar("T")
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
            case Unknown():
                return None
            case Written():
                return proxy, mark

    return await compare_and_set(f"Proxy {proxy_id}", attempt)


async def mark_by_operator(
    context: Context, proxy_id: str, status: ProxyStatus, reason: str, fields: ProxyChanges
) -> bool:
    """Write an operator's decision about a proxy; False if there is no such proxy."""
    return await mark_proxy(context, proxy_id, lambda _proxy, _now: ProxyMark(status, reason, fields)) is not None


class ProxyHealth:
    """Checks proxies and writes the results. Concurrent reports about one proxy share one check."""

    def __init__(self, context: Context, lease: LeaderLease, checker: ProxyCheck | None = None) -> None:
        self._context = context
        self._lease = lease
        self._check = checker or self._real_check
        self._started_ms = round(time.time() * 1000)
        self._inquiries: dict[str, asyncio.Task[bool]] = {}
        self._round: asyncio.Task[dict[str, CheckPassed | CheckFailed]] | None = None
        self._room = asyncio.Semaphore(_CONCURRENT_CHECKS)
        self._busy: set[asyncio.Task[Any]] = set()

    @property
    def _patience(self) -> Patience:
        return PATIENCE.scaled(self._context.settings.time_scale)

    async def _real_check(self, url: str) -> CheckPassed | CheckFailed:
        settings = self._context.settings
        return await check(url, settings.check_target, settings.check_timeout_ms)

    async def probe(self, url: str) -> CheckPassed | CheckFailed:
        """Check a proxy that need not be in the pool; nothing is recorded."""
        async with self._room:
            return await self._check(url)

    async def check(self, proxy_id: str) -> CheckPassed | CheckFailed | None:
        """Check a proxy as the monitor does; None if there is no such proxy.

        One that failed its last check is judged together with the whole pool.
        """
        proxy = await records.proxy(self._context.scripts, proxy_id)
        if proxy is None:
            return None
        if proxy.status is ProxyStatus.OK and proxy.failing_since:
            return (await self.judge_pool()).get(proxy_id)
        result = await self.probe(proxy.url)
        marked = await mark_proxy(self._context, proxy_id, lambda seen, now: self._after_check(seen, result, now))
        if marked is None:
            return result
        before, mark = marked
        if mark.status != before.status:
            log.warning("proxy.status_changed", proxy=proxy_id, status=mark.status, why=mark.reason)
        if mark.status is ProxyStatus.BAD:
            # A crash may have left sessions on it.
            await placement.drain(self._context, proxy_id, ProxyReason.PROXY_FAILED)
        return result

    def _after_check(self, proxy: Proxy, result: CheckPassed | CheckFailed, now: int) -> ProxyMark:
        before = Health(proxy.status, proxy.good_in_a_row, proxy.bad_in_a_row)
        after = domain.after_check(before, passed=isinstance(result, CheckPassed))
        fields = _checked(proxy, result, now) | self._next_check(now, after)
        fields |= ProxyChanges(good_in_a_row=after.good_in_a_row, bad_in_a_row=after.bad_in_a_row)
        return ProxyMark(ProxyStatus.BAD if proxy.draining else after.status, _described(result), fields)

    # -- the judgement of the whole pool ------------------------------------------------------------------------------

    async def judge_pool(self) -> dict[str, CheckPassed | CheckFailed]:
        """Check all healthy proxies at once and write the verdicts. Calls that overlap share one round."""
        if self._round is None:
            self._round = self._begin(self._judge_pool())
            self._round.add_done_callback(self._round_ended)
        return await asyncio.shield(self._round)

    def _round_ended(self, _: object) -> None:
        self._round = None

    async def _judge_pool(self) -> dict[str, CheckPassed | CheckFailed]:
        scripts = self._context.scripts
        pool = [each for each in await records.proxies(scripts) if each.status == ProxyStatus.OK]
        found = await asyncio.gather(*(self.probe(each.url) for each in pool))
        results: dict[str, CheckPassed | CheckFailed] = {
            each.id: result for each, result in zip(pool, found, strict=True)
        }
        evidence = await pool_evidence.gather(self._context, results)
        verdicts = domain.judge(evidence, await scripts.now_ms(), self._patience)
        failing = [proxy_id for proxy_id, verdict in verdicts.items() if verdict is Verdict.OUR_OUTAGE]
        if failing:
            log.error("proxies.our_outage", failing=len(failing), healthy=len(verdicts))
            await proxies.begin_outage(scripts, failing=len(failing), healthy=len(verdicts))
        for proxy_id, result in results.items():
            await self._write(proxy_id, result, verdicts.get(proxy_id, Verdict.KEEP))
        return results

    async def _write(self, proxy_id: str, result: CheckPassed | CheckFailed, verdict: Verdict) -> None:
        marked = await mark_proxy(
            self._context, proxy_id, lambda seen, now: self._after_verdict(seen, result, verdict, now)
        )
        if marked is None or verdict not in CONDEMNED:
            return
        log.warning("proxy.condemned", proxy=proxy_id, verdict=verdict, check=_described(result))
        await placement.drain(self._context, proxy_id, _REASONS[verdict])

    def _after_verdict(
        self, proxy: Proxy, result: CheckPassed | CheckFailed, verdict: Verdict, now: int
    ) -> ProxyMark | None:
        if proxy.status == ProxyStatus.BAD:  # meanwhile, by an operator or another server
            return None
        mark = self._after_check(proxy, result, now)
        if verdict in CONDEMNED:
            because = CONDEMNED[verdict]
            fields = mark.fields | ProxyChanges(strikes=(), good_in_a_row=0, bad_in_a_row=1, bad_because=because)
            fields |= self._next_check(now, Health(ProxyStatus.BAD, 0, 1))
            reason = mark.reason if verdict is Verdict.FAILED_CHECK else str(because)
            return ProxyMark(ProxyStatus.BAD, reason, fields)
        if verdict is Verdict.OUR_OUTAGE:
            again = ProxyChanges(next_check_at=now + round(self._patience.confirm_ms))
            return ProxyMark(
                mark.status, mark.reason, mark.fields | ProxyChanges(failing_since=0, bad_in_a_row=0) | again
            )
        return mark

    async def end_outage(self) -> None:
        """Record that our own outage is over, if it is: most healthy proxies pass again."""
        scripts = self._context.scripts
        if not await proxies.outage_began_ms(scripts):
            return
        pool = [each for each in await records.proxies(scripts) if each.status == ProxyStatus.OK]
        if not domain.is_our_outage(sum(bool(each.last_error) for each in pool), len(pool)):
            log.info("proxies.our_outage_ended")
            await proxies.end_outage(scripts)

    # -- reports of workers -------------------------------------------------------------------------------------------

    def report_failure(self, proxy_id: str, session_id: str, epoch: int, at_ms: int) -> asyncio.Task[None]:
        """Handle a worker's report that its proxy failed at this time. The check runs in the background."""
        running = self._inquiries.get(proxy_id)
        if running is None:
            running = self._inquiries[proxy_id] = self._begin(self._inquire(proxy_id, at_ms))
            running.add_done_callback(lambda _: self._inquiries.pop(proxy_id))
        return self._begin(self._follow_up(running, proxy_id, session_id, epoch))

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a background task; asyncio would collect one that nobody references."""
        task = asyncio.create_task(work)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)
        return task

    async def _inquire(self, proxy_id: str, at_ms: int) -> bool:
        """Record a complaint and check the proxy at once. Return whether the complaint is a strike against it."""
        marked = await mark_proxy(self._context, proxy_id, lambda seen, now: self._after_complaint(seen, at_ms, now))
        if marked is None:
            log.info("proxy.complaint_ignored", proxy=proxy_id, at_ms=at_ms)
            return False
        result = await self.check(proxy_id)
        if isinstance(result, CheckFailed):
            await asyncio.sleep(self._patience.confirm_ms / 1000)
            await self.judge_pool()
            return False
        evidence = await pool_evidence.gather(self._context, {proxy_id: CheckPassed(0)})
        struck = domain.strikes(proxy_id, evidence, await self._context.scripts.now_ms(), self._patience)
        log.warning("proxy.struck", proxy=proxy_id, strikes=len(struck))
        if len(struck) > 1:
            await self.judge_pool()
        return bool(struck)

    def _after_complaint(self, proxy: Proxy, at_ms: int, now: int) -> ProxyMark | None:
        at_ms = min(at_ms, now)
        since_ms = max(self._started_ms, self._lease.grace_from_ms)
        counts = domain.complaint_counts(at_ms, passed_at_ms=proxy.passed_at, present_since_ms=since_ms)
        if proxy.status == ProxyStatus.BAD or not counts:
            return None
        recent = (each for each in proxy.strikes if each > now - self._patience.strike_window_ms)
        return ProxyMark(proxy.status, "STRIKE", ProxyChanges(strikes=(*recent, at_ms)))

    async def _follow_up(self, inquiry: asyncio.Task[bool], proxy_id: str, session_id: str, epoch: int) -> None:
        """If the complaint is a strike and the proxy stays healthy, restart the reporting session on it."""
        is_strike = await asyncio.shield(inquiry)
        session = await records.session(self._context.scripts, session_id)
        if session is None or session.proxy != proxy_id or session.epoch != epoch:
            return
        if not transitions.wants_worker(session) or transitions.restart_pending(session):
            return
        proxy = await records.proxy(self._context.scripts, proxy_id)
        if proxy is not None and proxy.status == ProxyStatus.BAD:  # it was bad before, and the session is still there
            await placement.assign_slot(self._context, session, ProxyReason.PROXY_FAILED)
        elif is_strike:
            await transitions.request_restart(self._context, session, Event.PROXY_STRUCK)

    def _next_check(self, now: int, after: Health) -> ProxyChanges:
        interval_ms = self._context.settings.monitor_interval_ms
        if after.status is ProxyStatus.BAD:
            return ProxyChanges(next_check_at=now + domain.next_check_ms(after.bad_in_a_row, interval_ms))
        first_failure = after.bad_in_a_row == 1
        return ProxyChanges(next_check_at=now + (round(self._patience.confirm_ms) if first_failure else interval_ms))


def _checked(proxy: Proxy, result: CheckPassed | CheckFailed, now: int) -> ProxyChanges:
    match result:
        case CheckPassed(latency_ms):
            return ProxyChanges(checked_at=now, passed_at=now, failing_since=0, latency_ms=latency_ms, last_error="")
        case CheckFailed():
            return ProxyChanges(checked_at=now, failing_since=proxy.failing_since or now, last_error=str(result))


def _described(result: CheckPassed | CheckFailed) -> str:
    return "passed" if isinstance(result, CheckPassed) else str(result)
