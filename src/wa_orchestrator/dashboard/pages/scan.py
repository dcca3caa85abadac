"""Scan page: links phones, one after another. Only those who may link phones see codes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import segno
from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import Row
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.orchestrator.sessions import profile_inventory
from wa_orchestrator.store.sessions import link_codes

_LINKED_SHOWN: Final = 6
_FIRST_LIFE_MS: Final = 60_000
#: Why a session that failed is linked by a new code.
_NEEDS_NEW_CODE: Final = (Reason.QR_EXPIRED, Reason.AUTH_FAILURE)
#: Linked: there is nothing to scan or to enter.
_LINKED: Final = (State.CONNECTED, State.DISCONNECTED)


@dataclass(frozen=True, slots=True, repr=False)
class Code:
    picture: Markup
    pairing: str
    life_ms: int
    age_ms: int

    @property
    def left_s(self) -> int:
        return max(0, (self.life_ms - self.age_ms) // 1000)


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    row = selected(view, query.get("id", ""))
    phone = phone_in(query) or (row.session.phone if row else "")
    parts = await _parts(renderer, view, row, phone)
    watch = {"page": "scan", "id": row.id if row else "", "phone": phone}
    profiles = await profile_inventory.read(renderer.context.settings, renderer.context.scripts)
    offered = [each.profile for each in profiles.rows if each.origin != "sessions" and each.free != 0]
    return PageContent("scan.html", parts, {"add": query.get("add", ""), "profiles": offered}, watch)


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    return await _parts(renderer, view, view.snapshot.rows.get(query.get("id", "")), phone_in(query))


def phone_in(query: Mapping[str, str]) -> str:
    """Return the phone of a requested pairing code, from the query."""
    return "".join(each for each in query.get("phone", "") if each.isascii() and each.isdigit())[:15]


async def _parts(renderer: Renderer, view: View, row: Row | None, phone: str) -> dict[str, Markup]:
    waiting, linked = lists(view)
    code = await code_of(renderer, view, row)
    following = next((each for each in waiting if row is None or each.id != row.id), None)
    linked_now = row is not None and row.state in _LINKED
    m = renderer.macros
    return {
        "waiting": m.waiting(view, waiting, linked[:_LINKED_SHOWN], len(linked), row.id if row else ""),
        "link-head": m.link_head(view, row),
        "qr-card": m.qr_card(view, row, code, following.id if following else "", phone),
        "link-simulate": m.link_simulate(view, row, linked_now, phone),
        "link-how": m.link_how(view, row, linked_now, following),
        "link-facts": m.link_facts(view, row),
        "link-pair": m.link_pair(view, row, linked_now, phone),
    }


def lists(view: View) -> tuple[list[Row], list[Row]]:
    """Return the sessions that wait to be linked, and those that were linked today."""
    rows = view.snapshot.sorted_rows()
    waiting = [row for row in rows if waits_for_code(row)]
    linked = [row for row in rows if row.session.phone and _was_today(view, row.session.first_connected_at)]
    return waiting, sorted(linked, key=lambda row: -row.session.first_connected_at)


def _was_today(view: View, at_ms: int) -> bool:
    return at_ms > 0 and view.day_key(at_ms) == view.today.isoformat()


def waits_for_code(row: Row) -> bool:
    """Whether a session is linked by a code, also one whose phone is known and whose code has expired.

    A linked session that starts again is pending too, and needs none.
    """
    if row.state is State.FAILED:
        return not row.session.phone or row.session.reason in _NEEDS_NEW_CODE
    starts_again = row.session.first_connected_at > 0 and not row.is_unlinked
    return row.state is State.QR_READY or (row.state is State.PENDING and not starts_again)


def selected(view: View, wanted: str) -> Row | None:
    """Return the session that the query names, else the first that can be linked now."""
    if wanted in view.snapshot.rows:
        return view.snapshot.rows[wanted]
    waiting, _ = lists(view)
    return min(waiting, key=lambda row: row.state is not State.QR_READY, default=None)


async def code_of(renderer: Renderer, view: View, row: Row | None) -> Code | None:
    """Return the current code; always None for viewers."""
    if row is None or not view.may_change or row.state is not State.QR_READY:
        return None
    if (shown := await link_codes.get(renderer.context.scripts, row.id)) is None:
        return None
    ends = shown.expires_at_ms
    began = shown.at_ms or ends - _FIRST_LIFE_MS
    picture = Markup("")
    if shown.qr:
        qr = segno.make(shown.qr, error="l", micro=False)
        svg = qr.svg_inline(border=2, svgclass="code", lineclass=None, omitsize=True)
        picture = Markup(svg)  # noqa: S704 (drawn here)
    return Code(picture, shown.code, max(1000, ends - began), max(0, view.now_ms - began))
