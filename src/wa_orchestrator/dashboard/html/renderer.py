"""Puts pages together: a frame, and parts by id. A part is rendered the same way for a page and for its live stream."""

import hashlib
import json
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
from wa_orchestrator.dashboard.fleet.snapshot import Snapshot
from wa_orchestrator.dashboard.fleet.snapshot_reader import Fleet
from wa_orchestrator.dashboard.html import labels
from wa_orchestrator.dashboard.html.locale import Tongue, bdi, ltr
from wa_orchestrator.dashboard.login import Person
from wa_orchestrator.domain.session_reasons import Reason
from wa_orchestrator.texts.catalogue import languages
from wa_orchestrator.timestamps import iso

HERE: Final = Path(__file__).parents[1]
THEMES: Final = ("light", "dark")


@dataclass(frozen=True, slots=True)
class View(Tongue):
    """What a template may ask: texts and times, who looks, and at what."""

    person: Person | None
    theme: str
    page: str
    direct: bool
    """Sessions may leave without a proxy; every page says so."""
    simulated: bool
    """The world outside is simulated; every page says so."""
    snapshot: Snapshot

    @property
    def may_change(self) -> bool:
        """Whether buttons that change something are shown."""
        return self.person is not None and self.person.is_administrator

    def reason(self, code: str) -> str:
        """Say why a session is where it is; that all slots are taken is no answer where there is none at all."""
        if code == Reason.WAITING_FOR_PROXY and not self.snapshot.healthy:
            return str(self.t("session_reason.NO_PROXY_AT_ALL").striptags())
        return Tongue.reason(self, code)

    @property
    def csrf(self) -> str:
        """The token that proves that a change was meant, in a form that it has this once."""
        return guard.masked(self.person.csrf) if self.person else ""

    def script_texts(self) -> str:
        """The texts of the page's script, as JSON for an attribute."""
        return json.dumps(self.for_scripts(), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Shown:
    """A page that is ready: its template, the values it needs, its live parts, and how to go on watching it."""

    template: str
    parts: dict[str, Markup]
    values: dict[str, Any] = field(default_factory=dict)
    watch: dict[str, str] = field(default_factory=dict)


@cache
def environment() -> Environment:
    """Make the environment of all templates, once; everything is escaped, and a misspelled name is an error."""
    env = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"ltr": ltr, "bdi": bdi, "iso": iso}
    env.globals |= {"asset": asset, "say": labels}
    return env


@cache
def asset(name: str) -> str:
    """Give the address of a static file; it changes with the file, so browsers may keep it for ever."""
    version = hashlib.sha256((HERE / "static" / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={version}"


def language_of(request: Request, default: str) -> str:
    """Give the language a person has chosen, else the installation's."""
    chosen = request.cookies.get("lang", "")
    return chosen if chosen in languages() else default


class Desk:
    """What pages are made with."""

    def __init__(self, context: Context, fleet: Fleet, addresses: frozenset[str] = frozenset()) -> None:
        """Make pages for an app that has pages at these addresses; the navigation shows no others."""
        self.context = context
        self.fleet = fleet
        self._addresses = addresses
        self._env = environment()
        self.macros: Any = self._env.get_template("parts.html").module

    async def view(self, request: Request, person: Person | None, page: str) -> View:
        """Look at the fleet with a person's eyes."""
        settings = self.context.settings
        language = language_of(request, settings.language)
        theme = request.cookies.get("theme", "")
        return await self.view_as(person, page, language, theme if theme in THEMES else "")

    async def view_as(self, person: Person | None, page: str, language: str, theme: str = "") -> View:
        """Look at the fleet as somebody with this language and theme."""
        settings = self.context.settings
        snapshot = await self.fleet.look()
        return View(
            language,
            ZoneInfo(settings.timezone),
            snapshot.now_ms,
            person,
            theme,
            page,
            settings.allow_direct,
            self.context.simulator is not None,
            snapshot,
        )

    def page(self, view: View, shown: Shown, *, cursor: str = "", status: int = 200) -> HTMLResponse:
        """Render a whole page."""
        html = self._env.get_template(shown.template).render(
            v=view,
            parts=shown.parts,
            watch=shown.watch,
            cursor=cursor,
            m=self.macros,
            addresses=self._addresses,
            **shown.values,
        )
        response = HTMLResponse(html, status_code=status)
        guard.protect(response)
        return response

    def frame_parts(self, view: View) -> dict[str, Markup]:
        """The parts that every page has: the counts in the navigation."""
        return {"nav-fleet": self.macros.nav_fleet(view), "nav-scan": self.macros.nav_scan(view)}


def doorway(desk: Desk, request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    """Render a page for somebody who is not in yet: it knows a language and a theme, and nothing of the fleet."""
    settings = desk.context.settings
    theme = request.cookies.get("theme", "")
    nothing = Snapshot(0, {}, (), {}, frozenset(), settings.max_sessions_per_proxy, 0)
    view = View(
        language_of(request, settings.language),
        ZoneInfo(settings.timezone),
        0,
        None,
        theme if theme in THEMES else "",
        "login",
        False,
        desk.context.simulator is not None,
        nothing,
    )
    told = {"tries_left": None, "shut_s": None, "used_link": False, "name": ""} | values
    return desk.page(view, Shown(template, {}, told), status=status)
