"""Renders pages: a frame, and parts by id. A page and its live stream render a part the same way."""

import contextlib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import guard
from wa_orchestrator.dashboard.fleet import attention
from wa_orchestrator.dashboard.fleet.snapshot import Snapshot
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html import conversations, labels
from wa_orchestrator.dashboard.html.fragments import Fragments
from wa_orchestrator.dashboard.html.locale import Locale, bdi, ltr
from wa_orchestrator.dashboard.login import Person
from wa_orchestrator.domain.access.permissions import Everything
from wa_orchestrator.domain.sessions.session import Reason
from wa_orchestrator.gateway.campaigns.end_date import EndDates
from wa_orchestrator.gateway.redis_access import PlainRedis
from wa_orchestrator.gateway.senders.sender_pool import SenderPool
from wa_orchestrator.orchestrator.api.contacts import ContactRoutes
from wa_orchestrator.orchestrator.api.conversations.routes import ConversationRoutes
from wa_orchestrator.orchestrator.api.groups import GroupRoutes
from wa_orchestrator.orchestrator.workers.worker_spec import SEVERAL_MACHINES
from wa_orchestrator.texts.catalogue import languages
from wa_orchestrator.timestamps import iso

HERE: Final = Path(__file__).parents[1]
THEMES: Final = ("light", "dark")
#: Codes that browsers used before ISO 639 changed them.
_OLD_CODES: Final = {"iw": "he"}


@dataclass(frozen=True, slots=True)
class View(Locale):
    """What templates use: texts and times, the person, and the snapshot."""

    person: Person | None
    theme: str
    page: str
    simulated: bool
    """WhatsApp is simulated; every page has a banner."""
    snapshot: Snapshot

    @property
    def may_change(self) -> bool:
        return self.person is not None and self.person.may_operate

    @property
    def may_administer(self) -> bool:
        return self.person is not None and self.person.is_administrator

    @property
    def is_limited(self) -> bool:
        """Whether the person sees some sessions only."""
        return self.person is not None and not isinstance(self.person.reach, Everything)

    def known_as(self, known_id: str) -> Markup:
        """Return how people know a session or a proxy; its id where it has no name."""
        row = self.snapshot.rows.get(known_id)
        return bdi(self.snapshot.called(row) if row else self.snapshot.proxy_called(known_id))

    def names_of(self, ids: Iterable[str]) -> Markup:
        return Markup(", ").join(self.known_as(each) for each in ids)

    def sees(self, session_id: str) -> bool:
        """Whether the person may see what belongs to this session ('' = to none)."""
        return not self.is_limited or session_id in self.snapshot.rows

    def reason(self, code: str) -> str:
        """Waiting for a proxy has another sentence when no proxy works."""
        if code == Reason.WAITING_FOR_PROXY and not self.snapshot.healthy and not self.is_limited:
            return str(self.t("session_reason.NO_PROXY_AT_ALL").striptags())
        return Locale.reason(self, code)

    @property
    def csrf(self) -> str:
        """The CSRF token, masked for this response."""
        return guard.masked(self.person.csrf) if self.person else ""


@dataclass(frozen=True, slots=True)
class PageContent:
    """What a page shows: template, values, live parts, and the query of its live stream."""

    template: str
    parts: dict[str, Markup] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    watch: dict[str, str] = field(default_factory=dict)


@cache
def environment() -> Environment:
    """Return the template environment: everything is escaped, and an unknown name is an error."""
    env = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"ltr": ltr, "bdi": bdi, "iso": iso}
    env.globals |= {"asset": asset, "labels": labels, "chat": conversations}
    return env


