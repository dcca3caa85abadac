"""What needs a person now, worst first; the same trouble of several sessions is one line."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet import Row, Snapshot
from wa_orchestrator.dashboard.speaking import Tongue, bdi
from wa_orchestrator.domain.session import Reason, State

MOST: Final = 5
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Item:
    """One line: what happened, what to do, and the one button that leads there."""

    state: str
    icon: str
    what: Markup
    do: Markup
    button: Markup
    href: str


def items(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    """List everything that needs a person."""
    return [
        *_failed(snapshot, tongue),
        *_seatless(snapshot, tongue),
        *_to_scan(snapshot, tongue),
        *_bursts(snapshot, tongue),
    ]


def _failed(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in snapshot.sorted_rows():
        if row.state is State.FAILED:
            groups[row.session.reason].append(row)
    found = []
    for reason, rows in sorted(groups.items(), key=lambda pair: (pair[0] != Reason.BANNED, pair[0])):
        name = f"attention.{reason}" if tongue.knows(f"attention.{reason}.other") else "attention.failed"
        what = tongue.n(name, len(rows), name=bdi(rows[0].name), ago=tongue.ago(rows[0].session.changed_at))
        do = Markup("{} {}").format(_held(rows, tongue), tongue.reason(reason))
        single = len(rows) == 1
        href = f"/sessions/{rows[0].id}" if single else "/?state=failed"
        button = tongue.t("do.open") if single else tongue.n("do.show", len(rows))
        found.append(Item("failed", "s-failed", what, do, button, href))
    return found


def _held(rows: Sequence[Row], tongue: Tongue) -> Markup:
    waiting = sum(row.queued for row in rows)
    return tongue.n("attention.held", waiting) if waiting and rows[0].is_banned else Markup("")


def _seatless(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    rows = [row for row in snapshot.sorted_rows() if row.session.reason == Reason.WAITING_FOR_PROXY]
    if not rows:
        return []
    what = tongue.n("attention.seatless", len(rows), name=bdi(rows[0].name), seats=snapshot.seats)
    do = Markup("{}").format(tongue.reason(Reason.WAITING_FOR_PROXY))
    return [Item("disconnected", "s-disconnected", what, do, tongue.t("do.add_proxy"), "/proxies#add")]


def _to_scan(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    rows = [
        row for row in snapshot.sorted_rows() if row.state is State.QR_READY or row.session.reason == Reason.LOGGED_OUT
    ]
    if not rows:
        return []
    what = tongue.n("attention.scan", len(rows), name=bdi(rows[0].name))
    names = Markup(", ").join(bdi(row.name) for row in rows[:_NAMED])
    more = tongue.t("attention.and_more", n=len(rows) - _NAMED) if len(rows) > _NAMED else Markup("")
    do = Markup("{}{}. {}").format(names, more, tongue.t("attention.scan_do"))
    return [Item("qr_ready", "s-qr_ready", what, do, tongue.t("do.scan"), f"/scan?id={rows[0].id}")]


def _bursts(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    rows = [row for row in snapshot.sorted_rows() if row.burst_until > snapshot.now_ms]
    if not rows:
        return []
    what = tongue.n("attention.burst", len(rows), name=bdi(rows[0].name))
    do = tongue.t("attention.burst_do", until=tongue.clock(max(row.burst_until for row in rows)))
    return [Item("warn", "i-pace", what, do, tongue.t("do.look"), "/anti-ban")]
