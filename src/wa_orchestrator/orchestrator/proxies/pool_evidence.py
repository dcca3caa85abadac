"""Collects what speaks for and against each healthy proxy: checks, complaints of workers, and traffic through it."""

from collections.abc import Mapping

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxy import Evidence, ProxyStatus
from wa_orchestrator.domain.session import State
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed, CheckPassed
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import records
from wa_orchestrator.store.records import Proxy, Session


async def gather(context: Context, results: Mapping[str, CheckPassed | CheckFailed]) -> dict[str, Evidence]:
    """Return the evidence about every healthy proxy. One without a result in this round counts as its last check."""
    sessions: dict[str, Session] = {session.id: session for session in await records.sessions(context.scripts)}
    pool = [proxy for proxy in await records.proxies(context.scripts) if proxy.status == ProxyStatus.OK]
    return {
        proxy.id: _evidence(
            proxy, results.get(proxy.id), [sessions[each] for each in proxy.sessions if each in sessions]
        )
        for proxy in pool
    }


def _evidence(proxy: Proxy, result: CheckPassed | CheckFailed | None, sessions: list[Session]) -> Evidence:
    users = [each for each in sessions if each.proxy == proxy.id and not transitions.restart_pending(each)]
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