@cache
def asset(name: str) -> str:
    """Return the URL of a static file; it changes with the content, so browsers may cache it for ever."""
    version = hashlib.sha256((HERE / "static" / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={version}"


class Renderer:
    def __init__(self, context: Context, reader: SnapshotReader) -> None:
        self.context = context
        self.reader = reader
        self._env = environment()
        self.macros: Any = self._env.get_template("parts.html").module
        self.operations: Any = self._env.get_template("operations.html").module
        self.campaigns: Any = self._env.get_template("campaign-parts.html").module
        self.campaign_ends = EndDates(context, SenderPool(PlainRedis(context.scripts), context.settings))
        self.inbox: Any = self._env.get_template("inbox-parts.html").module
        self.fragments = Fragments()
        self.conversations = ConversationRoutes(context)
        self.groups = GroupRoutes(context)
        self.contacts = ContactRoutes(context)

    async def view(self, request: Request, person: Person, page: str) -> View:
        return self._view(await self.reader.read(), person, page, self.language_of(request), _theme_of(request))

    async def view_as(self, person: Person | None, page: str, language: str) -> View:
        return self._view(await self.reader.read(), person, page, language)

    def _view(self, snapshot: Snapshot, person: Person | None, page: str, language: str, theme: str = "") -> View:
        if person is not None:
            snapshot = snapshot.restricted(person.reach)
        zone, simulated = ZoneInfo(self.context.settings.timezone), self.context.simulator is not None
        return View(language, zone, snapshot.now_ms, person, theme, page, simulated, snapshot)

    def page(self, view: View, shown: PageContent, *, cursor: str = "", status: int = 200) -> HTMLResponse:
        html = self._env.get_template(shown.template).render(
            v=view,
            parts=self.frame_parts(view) | shown.parts,
            watch=shown.watch,
            cursor=cursor,
            m=self.macros,
            workers_read_each_other=self.context.workers_read_each_other,
            redis_weaknesses=self.context.redis_weaknesses,
            trash_days=self.context.settings.trash_days,
            several_nodes=self.context.settings.runner in SEVERAL_MACHINES,
            **shown.values,
        )
        return guard.with_security_headers(HTMLResponse(html, status_code=status))

    def frame_parts(self, view: View) -> dict[str, Markup]:
        """Return the parts that every page has: the counts in the navigation."""
        needs_attention = len(attention.items(view.snapshot, view))
        return {"nav-fleet": self.macros.nav_fleet(view, needs_attention), "nav-scan": self.macros.nav_scan(view)}

    def public_page(self, request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
        """Render a page for somebody who is not logged in: with a language and a theme, but without the fleet."""
        nothing = Snapshot(0, {}, (), {}, frozenset(), self.context.settings.max_sessions_per_proxy)
        view = self._view(nothing, None, "login", self.language_of(request), _theme_of(request))
        values = {"wait_s": None, "locked_s": None, "used_link": False, "name": "", "needs_code": False} | values
        return self.page(view, PageContent(template, values=values), status=status)

    def guest_page(self, request: Request, language: str, status: int, now_ms: int, **values: object) -> HTMLResponse:
        """Render the page of a one-time link: in the language that was chosen for it, without cookies or the fleet."""
        nothing = Snapshot(now_ms, {}, (), {}, frozenset(), self.context.settings.max_sessions_per_proxy)
        view = self._view(nothing, None, "guest", language if language in languages() else self.language_of(request))
        blank: dict[str, object] = {"phone": "", "label": "", "device": "", "until_ms": 0, "tries": 0, "most_tries": 0}
        blank |= {"picture": "", "pairing": ""}
        return self.page(view, PageContent("guest.html", values=blank | values), status=status)

    def language_of(self, request: Request) -> str:
        """Return the language that the person has selected, else the browser's, else the installation's."""
        wanted = [request.cookies.get("lang", ""), *_accepted(request.headers.get("accept-language", ""))]
        return next((each for each in wanted if each in languages()), self.context.settings.language)


def _theme_of(request: Request) -> str:
    theme = request.cookies.get("theme", "")
    return theme if theme in THEMES else ""


def _accepted(header: str) -> list[str]:
    """Return the languages of an Accept-Language header, the preferred ones first."""
    weighted = []
    for part in header.split(","):
        tag, _, weight = part.replace(" ", "").lower().partition(";")
        language = tag.partition("-")[0]
        with contextlib.suppress(ValueError):  # a quality that is no number
            weighted.append((float(weight.removeprefix("q=") or 1), _OLD_CODES.get(language, language)))
    return [language for quality, language in sorted(weighted, key=lambda each: -each[0]) if quality > 0]
