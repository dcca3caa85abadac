"""Provisioning: a new session gets an id, a slot on a proxy and a place in the queue, in one atomic step."""

from dataclasses import dataclass

import structlog

from wa_orchestrator.domain import proxy as domain
from wa_orchestrator.domain import session_standing as standings
from wa_orchestrator.domain.proxy import ProxyStatus
from wa_orchestrator.domain.proxy_url import ProxyUrl
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import proxies, records, sessions, slots
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.context import Context

#: What WhatsApp shows under "linked devices". The worker runs on Linux and says so; nothing is made up.
DEVICE_NAME = "Ubuntu"
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A session somebody wants, checked."""

    phone: str = ""
    proxy: ProxyUrl | None = None
    session_id: str = ""
    label: str = ""
    pairing: str = "qr"
    restore: str = ""
    """Credentials in the trash that it is to have."""


async def provision(context: Context, wish: SessionRequest) -> Session:
    """Record a session and queue its start. Raises `Refused` with nothing changed when there is no way."""
    joined = False
    if wish.proxy is not None:
        added = await proxies.add(
            context.scripts, wish.proxy.id, url=wish.proxy.url, masked=wish.proxy.masked, origin="provision"
        )
        joined = isinstance(added, proxies.Added)
    try:
        session_id = await _create(context, wish)
    except Refused:
        if joined and wish.proxy is not None:
            await proxies.remove(context.scripts, wish.proxy.id)
        raise
    session = await records.session(context.scripts, session_id)
    if session is None:
        raise Refused("SESSION_GONE", f"Session {session_id} was deleted at the same moment. Try again.", 409)
    log.info("session.provisioned", session=session_id, proxy=session.proxy, phone=wish.phone)
    await placement.publish_low_inventory(context)
    return session


async def _create(context: Context, wish: SessionRequest) -> str:
    candidates = await _candidates(context, wish)
    direct = "direct" if not candidates and await _may_go_direct(context) else ""
    while True:
        session_id = wish.session_id or f"worker_{await sessions.next_number(context.scripts)}"
        new = sessions.NewSession(session_id, wish.phone, candidates, direct, await _fields(context, wish, direct))
        outcome = await sessions.create(
            context.scripts,
            new,
            per_proxy=context.settings.max_sessions_per_proxy,
            per_phone=context.settings.max_sessions_per_phone,
        )
        match outcome:
            case sessions.Created():
                return session_id
            case sessions.Exists():
                if wish.session_id:
                    raise Refused("SESSION_EXISTS", f"There is a session {session_id} already. Choose another id.", 409)
            case sessions.PhoneFull(count):
                raise Refused(
                    "PHONE_FULL",
                    f"This phone has {count} sessions, which is as many as it may have. Delete one first.",
                    409,
                    sessions=count,
                )
            case sessions.NoRoom():
                raise await _no_room(context, wish)


async def _fields(context: Context, wish: SessionRequest, direct: str) -> SessionChanges:
    born = standings.initial(0, await context.scripts.now_ms())
    return SessionChanges(
        wanted=transitions.RUNNING,
        reason=born.reason,
        standing=standings.encode(born),
        label=wish.label,
        pairing=wish.pairing,
        device_name=DEVICE_NAME,
        proxy_given="given" if wish.proxy else "",
        direct=bool(direct),
        restore=wish.restore,
    )


async def _candidates(context: Context, wish: SessionRequest) -> list[str]:
    """List the proxies the session may sit on: the one given, else the phone's own, else any, the emptiest first."""
    if wish.proxy is not None:
        return [wish.proxy.id]
    if (own := await _sticky(context, wish.phone)) is not None:
        return [own]
    pool = await records.proxies(context.scripts)
    return domain.ranked(placement.loads(pool), context.settings.max_sessions_per_proxy)


async def _sticky(context: Context, phone: str) -> str | None:
    """Give the phone's own proxy, unless it is bad or gone."""
    own = await slots.sticky_proxy(context.scripts, phone)
    proxy = await records.proxy(context.scripts, own) if own else None
    return proxy.id if proxy is not None and proxy.status == ProxyStatus.OK else None


async def _may_go_direct(context: Context) -> bool:
    return context.settings.allow_direct and not await records.proxies(context.scripts)


async def _no_room(context: Context, wish: SessionRequest) -> Refused:
    if wish.proxy is not None:
        proxy = await records.proxy(context.scripts, wish.proxy.id)
        if proxy is not None and proxy.status == ProxyStatus.BAD:
            return Refused(
                "PROXY_BAD", "This proxy failed our checks. Check or reinstate it, or give another one.", 409
            )
        return Refused("PROXY_FULL", "All slots of this proxy are taken. Give another one.", 409)
    if await _sticky(context, wish.phone) is not None:
        return Refused(
            "STICKY_PROXY_FULL",
            "This phone has a proxy of its own, and all its slots are taken. Free one, or give a proxy yourself.",
            409,
        )
    await placement.publish_low_inventory(context)
    has_some = bool(await records.proxies(context.scripts))
    what = "All slots of all working proxies are taken. Add a proxy." if has_some else "There is no proxy yet. Add one."
    return Refused("NO_PROXY_CAPACITY", what, 409)
