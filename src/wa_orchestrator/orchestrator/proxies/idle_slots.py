"""Idle slots: held by sessions that failed or were never scanned, and needed by linked ones that wait."""

from collections.abc import Iterable, Sequence

from wa_orchestrator.domain.proxies.proxy_health import ProxyStatus
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.store.records import Proxy, Session

_FAILED, _NEVER_SCANNED = 1, 2


def to_release(
    proxies: Iterable[Proxy], sessions: Iterable[Session], held: Sequence[str], per_proxy: int, sticky: str
) -> list[Session]:
    """Return the sessions that give way on one proxy, so that all sessions of a phone find room there.

    `held` has the proxy ('' = none) of each session of the phone. Slots that are about to be free count as free.
    """
    healthy = [proxy for proxy in proxies if proxy.status == ProxyStatus.OK]
    by_id: dict[str, Session] = {session.id: session for session in sessions}
    own = [proxy for proxy in healthy if proxy.id in held]
    plans = []
    for proxy in own or healthy:
        here = [by_id[each] for each in proxy.sessions if each in by_id and by_id[each].proxy == proxy.id]
        idle = sorted((each for each in here if _idleness(each)), key=lambda each: (_idleness(each), each.changed_at))
        missing = len(held) - held.count(proxy.id) - (per_proxy - len(here))
        if missing <= len(idle):
            plans.append((proxy.id != sticky, proxy.id, idle[: max(missing, 0)]))
    if not plans:
        return []
    return min(plans, key=lambda plan: (plan[0], sum(map(_idleness, plan[2])), plan[1]))[2]


def _idleness(session: Session) -> int:
    """Return 0 for a session that needs its slot. One that the operator gave a proxy keeps it until it is linked."""
    if session.proxy_given:
        return 0
    if session.status == State.FAILED:
        return _FAILED
    return _NEVER_SCANNED if session.status in {State.PENDING, State.QR_READY} and not session.first_connected_at else 0
