"""Moves a session, and with it all sessions of its phone, to a proxy that an operator chose."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies import proxy_move, proxy_url
from wa_orchestrator.domain.proxies.proxy_health import ProxyStatus
from wa_orchestrator.domain.proxies.proxy_move import MoveFacts, MoveTime, MoveVerdict
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed, ProxyCheck
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import proxies, records, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import slots

log = structlog.get_logger(__name__)

_REFUSALS = {
    MoveVerdict.PROXY_BAD: "This proxy failed its check. Check or reinstate it, or choose another one.",
    MoveVerdict.PROXY_FULL: "All slots of this proxy are taken. Choose another one.",
    MoveVerdict.STICKY_PROXY_FULL: "All sessions of a phone use one proxy, and this one has no room for all of them.",
    MoveVerdict.BANNED_KEEPS_PROXY: "WhatsApp banned this account. It keeps its proxy: another one looks worse.",
    MoveVerdict.MOVES_TOGETHER: (
        "Other sessions of this phone run, and a phone has one exit: they move together. Move it now instead."
    ),
}


async def choose(context: Context, session: Session, wanted: str, when: MoveTime, check: ProxyCheck) -> bool:
    """Move a session to the proxy with this id or URL; False if it is there. Raises `Refused`, with nothing changed."""
    proxy_id, joined = await _require(context, wanted, check)
    try:
        moved = await _move(context, session, proxy_id, when)
    except Refused:
        if joined:
            await proxies.remove(context.scripts, proxy_id)
        raise
    if moved and when is MoveTime.NOW:
        await _replace_workers(context, session)
    return moved


async def _require(context: Context, wanted: str, check: ProxyCheck) -> tuple[str, bool]:
    """Return the id of a proxy that passed a check just now, and whether it joined the pool for this."""
    scripts = context.scripts
    if wanted.startswith("p_"):
        known = await records.proxy(scripts, wanted)
        if known is None:
            raise Refused("NO_SUCH_PROXY", f"There is no proxy {wanted}. GET /api/v1/proxies lists them.", 404)
        if known.status == ProxyStatus.OK:
            await _check(check, known.url)
        return known.id, False
    url = await proxies.recognized(scripts, proxy_url.parse(wanted))
    await _check(check, url.url)
    return url.id, await proxies.add(scripts, url.id, url=url.url, masked=url.masked, origin="operator")


async def _check(check: ProxyCheck, url: str) -> None:
    result = await check(url)
    if isinstance(result, CheckFailed):
        text = f"This proxy failed our check ({result}). Nothing was changed. Check its address and login."
        raise Refused("PROXY_UNREACHABLE", text, 409, failure=str(result.why))


@compare_and_set("Session {session.id}")
async def _move(context: Context, session: Session, proxy_id: str, when: MoveTime) -> bool | Changed:
    scripts, per_proxy = context.scripts, context.settings.max_sessions_per_proxy
    current, proxy = await records.session(scripts, session.id), await records.proxy(scripts, proxy_id)
    if current is None or proxy is None:
        return False  # deleted at the same moment
    others = [each for each in await records.sessions_of_phone(scripts, current.phone) if each.id != current.id]
    movers = [current, *others]
    facts = MoveFacts(
        healthy=proxy.status == ProxyStatus.OK,
        free=max(0, per_proxy - len(proxy.sessions)),
        newcomers=sum(each.id not in proxy.sessions for each in movers),
        elsewhere=sum(each.proxy != proxy.id for each in movers),
        others_running=sum(map(transitions.wants_worker, others)),
        banned=any(each.banned for each in movers),
    )
    verdict = proxy_move.judge(facts, when)
    if verdict is MoveVerdict.STAYS:
        return False
    if verdict is not MoveVerdict.MOVE:
        raise Refused(verdict, _REFUSALS[verdict], 409)
    match await slots.move_phone(scripts, movers, proxy.id, when=when, per_proxy=per_proxy):
        case slots.Moved():
            log.info("session.proxy_chosen", session=current.id, proxy=proxy.id, sessions=len(movers), when=when)
            await slots.remove_waiting(scripts, [each.id for each in movers])
            return True
        case slots.ChosenBad() | sessions.NoRoom() | Changed():
            return Changed()  # the next look says which


async def _replace_workers(context: Context, session: Session) -> None:
    """Replace the workers of all sessions that moved. A crash before this loses nothing: the script has noted it."""
    siblings = await records.sessions_of_phone(context.scripts, session.phone) if session.phone else []
    for each in siblings or await records.sessions(context.scripts, [session.id]):
        if transitions.wants_worker(each) and transitions.restart_pending(each):
            await transitions.request_restart(context, each, Event.STICKY_PROXY_FOUND)
