"""Linking phones, one after another. Codes are shown to administrators only."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import segno
from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import Row
from wa_orchestrator.dashboard.html.renderer import Desk, Shown, View
from wa_orchestrator.domain.session import State
from wa_orchestrator.store import keys

_LINKED_SHOWN: Final = 6
_DAY_MS: Final = 86_400_000
_FIRST_LIFE_MS: Final = 60_000
_WAITS: Final = (State.QR_READY, State.PENDING)
#: It has its phone: there is nothing to scan or to enter.
_LINKED: Final = (State.CONNECTED, State.DISCONNECTED)


@dataclass(frozen=True, slots=True, repr=False)
class Code:
    """What waits to be scanned or entered."""

    picture: Markup
    pairing: str
    life_ms: int
    age_ms: int

    @property
    def left_s(self) -> int:
        """How long it is still good."""
        return max(0, (self.life_ms - self.age_ms) // 1000)


async def show(desk: Desk, view: View, query: Mapping[str, str]) -> Shown:
    """Show who waits, and the code of the one that was picked."""
    row = picked(view, query.get("id", ""))
    phone = phone_in(query) or (row.session.phone if row else "")
    parts = await _parts(desk, view, row, phone)
    watch = {"page": "scan", "id": row.id if row else "", "phone": phone}
    return Shown("scan.html", parts, {"row": row, "add": query.get("add", ""), "phone": phone}, watch)


async def parts(desk: Desk, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    """Render the list and the card of the session that is being linked."""
    return await _parts(desk, view, view.snapshot.rows.get(query.get("id", "")), phone_in(query))


def phone_in(query: Mapping[str, str]) -> str:
    """The phone that a pairing code was asked for, as the address says."""
    return "".join(each for each in query.get("phone", "") if each.isascii() and each.isdigit())[:15]


async def _parts(desk: Desk, view: View, row: Row | None, phone: str) -> dict[str, Markup]:
    waiting, linked = lists(view)
    code = await code_of(desk, view, row)
    following = next((each for each in waiting if row is None or each.id != row.id), None)
    linked_now = row is not None and row.state in _LINKED
    m = desk.macros
    return desk.frame_parts(view) | {
        "waiting": m.waiting(view, waiting, linked, row.id if row else ""),
        "link-head": m.link_head(view, row),
        "qr-card": m.qr_card(view, row, code, following.id if following else "", phone),
        "link-simulate": m.link_simulate(view, row, linked_now, phone),
        "link-how": m.link_how(view, row, linked_now, following),
        "link-facts": m.link_facts(view, row),
        "link-pair": m.link_pair(view, row, linked_now, phone),
    }


def lists(view: View) -> tuple[list[Row], list[Row]]:
    """Give those who wait to be linked, and those who were linked within a day."""
    rows = view.snapshot.sorted_rows()
    waiting = [row for row in rows if row.state in _WAITS or (row.state is State.FAILED and not row.session.phone)]
    linked = [
        row for row in rows if row.state is State.CONNECTED and row.session.first_connected_at > view.now_ms - _DAY_MS
    ]
    linked.sort(key=lambda row: -row.session.first_connected_at)
    return waiting, linked[:_LINKED_SHOWN]


def picked(view: View, wanted: str) -> Row | None:
    """The session that the address names, else the first that can be linked now."""
    if wanted in view.snapshot.rows:
        return view.snapshot.rows[wanted]
    waiting, _ = lists(view)
    ready = [row for row in waiting if row.state is State.QR_READY]
    return next(iter([*ready, *waiting]), None)


async def code_of(desk: Desk, view: View, row: Row | None) -> Code | None:
    """Read the code that waits; None for viewers, whoever asks and however."""
    if row is None or not view.may_change or row.state is not State.QR_READY:
        return None
    text: Any = await desk.context.redis.get(keys.qr(row.id))
    if text is None:
        return None
    raw = json.loads(text)
    ends = int(raw["expires_at_ms"])
    began = int(raw.get("at_ms") or ends - _FIRST_LIFE_MS)
    picture = draw(raw["qr"]) if raw.get("qr") else Markup("")
    return Code(picture, raw.get("code", ""), max(1000, ends - began), max(0, view.now_ms - began))


def draw(text: str) -> Markup:
    """Draw a QR as SVG without any text in it."""
    code = segno.make(text, error="l", micro=False)
    return Markup(code.svg_inline(border=2, svgclass="code", lineclass=None, omitsize=True))  # noqa: S704 (drawn here)
