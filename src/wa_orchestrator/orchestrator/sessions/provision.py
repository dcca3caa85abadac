"""Provisioning: a new session gets an id, a slot on a proxy and a place in the start queue, in one atomic step."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies.proxy_health import ProxyStatus
from wa_orchestrator.domain.proxies.proxy_url import ProxyUrl
from wa_orchestrator.domain.sessions import standing as standings
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.proxies.socks_check import CheckFailed, ProxyCheck
from wa_orchestrator.orchestrator.sessions import profile_inventory, session_start, transitions
from wa_orchestrator.store import proxies, records, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import slots

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SessionRequest:
    phone: str = ""
    proxy: ProxyUrl | None = None
    session_id: str = ""
    label: str = ""
    pairing: str = "qr"
    restore: str = ""
    """Trash id of the credentials to restore."""
    timezone: str = ""
    """Of its hours and days; '' is the installation's."""
    presence: str = ""
    """When its device is shown as online; '' is the installation's."""
    tags: tuple[str, ...] = ()
    profile: str = ""
    """What it shows as; '' is the listed profile that the fewest sessions have."""


async def require_reachable(context: Context, proxy: ProxyUrl, check: ProxyCheck) -> None:
    """Raise `Refused` if a given proxy fails its check. One that is known to be bad is refused by `provision`."""
    known = await records.proxy(context.scripts, proxy.id)
    if known is not None and known.status == ProxyStatus.BAD:
        return
    result = await check(proxy.url)
    if isinstance(result, CheckFailed):
        text = f"This proxy failed our check ({result}). Nothing was created. Check its address and login."
        raise Refused("PROXY_UNREACHABLE", text, 409, failure=str(result.why))


async def provision(context: Context, request: SessionRequest) -> Session:
    """Record a session and queue its start. Raises `Refused`, with nothing changed, if that is not possible."""
    joined = False
    if request.proxy is not None:
        joined = await proxies.add(
            context.scripts, request.proxy.id, url=request.proxy.url, masked=request.proxy.masked, origin="provision"
        )
    try:
        session_id = await _create(context, request)
    except Refused:
        if joined and request.proxy is not None:
            await proxies.remove(context.scripts, request.proxy.id)
        raise
    session = await records.session(context.scripts, session_id)
    if session is None:
        raise Refused("SESSION_GONE", f"Session {session_id} was deleted at the same moment. Try again.", 409)
    log.info("session.provisioned", session=session_id, proxy=session.proxy, phone=request.phone)
    return session


@compare_and_set("The phone's list of sessions")
async def _create(context: Context, request: SessionRequest) -> str | Changed:
    session_id = request.session_id or f"worker_{await sessions.next_number(context.scripts)}"
    siblings = await records.sessions_of_phone(context.scripts, request.phone)
    candidates = await _candidates(context, request, siblings)
    settings = context.settings
    is_direct = not candidates and settings.allow_direct and not await records.proxies(context.scripts)
    direct = "direct" if is_direct else ""
    chosen = await profile_inventory.choose(context, request.profile)
    fields = await _fields(context, request, direct) | SessionChanges(device_name=chosen.name)
    new = sessions.NewSession(
        session_id, request.phone, len(siblings), candidates, direct, fields, seen_sessions=chosen.seen_sessions
    )
    match await sessions.create(
        context.scripts, new, per_proxy=settings.max_sessions_per_proxy, per_phone=settings.max_sessions_per_phone
    ):
        case sessions.Created():
            return session_id
        case Changed() as changed:
            return changed
        case sessions.Exists():
            if not request.session_id:
                return Changed()  # an operator gave this id to another session
            return await _start_again(context, request)
        case sessions.PhoneFull(count):
            text = f"This phone has {count} sessions, the maximum. Delete one first."
            raise Refused("PHONE_FULL", text, 409, sessions=count)
        case sessions.NoRoom():
            raise await _no_room(context, request, siblings)


async def _start_again(context: Context, request: SessionRequest) -> str:
    """Start a session that rests, if the request fits it: an id that is created again keeps its proxy."""
    session = await records.session(context.scripts, request.session_id)
    fits = (
        session is not None
        and not (session.removing or request.restore or transitions.wants_worker(session))
        and request.phone in ("", session.phone)
        and (request.proxy is None or request.proxy.id == session.proxy)
    )
    if session is None or not fits:
        raise Refused("SESSION_EXISTS", f"A session {request.session_id} already exists. Choose another id.", 409)
    session_start.require_confirmation(session, None)
    await session_start.start(context, session.id)
    return session.id


async def _fields(context: Context, request: SessionRequest, direct: str) -> SessionChanges:
    born = standings.initial(0, await context.scripts.now_ms())
    return SessionChanges(
        wanted=transitions.RUNNING,
        reason=born.reason,
        standing=standings.encode(born),
        label=request.label,
        tags=request.tags,
        pairing=request.pairing,
        proxy_given="given" if request.proxy else "",
        direct=bool(direct),
        restore=request.restore,
        timezone=request.timezone,
        presence=request.presence,
    )


async def _candidates(context: Context, request: SessionRequest, siblings: Sequence[Session]) -> list[str]:
    """Return the proxies that the session may use: the given one, else the phone's own, else all, the emptiest first.

    All sessions of a phone are on one proxy, so it must have room for those that are elsewhere, too.
    """
    per_proxy = context.settings.max_sessions_per_proxy
    if request.proxy is not None:
        given = await records.proxy(context.scripts, request.proxy.id)
        followers = sum(each.proxy != request.proxy.id for each in siblings)
        fits = given is not None and len(given.sessions) + 1 + followers <= per_proxy
        return [request.proxy.id] if fits else []
    if (own := await _own_proxy(context, request, siblings)) is not None:
        return [own]
    pool = await records.proxies(context.scripts)
    return placement.eligible_proxies(pool, ["", *(each.proxy for each in siblings)], per_proxy, "")


async def _own_proxy(context: Context, request: SessionRequest, siblings: Sequence[Session]) -> str | None:
    """Return the phone's own proxy, else the one that a session of this id had; None if that is bad or gone."""
    own = await slots.sticky_proxy(context.scripts, request.phone)
    if not own and not siblings:
        own = await sessions.last_proxy(context.scripts, request.session_id)
    proxy = await records.proxy(context.scripts, own) if own else None
    return proxy.id if proxy is not None and proxy.status == ProxyStatus.OK else None


async def _no_room(context: Context, request: SessionRequest, siblings: Sequence[Session]) -> Refused:
    if request.proxy is not None:
        proxy = await records.proxy(context.scripts, request.proxy.id)
        if proxy is not None and proxy.status == ProxyStatus.BAD:
            return Refused("PROXY_BAD", "This proxy failed its check. Check or reinstate it, or use another one.", 409)
        full = proxy is None or len(proxy.sessions) >= context.settings.max_sessions_per_proxy
        if full or not siblings:
            return Refused("PROXY_FULL", "All slots of this proxy are taken. Give another one.", 409)
        text = "All sessions of a phone use one proxy, and this one has no room for all of them. Give another one."
        return Refused("STICKY_PROXY_FULL", text, 409)
    if siblings or await _own_proxy(context, request, siblings) is not None:
        text = "This phone or session has a proxy of its own, and it has no room. Free a slot, or give another proxy."
        return Refused("STICKY_PROXY_FULL", text, 409)
    has_some = bool(await records.proxies(context.scripts))
    what = "All slots of all working proxies are taken. Add a proxy." if has_some else "There is no proxy yet. Add one."
    return Refused("NO_PROXY_CAPACITY", what, 409)
