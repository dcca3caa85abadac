"""What needs a person now, worst first; the same trouble of several sessions is one line."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import Row, Snapshot
from wa_orchestrator.dashboard.html import labels
from wa_orchestrator.dashboard.html.locale import Tongue, bdi, ltr
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


@dataclass(frozen=True, slots=True)
class GivenUp:
    """How many messages were given up lately, and since when they are counted."""

    count: int = 0
    since_ms: int = 0


def items(snapshot: Snapshot, tongue: Tongue, given_up: GivenUp | None = None) -> list[Item]:
    """List everything that needs a person."""
    return [
        *_failed(snapshot, tongue),
        *_without_slot(snapshot, tongue),
        *_bad_proxies(snapshot, tongue),
        *_to_scan(snapshot, tongue),
        *_given_up(given_up or GivenUp(), tongue),
        *_full(snapshot, tongue),
        *_bursts(snapshot, tongue),
    ]


def _failed(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in snapshot.sorted_rows():
        if row.state is State.FAILED:
            groups[row.session.reason or ""].append(row)
    found = []
    for reason, rows in sorted(groups.items(), key=lambda pair: (pair[0] != Reason.BANNED, pair[0])):
        name = f"attention.{reason}" if tongue.knows(f"attention.{reason}.other") else "attention.failed"
        what = tongue.n(name, len(rows), name=bdi(snapshot.called(rows[0])), ago=tongue.ago(rows[0].session.changed_at))
        do = Markup("{} {}").format(_held(rows, tongue), tongue.reason(reason))
        single = len(rows) == 1
        href = f"/sessions/{rows[0].id}" if single else "/?state=failed"
        button = tongue.t("do.open") if single else tongue.n("do.show", len(rows))
        found.append(Item("failed", "s-failed", what, do, button, href))
    return found


def _held(rows: Sequence[Row], tongue: Tongue) -> Markup:
    waiting = sum(row.queued for row in rows)
    return tongue.n("attention.held", waiting) if waiting and rows[0].is_banned else Markup("")


def _without_slot(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    rows = [row for row in snapshot.sorted_rows() if _waits(row)]
    if not rows:
        return []
    name = "attention.no_slot" if snapshot.healthy else "attention.no_proxy_for"
    what = tongue.n(name, len(rows), name=bdi(snapshot.called(rows[0])), slots=snapshot.slots)
    do = tongue.t("attention.no_slot_do")
    return [Item("disconnected", "s-disconnected", what, do, tongue.t("do.add_proxy"), "/proxies#add")]


def _waits(row: Row) -> bool:
    return row.session.reason == Reason.WAITING_FOR_PROXY


def _bad_proxies(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    bad = snapshot.bad
    if not bad:
        return []
    what = tongue.n("attention.bad_proxy", len(bad), proxy=ltr(bad[0].id))
    sat = {name for proxy in bad for name in snapshot.who_sat(proxy)}
    if len(bad) > 1:
        do = tongue.t("attention.bad_proxies_do", n=tongue.number(len(sat)))
        return [Item("bad", "i-proxy", what, do, tongue.n("do.show", len(bad)), "/proxies")]
    rows = [row for row in snapshot.sorted_rows() if row.id in sat]
    why = bad[0].last_error or bad[0].bad_because or ""
    failed = tongue.t("attention.proxy_failed", why=labels.proxy_failure(tongue, why))
    do = Markup("{} {}").format(failed, tongue.n("attention.sat", len(rows), names=named(rows, snapshot, tongue)))
    return [Item("bad", "i-proxy", what, do, tongue.t("do.look"), f"/proxies#px-{bad[0].id}")]


def _full(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    """Nobody waits yet, but the next one would."""
    if (
        snapshot.direct
        or snapshot.free_slots
        or any(row.session.reason == Reason.WAITING_FOR_PROXY for row in snapshot.rows.values())
    ):
        return []
    if snapshot.proxies and not snapshot.healthy:
        return []  # the bad ones are told of
    name = "attention.full" if snapshot.proxies else "attention.no_proxy"
    what, do = tongue.t(name, slots=tongue.number(snapshot.slots)), tongue.t(f"{name}_do")
    return [Item("warn", "i-proxy", what, do, tongue.t("do.add_proxy"), "/proxies#add")]


def _given_up(given_up: GivenUp, tongue: Tongue) -> list[Item]:
    if not given_up.count:
        return []
    what = tongue.n("attention.given_up", given_up.count, since=tongue.hour(given_up.since_ms))
    do = tongue.t("attention.given_up_do")
    return [Item("warn", "i-msg", what, do, tongue.t("do.look"), "/messages?status=failed")]


def named(rows: Sequence[Row], snapshot: Snapshot, tongue: Tongue) -> Markup:
    """Some of their names, and how many more there are."""
    names = Markup(", ").join(bdi(snapshot.called(row)) for row in rows[:_NAMED])
    more = tongue.t("attention.and_more", n=len(rows) - _NAMED) if len(rows) > _NAMED else Markup("")
    return names + more


def _to_scan(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    rows = [
        row for row in snapshot.sorted_rows() if row.state is State.QR_READY or row.session.reason == Reason.LOGGED_OUT
    ]
    if not rows:
        return []
    what = tongue.n("attention.scan", len(rows), name=bdi(snapshot.called(rows[0])))
    do = Markup("{}. {}").format(named(rows, snapshot, tongue), tongue.t("attention.scan_do"))
    return [Item("qr_ready", "s-qr_ready", what, do, tongue.t("do.scan"), f"/scan?id={rows[0].id}")]


def _bursts(snapshot: Snapshot, tongue: Tongue) -> list[Item]:
    rows = [row for row in snapshot.sorted_rows() if row.burst_until > snapshot.now_ms]
    if not rows:
        return []
    what = tongue.n("attention.burst", len(rows), name=bdi(snapshot.called(rows[0])))
    do = tongue.t("attention.burst_do", until=tongue.clock(max(row.burst_until for row in rows)))
    return [Item("warn", "i-pace", what, do, tongue.t("do.look"), "/anti-ban")]
