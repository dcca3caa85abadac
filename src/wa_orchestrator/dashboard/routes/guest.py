"""The page of a one-time link: somebody who has no login links his own phone to one session.

It shows that session and nothing else; a wrong, expired, used or withdrawn link gets the same answer.
"""

from typing import Annotated, Any

import segno
from fastapi import APIRouter, Form, Request
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from wa_orchestrator import audit_log
from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import guard
from wa_orchestrator.dashboard.guard import with_security_headers
from wa_orchestrator.dashboard.html.compression import compressed
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.domain.sessions import scan_link
from wa_orchestrator.domain.sessions.scan_link import GuestFacts, GuestStage
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.orchestrator.sessions import session_start
from wa_orchestrator.orchestrator.workers import command_calls
from wa_orchestrator.store import records
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import link_codes, scan_links
from wa_orchestrator.store.sessions.link_codes import StoredLinkCode
from wa_orchestrator.store.sessions.scan_links import ScanLink, Started
from wa_orchestrator.texts.catalogue import languages
from wa_orchestrator.web.auth import count_stranger

#: How long the page of a pressed button waits for a worker to ask for a pairing code.
_CODE_WITHIN_S = 20.0


class GuestRoutes(APIRouter):
    def __init__(self, context: Context, renderer: Renderer) -> None:
        super().__init__(include_in_schema=False)
        self._context, self._renderer = context, renderer
        self.get("/l/{token}")(self._page)
        self.post("/l/{token}")(self._start)

    async def _page(self, request: Request, token: str) -> Response:
        found = await self._found(request, token)
        if found is None:
            return await self._shown(request, None, GuestStage.GONE, {})
        session, link = found
        code = await link_codes.get(self._context.scripts, session.id)
        stage = scan_link.stage_of(_facts(link, session, code))
        return await self._shown(request, link, stage, _values(session, link, code, stage))

    async def _start(self, request: Request, token: str, how: Annotated[str, Form()] = "") -> Response:
        """Ask for a code: what the button does. Messengers that preview links do not press it."""
        guard.require_same_origin(request)
        found = await self._found(request, token)
        if found is not None:
            await self._ask_for_code(request, *found, how)
        language = request.query_params.get("lang", "")
        back = f"/l/{token}?lang={language}" if language in languages() else f"/l/{token}"
        return _private(RedirectResponse(back, status_code=303))

    async def _ask_for_code(self, request: Request, session: Session, link: ScanLink, how: str) -> None:
        """Have a code shown, if the link still leads to one: after a success or the last try it does nothing."""
        scripts = self._context.scripts
        stage = scan_link.stage_of(_facts(link, session, None))
        if stage in (GuestStage.START, GuestStage.RAN_OUT):
            if not isinstance(await scan_links.start(scripts, session.id, link), Started):
                return
            address = request.client.host if request.client else ""
            await audit_log.record(self._context, "guest", "", "session.scan_link_used", session.id, address=address)
        elif stage is not GuestStage.WAIT:
            return
        if scan_link.needs_start(session.status, session.reason) and not session_start.is_banned(session):
            await session_start.start(self._context, session.id)
        elif how == "code" and session.phone and session.status is State.QR_READY:
            if not isinstance(await scan_links.count_pairing_code(scripts, session.id, link), Started):
                return
            await command_calls.call(
                self._context, session.id, "pairing_code", timeout_s=_CODE_WITHIN_S, phone=session.phone
            )

    async def _found(self, request: Request, token: str) -> tuple[Session, ScanLink] | None:
        found = await scan_links.find(self._context.scripts, token) if len(token) <= 120 else None
        session = None if found is None else await records.session(self._context.scripts, found[0])
        # A session that was made later under the same id is another one.
        if found is None or session is None or session.removing or session.created_at > found[1].made_at:
            count_stranger(self._context, request)
            return None
        return session, found[1]

    async def _shown(
        self, request: Request, link: ScanLink | None, stage: GuestStage, values: dict[str, Any]
    ) -> Response:
        chosen = request.query_params.get("lang", "") or (link.language if link else "")
        asker = (link.asker if link else "") or self._context.settings.operator_name
        status, now_ms = 404 if stage is GuestStage.GONE else 200, await self._context.scripts.now_ms()
        page = self._renderer.guest_page(request, chosen, status, now_ms, stage=stage, asker=asker, **values)
        return compressed(request, _private(page))


def _private(response: Response) -> Response:
    """Add the headers of a page whose address is a secret."""
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    return with_security_headers(response)


def _facts(link: ScanLink, session: Session, code: StoredLinkCode | None) -> GuestFacts:
    return GuestFacts(
        made_at=link.made_at,
        started_at=link.started_at,
        tries=link.tries,
        connected_at=session.connected_at,
        status=session.status,
        reason=session.reason,
        has_code=code is not None,
    )


def _values(session: Session, link: ScanLink, code: StoredLinkCode | None, stage: GuestStage) -> dict[str, Any]:
    values: dict[str, Any] = {
        "phone": session.phone,
        "label": session.label,
        "device": session.device_name,
        "until_ms": link.expires_at,
        "tries": link.tries,
        "most_tries": scan_link.MOST_TRIES,
    }
    if code is None or stage not in (GuestStage.CODE, GuestStage.AGAIN):
        return values
    picture = Markup("")
    if code.qr:
        drawn = segno.make(code.qr, error="l", micro=False)
        svg = drawn.svg_inline(border=2, svgclass="code", lineclass=None, omitsize=True)
        picture = Markup(svg)  # noqa: S704 (drawn here)
    return values | {"picture": picture, "pairing": code.code}
