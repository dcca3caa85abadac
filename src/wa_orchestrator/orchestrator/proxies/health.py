"""Proxy health: what a check or a worker's report makes of a proxy, and what follows for its sessions."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies import proxy_health as domain
from wa_orchestrator.domain.proxies.proxy_health import (
    CONDEMNED,
    Complaint,
    Evidence,
    Health,
    Patience,
    ProxyStatus,
    Verdict,
)
from wa_orchestrator.domain.sessions.session import Event, State
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.instruments import timed
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed, CheckPassed, CheckResult, ProxyCheck, check
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import proxies, records
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.outcomes import Unknown, Written
from wa_orchestrator.store.records import Proxy, ProxyChanges, Session

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


@compare_and_set("Proxy {proxy_id}")
async def mark_proxy(
    context: Context, proxy_id: str, decide: Callable[[Proxy, int], ProxyMark | None]
) -> tuple[Proxy, ProxyMark] | Changed | None:
    """Write what `decide` makes of a proxy at this time; return the proxy as it was and the mark.

    None if there is no such proxy, or if `decide` returned None.
    """
    scripts = context.scripts
    proxy = await records.proxy(scripts, proxy_id)
    mark = decide(proxy, await scripts.now_ms()) if proxy is not None else None
    if proxy is None or mark is None:
        return None
    match await proxies.mark(
        scripts, proxy_id, version=proxy.version, status=mark.status, reason=mark.reason, fields=mark.fields
    ):
        case Changed() as changed:
            return changed
        case Unknown():
            return None
        case Written():
            return proxy, mark


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
        self._check = checker or (
            lambda url: check(url, context.settings.check_target, context.settings.check_timeout_ms)
        )
        self._present_since_ms = round(time.time() * 1000)
        """What workers met before this time, our start or the end of our own outage, is no fault of a proxy."""
        self._inquiries: dict[str, asyncio.Task[bool]] = {}
        self._round: asyncio.Task[dict[str, CheckResult]] | None = None
        self._room = asyncio.Semaphore(_CONCURRENT_CHECKS)
        self._busy: set[asyncio.Task[Any]] = set()

    @property
    def _patience(self) -> Patience:
        return PATIENCE.scaled(self._context.settings.time_scale)

    async def probe(self, url: str) -> CheckResult:
        """Check a proxy that need not be in the pool; nothing is recorded."""
        async with self._room:
            with timed(self._context.instruments.proxy_check):
                return await self._check(url)

    async def check(self, proxy_id: str) -> CheckResult | None:
        """Check a proxy as the monitor does; None if there is no such proxy.

        One that failed its last check is judged together with the whole pool.
        """
        proxy = await records.proxy(self._context.scripts, proxy_id)
        if proxy is None:
            return None
        if proxy.status is ProxyStatus.OK and proxy.failing_since:
            return (await self.judge_pool()).get(proxy_id)
        result = await self.probe(proxy.url)
        marked = await mark_proxy(self._context, proxy_id, partial(self._after_check, result))
        if marked is not None and marked[1].status != marked[0].status:
            log.warning("proxy.status_changed", proxy=proxy_id, status=marked[1].status, why=marked[1].reason)
        if marked is not None and marked[1].status is ProxyStatus.BAD:
            # A crash may have left sessions on it.
            await placement.drain(self._context, proxy_id, ProxyReason.PROXY_FAILED)
        return result

    def _after_check(self, result: CheckResult, proxy: Proxy, now: int) -> ProxyMark:
        before = Health(proxy.status, proxy.good_in_a_row, proxy.bad_in_a_row)
        after = domain.after_check(before, passed=isinstance(result, CheckPassed))
        fields = _checked(proxy, result, now) | self._next_check(now, after)
        fields |= ProxyChanges(good_in_a_row=after.good_in_a_row, bad_in_a_row=after.bad_in_a_row)
        return ProxyMark(ProxyStatus.BAD if proxy.draining else after.status, _described(result), fields)

    async def judge_pool(self) -> dict[str, CheckResult]:
        """Check all healthy proxies at once and write the verdicts. Calls that overlap share one round."""
        if self._round is None:
            self._round = self._begin(self._judge_pool())
            self._round.add_done_callback(self._round_ended)
        return await asyncio.shield(self._round)

    def _round_ended(self, _: object) -> None:
        self._round = None

    async def _judge_pool(self) -> dict[str, CheckResult]:
        scripts = self._context.scripts
        pool = [each for each in await records.proxies(scripts) if each.status == ProxyStatus.OK]
        found = await asyncio.gather(*(self.probe(each.url) for each in pool))
        results: dict[str, CheckResult] = {each.id: result for each, result in zip(pool, found, strict=True)}
        evidence = await gather_evidence(self._context, results)
        verdicts = domain.judge(evidence, await scripts.now_ms(), self._patience)
        failing = [proxy_id for proxy_id, verdict in verdicts.items() if verdict is Verdict.OUR_OUTAGE]
        if failing:
            self._present_since_ms = await scripts.now_ms()
            log.error("proxies.our_outage", failing=len(failing), healthy=len(verdicts))
            await proxies.begin_outage(scripts, failing=len(failing), healthy=len(verdicts))
        for proxy_id, result in results.items():
            await self._write(proxy_id, result, verdicts.get(proxy_id, Verdict.KEEP))
        return results

    async def _write(self, proxy_id: str, result: CheckResult, verdict: Verdict) -> None:
        decide = partial(self._after_verdict, result, verdict)
        if await mark_proxy(self._context, proxy_id, decide) is not None and verdict in CONDEMNED:
            log.warning("proxy.condemned", proxy=proxy_id, verdict=verdict, check=_described(result))
            await placement.drain(self._context, proxy_id, _REASONS[verdict])

    def _after_verdict(self, result: CheckResult, verdict: Verdict, proxy: Proxy, now: int) -> ProxyMark | None:
        if proxy.status == ProxyStatus.BAD:  # meanwhile, by an operator or another server
            return None
        mark = self._after_check(result, proxy, now)
        if verdict in CONDEMNED:
            because = CONDEMNED[verdict]
            fields = mark.fields | ProxyChanges(strikes=(), good_in_a_row=0, bad_in_a_row=1, bad_because=because)
            fields |= self._next_check(now, Health(ProxyStatus.BAD, 0, 1))
            reason = mark.reason if verdict is Verdict.FAILED_CHECK else str(because)
            return ProxyMark(ProxyStatus.BAD, reason, fields)
        if verdict is Verdict.OUR_OUTAGE:
            again = now + round(self._patience.confirm_ms)
            fields = mark.fields | ProxyChanges(failing_since=0, bad_in_a_row=0, next_check_at=again)
            return replace(mark, fields=fields)
        return mark

    async def end_outage(self) -> None:
        """Record that our own outage is over, if it is: most healthy proxies pass again."""
        scripts = self._context.scripts
        if not await proxies.outage_began_ms(scripts):
            return
        pool = [each for each in await records.proxies(scripts) if each.status == ProxyStatus.OK]
        if not domain.is_our_outage(sum(bool(each.last_error) for each in pool), len(pool)):
            log.info("proxies.our_outage_ended")
            self._present_since_ms = await scripts.now_ms()
            await proxies.end_outage(scripts)

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
        marked = await mark_proxy(self._context, proxy_id, partial(self._after_complaint, at_ms))
        if marked is None:
            log.info("proxy.complaint_ignored", proxy=proxy_id, at_ms=at_ms)
            return False
        is_strike = marked[1].reason == Complaint.STRIKE
        result = await self.check(proxy_id)
        if isinstance(result, CheckFailed):
            await asyncio.sleep(self._patience.confirm_ms / 1000)
            await self.judge_pool()
            return False
        evidence = await gather_evidence(self._context, {proxy_id: CheckPassed(0)})
        struck = domain.strikes(proxy_id, evidence, await self._context.scripts.now_ms(), self._patience)
        log.warning("proxy.struck", proxy=proxy_id, strikes=len(struck))
        if len(struck) > 1:
            await self.judge_pool()
        return is_strike and bool(struck)

    def _after_complaint(self, at_ms: int, proxy: Proxy, now: int) -> ProxyMark | None:
        at_ms = min(at_ms, now)
        since_ms = max(self._present_since_ms, self._lease.grace_from_ms)
        weight = domain.weigh_complaint(
            at_ms, passed_at_ms=proxy.passed_at, present_since_ms=since_ms, patience=self._patience
        )
        if proxy.status == ProxyStatus.BAD or weight is Complaint.LATE:
            return None
        recent = tuple(each for each in proxy.strikes if now - self._patience.strike_window_ms < each <= now)
        strikes = (*recent, at_ms) if weight is Complaint.STRIKE else recent
        return ProxyMark(proxy.status, weight, ProxyChanges(strikes=strikes))

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


def _checked(proxy: Proxy, result: CheckResult, now: int) -> ProxyChanges:
    match result:
        case CheckPassed(latency_ms):
            return ProxyChanges(checked_at=now, passed_at=now, failing_since=0, latency_ms=latency_ms, last_error="")
        case CheckFailed():
            return ProxyChanges(checked_at=now, failing_since=proxy.failing_since or now, last_error=str(result))


def _described(result: CheckResult) -> str:
    return "passed" if isinstance(result, CheckPassed) else str(result)


async def gather_evidence(context: Context, results: Mapping[str, CheckResult]) -> dict[str, Evidence]:
    """Return what speaks for and against every healthy proxy: checks, complaints of workers, and traffic through it.

    One without a result in this round counts as its last check.
    """
    sessions = await records.sessions(context.scripts)
    pool = [proxy for proxy in await records.proxies(context.scripts) if proxy.status == ProxyStatus.OK]
    return {proxy.id: _evidence(proxy, results.get(proxy.id), sessions) for proxy in pool}


def _evidence(proxy: Proxy, result: CheckResult | None, sessions: list[Session]) -> Evidence:
    using = [each for each in sessions if each.id in proxy.sessions and each.proxy == proxy.id]
    users = [each for each in using if not transitions.restart_pending(each)]
    return Evidence(
        passed=isinstance(result, CheckPassed) if result else not proxy.last_error,
        passed_at_ms=proxy.passed_at,
        failing_since_ms=proxy.failing_since,
        complaints_ms=proxy.strikes,
        traffic_at_ms=max(map(_traffic_at_ms, users), default=0),
        has_connected=any(each.status is State.CONNECTED for each in users),
    )


def _traffic_at_ms(session: Session) -> int:
    """Return when the session's present worker last heard WhatsApp; what an earlier one heard came another way."""
    heard_at = max(session.last_traffic_at, session.connected_at)
    return heard_at if heard_at >= session.started_at else 0
