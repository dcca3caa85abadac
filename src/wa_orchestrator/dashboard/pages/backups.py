"""Backups page: the list, what runs, how the latest ended, and where copies are."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from wa_orchestrator.dashboard.html.locale import Locale, bdi, ltr
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.domain import backup_schedule
from wa_orchestrator.domain.sessions.restore_outcome import RestoreOutcome
from wa_orchestrator.orchestrator.backups import backup_files, prepared_restore
from wa_orchestrator.orchestrator.backups.backup_files import BackupNote
from wa_orchestrator.orchestrator.backups.prepared_restore import Plan
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.backups.runs import EndedRun, Run

_UNITS: Final = ("kB", "MB", "GB", "TB")
_DAY_MS: Final = 86_400_000
#: So many sessions of a restore are listed; the others are counted.
_MOST_ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class BackupRow:
    """A backup, or a run that made none."""

    at_ms: int
    by: str
    note: BackupNote | None
    failed: EndedRun | None


@dataclass(frozen=True, slots=True)
class RestoreRow:
    """A session of a restore that is carried out: `waits`, `now`, or how it ended for it."""

    id: str
    stage: str


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    return PageContent("backups.html", await parts(renderer, view, query), {}, {"page": "backups"})


async def parts(renderer: Renderer, view: View, _query: Mapping[str, str]) -> dict[str, Markup]:
    context, macros = renderer.context, renderer.operations
    settings = context.settings
    notes = await asyncio.to_thread(backup_files.listed, settings)
    ended, running = await runs.latest(context.scripts), await runs.current(context.scripts)
    asked = await runs.requested(context.scripts) is not None
    newest = notes[0] if notes else None
    sessions = len(view.snapshot.rows)
    restored = next((each for each in ended if each.kind == "restore"), None)
    recent = restored if restored and view.now_ms - restored.ended_at < _DAY_MS else None
    decided = await asyncio.to_thread(lambda: next(prepared_restore.decided(settings), None))
    rows = [] if decided is None else restore_rows(decided[1], running, await asyncio.to_thread(_outcomes, decided[0]))
    return {
        "headline": macros.backups_headline(view, newest, sessions, running),
        "backup-now": macros.backup_now(view, running, asked),
        "backups-notice": macros.backups_notice(view, newest, settings),
        "backup-run": macros.backup_run(view, running, asked),
        "restore-sessions": macros.restore_sessions(view, rows, running, _MOST_ROWS),
        "backup-result": macros.restore_result(view, recent),
        "backup-list": macros.backup_list(view, rows_of(notes, ended), settings, size),
        "backup-copies": macros.backup_copies(view, notes, settings, await asyncio.to_thread(_free, settings), size),
        "backup-facts": macros.backup_facts(view, newest, settings, _next_ms(view, settings)),
    }


def restore_rows(plan: Plan, running: Run | None, outcomes: Mapping[str, str]) -> list[RestoreRow]:
    """Return the sessions of a decided restore: the one that it is at, those that wait, and those that are done."""
    restoring = running is not None and running.kind == "restore"
    done = running.done if running is not None and restoring else 0
    known = dict.fromkeys(plan.sessions[:done], RestoreOutcome.RESTORED.value) | dict(outcomes)
    waiting = [each for each in plan.sessions if each not in known]
    at = running.session if running is not None and restoring else ""
    rows = [RestoreRow(each, "now" if each == at else "waits") for each in waiting]
    ended = [RestoreRow(each, known[each]) for each in plan.sessions if each in known]
    return rows + sorted(ended, key=lambda row: row.stage == RestoreOutcome.RESTORED)


def _outcomes(directory: Path) -> Mapping[str, str]:
    return prepared_restore.noted_outcomes(directory)


def rows_of(notes: Sequence[BackupNote], ended: Sequence[EndedRun]) -> list[BackupRow]:
    """Return backups and failed runs, the newest first. A failed run stays in the list."""
    by = {each.id: each.by for each in ended if each.kind == "backup" and not each.error}
    made = [BackupRow(note.created_at, by.get(note.id, ""), note, None) for note in notes]
    failed = [BackupRow(each.began_at, each.by, None, each) for each in ended if each.kind == "backup" and each.error]
    return sorted([*made, *failed], key=lambda row: row.at_ms, reverse=True)


def size(count: float) -> Markup:
    """Format a number of bytes in its unit."""
    number, unit = count / 1000, _UNITS[0]
    for larger in _UNITS[1:]:
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return ltr(f"{number:.1f} {unit}" if 0 < number < 10 else f"{number:,.0f} {unit}")


def plan_part(renderer: Renderer, view: View, form: Mapping[str, str], answer: Mapping[str, Any]) -> Markup:
    """Render what a restore would change, with the choice of sessions if some are to be chosen."""
    changes = answer["changes"]
    in_backup = [*changes["returns"], *changes["phoneFull"], *changes["goesBack"], *changes["kept"]]
    if form.get("what") == "some":
        in_backup = sorted({*in_backup, *_listed(form)})
    chosen = set(form.get("sessions", "").split(",")) if form.get("listed") else set(in_backup)
    choice = [(each, _name(view, each), each in chosen) for each in in_backup] if form.get("what") == "some" else []
    names = {kind: [_name(view, each) for each in ids] for kind, ids in changes.items()}
    part: Markup = renderer.operations.restore_plan(view, answer, names, choice, _age(view, answer))
    return part


def _listed(form: Mapping[str, str]) -> list[str]:
    return [each for each in form.get("listed", "").split(",") if each]


def _name(view: View, session_id: str) -> Markup:
    row = view.snapshot.rows.get(session_id)
    return bdi(view.snapshot.called(row)) if row else ltr(session_id)


def _age(view: Locale, answer: Mapping[str, Any]) -> Markup:
    made_ms = round(datetime.fromisoformat(answer["createdAt"]).timestamp() * 1000)
    return view.span(max(0, view.now_ms - made_ms))


def _free(settings: Settings) -> int:
    place = settings.backups_dir
    return shutil.disk_usage(place).free if place.is_dir() else 0


def _next_ms(view: View, settings: Settings) -> int:
    now = datetime.fromtimestamp(view.now_ms / 1000, tz=view.zone)
    upcoming = backup_schedule.next_run(now, time.fromisoformat(settings.backup_time), view.zone)
    return round(upcoming.timestamp() * 1000)
