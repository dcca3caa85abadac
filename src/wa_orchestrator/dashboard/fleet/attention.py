"""What needs a person now, worst first; the same problem of several sessions is one line."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import FailedMessages, Row, Snapshot
from wa_orchestrator.dashboard.html import labels
from wa_orchestrator.dashboard.html.locale import Locale, bdi, ltr
from wa_orchestrator.domain.pacing.backlog import MAX_DAYS
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.orchestrator.notifications.lasting_troubles import PATIENCE_MS

MAX_SHOWN: Final = 5
_NAMED: Final = 3
#: Why a session failed whose messages wait for it.
_HELD: Final = (Reason.BANNED, Reason.TEMPORARY_BAN, Reason.PHONE_CHANGED)


@dataclass(frozen=True, slots=True)
class Item:
    """One line: what happened, what to do, and the button that leads there."""

    state: str
    icon: str
    what: Markup
    do: Markup
    button: Markup
    href: str


def items(snapshot: Snapshot, locale: Locale) -> list[Item]:
    return [
        *_server(snapshot, locale),
        *_failed(snapshot, locale),
        *_unlinked(snapshot, locale),
        *_unproven_opt_outs(snapshot, locale),
        *_without_slot(snapshot, locale),
        *_offline(snapshot, locale),
        *_bad_proxies(snapshot, locale),
        *_to_scan(snapshot, locale),
        *_failed_messages(snapshot.failed, locale),
        *_reachout_locks(snapshot, locale),
        *_new_chat_caps(snapshot, locale),
        *_failing_webhooks(snapshot, locale),
        *_disabled_webhooks(snapshot, locale),
        *_long_queues(snapshot, locale),
        *_poor_numbers(snapshot, locale),
        *_backups(snapshot, locale),
        *_paused_campaigns(snapshot, locale),
        *_full(snapshot, locale),
        *_few_profiles(snapshot, locale),
        *_slowed_down(snapshot, locale),
        *_bursts(snapshot, locale),
    ]


def _server(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    """What stops the whole installation, or soon will."""
    for trouble in snapshot.troubles:
        fields, since = trouble.fields, locale.clock(trouble.at_ms)
        match trouble.kind:
            case EventType.PROXY_OUTAGE:
                what = locale.t("attention.outage", since=since, failing=fields["failing"], healthy=fields["healthy"])
                yield _line("failed", what, locale.t("attention.outage_do"), "/proxies", locale)
            case EventType.REDIS_EMPTIED:
                what = locale.n("attention.redis_emptied", int(fields["sessions"]))
                yield _line("failed", what, locale.t("attention.redis_emptied_do"), "/backups", locale)
            case EventType.DISK_LOW:
                free = ltr(f"{int(fields['free_bytes']) / 1e9:.1f}")
                do = locale.t("attention.disk_low_do", directory=ltr(fields["directory"]))
                what = locale.t("attention.disk_low", free=free, since=locale.when(trouble.at_ms))
                yield _line("failed", what, do, "/live-log?kind=server", locale)
            case EventType.REDIS_MEMORY_LOW:
                what, do = locale.t("attention.redis_memory", since=since), locale.t("attention.redis_memory_do")
                yield _line("failed", what, do, "/live-log?kind=server", locale)
            case EventType.NODE_LOST:
                what = locale.t("attention.node_lost", name=ltr(fields["node"]), since=since)
                yield _line("failed", what, locale.t("attention.node_lost_do"), "/nodes", locale)
            case EventType.ARCHIVE_FAILING:
                what = locale.t("attention.archive", since=locale.clock(int(fields["since"])))
                elsewhere = "_elsewhere" if fields["reason"] == "ARCHIVE_ELSEWHERE" else ""
                yield _line("warn", what, locale.t(f"attention.archive{elsewhere}_do"), "/live-log?kind=server", locale)


def _backups(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    for trouble in snapshot.troubles:
        if trouble.kind == EventType.BACKUP_FAILED:
            what = locale.t("attention.backup_failed", since=locale.when(trouble.at_ms))
            do = locale.t("attention.backup_failed_do", why=locale.t(_why_no_backup(trouble.fields["reason"], locale)))
            yield _line("warn", what, do, "/live-log?kind=backup", locale)
        elif trouble.kind == EventType.BACKUP_COPY_FAILED:
            what = locale.t("attention.backup_uncopied", backup=ltr(trouble.fields["backup"]))
            yield _line("warn", what, locale.t("attention.backup_uncopied_do"), "/live-log?kind=backup", locale)


def _paused_campaigns(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    for trouble in snapshot.troubles:
        if trouble.kind == EventType.CAMPAIGN_PAUSED_ITSELF:
            name = bdi(snapshot.campaign_names.get(trouble.fields["campaign"], trouble.fields["campaign"]))
            what = locale.t("attention.campaign", name=name, since=locale.when(trouble.at_ms))
            why = locale.t(f"cause.{trouble.fields['reason']}")
            yield _line("warn", what, why, f"/campaigns/{trouble.fields['campaign']}", locale)


def _disabled_webhooks(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    for trouble in snapshot.troubles:
        if trouble.kind == EventType.WEBHOOK_DISABLED:
            host = ltr(snapshot.webhook_hosts.get(trouble.fields["webhook"], trouble.fields["webhook"]))
            what = locale.t("attention.webhook_disabled", name=host, since=locale.when(trouble.at_ms))
            yield _line("warn", what, locale.t("attention.webhook_disabled_do"), "/settings", locale)


def _unproven_opt_outs(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    for row in snapshot.sorted_rows():
        if item := unproven_opt_outs(snapshot, row, locale):
            yield item


def unproven_opt_outs(snapshot: Snapshot, row: Row, locale: Locale) -> Item | None:
    """Return what the list and the page of a session say when its opt-outs may be forged; None otherwise."""
    troubles = (each for each in snapshot.troubles if each.kind == EventType.SESSION_OPT_OUTS_UNPROVEN)
    if all(each.fields.get("session") != row.id for each in troubles):
        return None
    what = locale.t("attention.opt_outs", name=bdi(snapshot.called(row)))
    return _line("failed", what, locale.t("attention.opt_outs_do"), f"/sessions/{row.id}", locale)


def _why_no_backup(code: str, locale: Locale) -> str:
    return f"backups.why.{code}" if locale.knows(f"backups.why.{code}") else "error.BROKEN"


def _line(state: str, what: Markup, do: Markup, href: str, locale: Locale) -> Item:
    return Item(state, "s-failed" if state == "failed" else "i-warn", what, do, locale.t("do.details"), href)


def _failed(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in snapshot.sorted_rows():
        if row.state is State.FAILED and not row.is_unlinked:
            groups[row.session.reason or ""].append(row)
    for reason, rows in sorted(groups.items(), key=lambda pair: (pair[0] != Reason.BANNED, pair[0])):
        name = f"attention.{reason}" if locale.knows(f"attention.{reason}.other") else "attention.failed"
        what = locale.n(name, len(rows), name=bdi(snapshot.called(rows[0])), ago=locale.ago(rows[0].session.changed_at))
        waiting = sum(row.queued for row in rows) if reason in _HELD else 0
        held = locale.n("attention.held", waiting) if waiting else ""
        do = Markup("{} {}").format(held, _what_to_do(reason, rows, locale))
        yield Item("failed", "s-failed", what, do, *_link_to(rows, "failed", locale))


def _what_to_do(reason: str, rows: Sequence[Row], locale: Locale) -> Markup:
    """Return what a person does about failed sessions; what the line above says already is not said again."""
    name = f"attention.do_{reason}"
    if not locale.knows(name):
        return Markup("{}").format(locale.reason(reason))
    if reason != Reason.TEMPORARY_BAN:
        return locale.t(name)
    known = len(rows) == 1 and rows[0].ban_ends_at
    ends = (
        locale.t("attention.ends", until=locale.when(rows[0].ban_ends_at))
        if known
        else locale.t("attention.ends_itself")
    )
    return Markup("{} {}").format(ends, locale.t(name))


def _link_to(rows: Sequence[Row], state: str, locale: Locale) -> tuple[Markup, str]:
    """Return the button and the address of one session, or of the list of those in this state."""
    if len(rows) == 1:
        return locale.t("do.open"), f"/sessions/{rows[0].id}"
    return locale.n("do.show", len(rows)), f"/?state={state}"


def _unlinked(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    """Each until it is linked again; also while it waits for a slot or its code, or when nobody scanned one."""
    unlinked = [row for row in snapshot.sorted_rows() if row.is_unlinked]
    scan, add_proxy = (locale.t("do.scan"), "/scan?id={}"), (locale.t("do.add_proxy"), "/proxies#add")
    if snapshot.is_limited:
        add_proxy = (locale.t("do.open"), "/sessions/{}")
    new_code, no_slot = locale.t("attention.unlinked_do"), locale.t("attention.unlinked_no_slot")
    for waits, next_step, (button, href) in ((False, new_code, scan), (True, no_slot, add_proxy)):
        if rows := [row for row in unlinked if row.waits_for_slot is waits]:
            at = locale.when(rows[0].session.unlinked_at)
            what = locale.n("attention.unlinked", len(rows), name=bdi(snapshot.called(rows[0])), at=at)
            do = Markup("{} {}").format(_waiting(rows, locale), next_step)
            yield Item("failed", "s-failed", what, do, button, href.format(rows[0].id))


def _waiting(rows: Sequence[Row], locale: Locale) -> Markup:
    return locale.n("attention.wait", sum(row.queued for row in rows))


def _without_slot(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    if rows := [row for row in snapshot.sorted_rows() if row.waits_for_slot and not row.is_unlinked]:
        if snapshot.is_limited:  # how many slots there are is not shown, nor may the person add any
            what = locale.n("attention.no_slot_limited", len(rows), name=bdi(snapshot.called(rows[0])))
            do = locale.t("attention.no_slot_ask")
            yield Item("disconnected", "s-disconnected", what, do, *_link_to(rows, rows[0].state, locale))
            return
        name = "attention.no_slot" if snapshot.healthy else "attention.no_proxy_for"
        what = locale.n(name, len(rows), name=bdi(snapshot.called(rows[0])), slots=snapshot.slots)
        do = locale.t("attention.no_slot_do")
        yield Item("disconnected", "s-disconnected", what, do, locale.t("do.add_proxy"), "/proxies#add")


def is_offline_for_long(row: Row, now_ms: int) -> bool:
    """Whether a session should have reconnected by itself, and has not for long."""
    return 0 < row.offline_since < now_ms - PATIENCE_MS and not row.is_unlinked


def _offline(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    """Sessions that should reconnect by themselves, and have not for long."""
    if rows := [row for row in snapshot.sorted_rows() if is_offline_for_long(row, snapshot.now_ms)]:
        since = locale.clock(min(row.offline_since for row in rows))
        what = locale.n("attention.offline", len(rows), name=bdi(snapshot.called(rows[0])), since=since)
        do = Markup("{} {}").format(_waiting(rows, locale), locale.t("attention.offline_do"))
        yield Item("disconnected", "s-disconnected", what, do, *_link_to(rows, "disconnected", locale))


def _reachout_locks(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    if rows := [row for row in snapshot.sorted_rows() if row.lock_until > snapshot.now_ms]:
        what = locale.n("attention.locked", len(rows), name=bdi(snapshot.called(rows[0])))
        yield Item("warn", "i-pace", what, locale.t("attention.locked_do"), locale.t("do.details"), "/anti-ban")


def _new_chat_caps(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    if rows := [row for row in snapshot.sorted_rows() if row.cap_until > snapshot.now_ms]:
        what = locale.n("attention.capped", len(rows), name=bdi(snapshot.called(rows[0])))
        yield Item("warn", "i-pace", what, locale.t("attention.capped_do"), locale.t("do.details"), "/anti-ban")


def _failing_webhooks(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    before = snapshot.now_ms - PATIENCE_MS
    if failing := {host: since for host, since in snapshot.failing_webhooks.items() if since < before}:
        host, since = min(failing.items(), key=lambda pair: pair[1])
        what = locale.n("attention.webhook", len(failing), name=ltr(host), since=locale.clock(since))
        yield Item("warn", "i-warn", what, locale.t("attention.webhook_do"), locale.t("do.details"), "/settings")


def _long_queues(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    if rows := [row for row in snapshot.sorted_rows() if row.days_queued > MAX_DAYS]:
        longest = max(rows, key=lambda row: row.days_queued)
        days = locale.number(longest.days_queued)
        what = locale.n("attention.long_queue", len(rows), name=bdi(snapshot.called(longest)), days=days)
        do = locale.t("attention.long_queue_do")
        yield Item("warn", "i-clock", what, do, locale.t("do.details"), "/?sort=queue")


def _poor_numbers(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    for trouble in snapshot.troubles:
        row = snapshot.rows.get(trouble.fields.get("session", ""))
        if trouble.kind == EventType.SESSION_HEALTH_POOR and row is not None:
            fields = trouble.fields
            what = locale.t(
                f"attention.health_{fields['signal']}",
                name=bdi(snapshot.called(row)),
                count=locale.number(int(fields["count"])),
                of=locale.number(int(fields["of"])),
            )
            yield Item(
                "warn", "i-pace", what, locale.t("attention.health_do"), locale.t("do.details"), f"/sessions/{row.id}"
            )


def _bad_proxies(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    bad = snapshot.bad
    if not bad:
        return
    what = locale.n("attention.bad_proxy", len(bad), proxy=bdi(snapshot.proxy_called(bad[0].id)))
    affected = {name for proxy in bad for name in snapshot.sessions_of(proxy)}
    rows = [row for row in snapshot.sorted_rows() if row.id in affected]
    if len(bad) > 1:
        do = locale.t("attention.bad_proxies_do", n=locale.number(len(affected)))
        button, href = locale.n("do.show", len(bad)), "/proxies"
        yield Item("bad", "i-proxy", what, do, *_of_proxies(snapshot, rows, button, href, locale))
        return
    why = bad[0].last_error or bad[0].bad_because or ""
    failed = locale.t("attention.proxy_failed", why=labels.proxy_failure(locale, why))
    do = Markup("{} {}").format(failed, locale.n("attention.affected", len(rows), names=named(rows, snapshot, locale)))
    href = f"/proxies?id={bad[0].id}#px-{bad[0].id}"
    yield Item("bad", "i-proxy", what, do, *_of_proxies(snapshot, rows, locale.t("do.details"), href, locale))


def _of_proxies(
    snapshot: Snapshot, rows: Sequence[Row], button: Markup, href: str, locale: Locale
) -> tuple[Markup, str]:
    """Return where a line about proxies leads; whoever sees some sessions only may not open that page."""
    return _link_to(rows, "", locale) if snapshot.is_limited else (button, href)


def _full(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    """No session waits yet, but soon one would. `_without_slot` and `_bad_proxies` report what is worse."""
    waits = any(row.waits_for_slot for row in snapshot.rows.values())
    all_bad = snapshot.proxies and not snapshot.healthy
    if waits or all_bad or snapshot.is_limited:
        return
    if snapshot.free_slots and any(each.kind == EventType.PROXY_LOW_INVENTORY for each in snapshot.troubles):
        slots = locale.number(snapshot.slots)
        what, do = locale.n("attention.few_slots", snapshot.free_slots, slots=slots), locale.t("attention.full_do")
        yield Item("warn", "i-proxy", what, do, locale.t("do.add_proxy"), "/proxies#add")
    elif not snapshot.direct and not snapshot.free_slots:
        name = "attention.full" if snapshot.proxies else "attention.no_proxy"
        what, do = locale.t(name, slots=locale.number(snapshot.slots)), locale.t(f"{name}_do")
        yield Item("warn", "i-proxy", what, do, locale.t("do.add_proxy"), "/proxies#add")


def _few_profiles(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    if any(each.kind == EventType.PROFILE_LOW_INVENTORY for each in snapshot.troubles):
        what, do = locale.t("attention.few_profiles"), locale.t("profiles.few_do")
        yield Item("warn", "i-warn", what, do, locale.t("do.details"), "/proxies#profiles")


def _failed_messages(failed: FailedMessages, locale: Locale) -> Iterator[Item]:
    for status, count in (("failed", failed.failed), ("unknown", failed.unknown)):
        if count:
            name, href = f"attention.{status}_messages", f"/messages?status={status}"
            what = locale.n(name, count, since=locale.clock(failed.since_ms))
            yield Item("warn", "i-msg", what, locale.t(f"{name}_do"), locale.t("do.details"), href)


def named(rows: Sequence[Row], snapshot: Snapshot, locale: Locale) -> Markup:
    """Return some of their names, and how many more there are."""
    names = Markup(", ").join(bdi(snapshot.called(row)) for row in rows[:_NAMED])
    more = locale.t("attention.and_more", n=len(rows) - _NAMED) if len(rows) > _NAMED else Markup("")
    return names + more


def _to_scan(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    shown = [row for row in snapshot.sorted_rows() if not row.is_unlinked]
    if rows := [row for row in shown if row.state is State.QR_READY or row.session.reason == Reason.LOGGED_OUT]:
        what = locale.n("attention.scan", len(rows), name=bdi(snapshot.called(rows[0])))
        do = Markup("{}. {}").format(named(rows, snapshot, locale), locale.t("attention.scan_do"))
        yield Item("qr_ready", "s-qr_ready", what, do, locale.t("do.scan"), f"/scan?id={rows[0].id}")


def _slowed_down(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    if rows := [row for row in snapshot.sorted_rows() if row.is_slowed_down]:
        what = locale.n("attention.slowed", len(rows), name=bdi(snapshot.called(rows[0])))
        button = (locale.t("do.open"), f"/sessions/{rows[0].id}") if len(rows) == 1 else (locale.t("do.details"), "/")
        yield Item("warn", "i-pace", what, locale.t("attention.slowed_do"), *button)


def _bursts(snapshot: Snapshot, locale: Locale) -> Iterator[Item]:
    if rows := [row for row in snapshot.sorted_rows() if row.burst_until > snapshot.now_ms]:
        what = locale.n("attention.burst", len(rows), name=bdi(snapshot.called(rows[0])))
        do = locale.t("attention.burst_do", until=locale.clock(max(row.burst_until for row in rows)))
        yield Item("warn", "i-pace", what, do, locale.t("do.details"), "/anti-ban")
