"""The page of backups in a real browser: its list, a backup under way, the check before a restore, both languages."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyrage
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.backups import archives
from tests.dashboard.browsing import log_in, visit
from tests.dashboard.served_fleet import ServedFleet, api, serve_fleet
from tests.dashboard.serving import PASSWORD, VIEWER_PASSWORD
from tests.dashboard.test_buttons import said, toast
from wa_orchestrator.context import Context
from wa_orchestrator.domain.jobs import Job
from wa_orchestrator.domain.sessions.restore_outcome import RestoreOutcome
from wa_orchestrator.domain.stream_events import BackupEnded, EventType
from wa_orchestrator.orchestrator.api.backups import BackupRoutes
from wa_orchestrator.orchestrator.api.jobs import JobRoutes
from wa_orchestrator.orchestrator.backups import backup_files, prepared_restore
from wa_orchestrator.orchestrator.backups.backup_files import BackupNote
from wa_orchestrator.orchestrator.backups.prepared_restore import Plan
from wa_orchestrator.store import jobs
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.backups.runs import EndedRun, Run
from wa_orchestrator.store.jobs import JobRun
from wa_orchestrator.store.sessions import client_version
from wa_orchestrator.texts.catalogue import languages, texts

pytestmark = pytest.mark.browser
ID = "backup_2026-01-31"
Enter = Callable[..., Page]


def routers(context: Context) -> list[Any]:
    return [*api(context), BackupRoutes(context), JobRoutes(context)]


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return tmp_path / "backups"


@pytest.fixture
def served(redis_url: str, chromium: Browser, tmp_path: Path, backups: Path) -> Iterator[ServedFleet]:
    assert chromium.is_connected()
    places = {"data_dir": tmp_path / "data", "sessions_dir": tmp_path / "sessions", "backups_dir": backups}
    with serve_fleet(redis_url, routers, **places) as made:
        yield made


@pytest.fixture
def enter(served: ServedFleet, chromium: Browser) -> Iterator[Enter]:
    """Opens the page as somebody who reads a language."""
    contexts: list[BrowserContext] = []

    def entered(language: str, password: str = PASSWORD) -> Page:
        contexts.append(visit(chromium, served.address, language=language))
        page = log_in(contexts[-1], served.address, password)
        page.goto(f"{served.address}/backups")
        page.wait_for_selector("body[data-live]")
        return page

    yield entered
    for context in contexts:
        context.close()


@pytest.mark.parametrize("language", languages())
def test_a_backup_is_asked_for_and_followed_to_its_end(
    served: ServedFleet, enter: Enter, backups: Path, tmp_path: Path, language: str
) -> None:
    page = enter(language)
    expect(page.locator("#headline")).to_have_text(said(language, "backups.none.other"))
    page.locator("#backup-now button").click()
    expect(toast(page, language, "done.backup-create")).to_be_visible()
    expect(page.locator("#backup-now button")).to_be_disabled()

    at = served.do(lambda on: on.scripts.now_ms())
    run = Run("backup", ID, "sessions", 3, 12, "worker_4", "dashboard:Dana", at)
    served.do(lambda on: runs.report(on.scripts, run))
    expect(page.locator("#backup-run [role=progressbar]")).to_have_attribute("aria-valuenow", "3")
    expect(page.locator("#backup-run")).to_contain_text("Sales North")
    served.do(lambda on: runs.report(on.scripts, replace(run, done=12, session="", phase="writing")))
    expect(page.locator("#backup-run")).to_contain_text(texts(language)["backups.phase_writing"])

    archives.sound(backups / f"{ID}.zip", tmp_path / "made", "worker_4")
    failed = EndedRun("backup", "backup_2026-01-30", at - 90_000_000, at, 0, "schedule", "DISK_FULL")
    served.do(lambda on: runs.answer_request(on.scripts))
    served.do(lambda on: runs.end(on.scripts, failed))
    served.do(lambda on: runs.end(on.scripts, EndedRun("backup", ID, at, at + 5, 12, "dashboard:Dana")))
    served.do(lambda on: on.redis.xadd("events", {"type": "backup.done", "at": str(at), "backup": ID, "sessions": "1"}))
    expect(page.locator("#backup-run [role=progressbar]")).to_have_count(0)
    rows = page.locator("#backup-list tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("Dana")
    expect(rows.nth(1)).to_contain_text(texts(language)["backups.no_older"])
    later = EndedRun("backup", "backup_2999-01-30", at + 10**12, at + 10**12, 0, "schedule", "DISK_FULL")
    served.do(lambda on: runs.end(on.scripts, later))
    page.reload()
    expect(rows.nth(0)).to_contain_text(texts(language)["backups.intact"])
    path = backups / f"{ID}.zip"
    size = path.stat().st_size
    note = BackupNote(ID, path.name, size, at, "1", ("worker_4",), False, "", at, False, False, left_out=("worker_9",))
    backup_files.note_path(path).write_text(json.dumps(asdict(note)))
    page.reload()
    expect(page.locator("#backups-notice")).to_contain_text("Reminders")


@pytest.mark.parametrize("language", languages())
def test_a_restore_under_way_shows_which_session_it_is_at_what_is_left_and_how_it_ended_for_each(
    served: ServedFleet, enter: Enter, tmp_path: Path, language: str
) -> None:
    words = texts(language)
    plan = Plan("restore-a", ID, False, ("gone_1", "worker_4", "worker_5", "worker_6"), "dashboard:Dana", 1, "0")
    directory = tmp_path / "sessions" / ".restore" / plan.id
    directory.mkdir(parents=True)
    (directory / "plan.json").write_text(json.dumps(asdict(plan)))
    page = enter(language)
    rows = page.locator("#restore-sessions tbody tr")
    expect(rows).to_have_count(4)  # it waits for a backup
    expect(page.locator("#restore-sessions header")).to_contain_text(words["backups.restore_waits"])

    at = served.do(lambda on: on.scripts.now_ms())
    prepared_restore.note_outcome(directory, "gone_1", RestoreOutcome.PHONE_FULL)
    prepared_restore.note_outcome(directory, "worker_4", RestoreOutcome.RESTORED)
    run = Run("restore", ID, "restoring", 2, 4, "worker_5", "dashboard:Dana", at)
    served.do(lambda on: runs.report(on.scripts, run))
    expect(page.locator("#headline")).to_have_text(words["backups.restoring"].format(n=2, total=4))
    expect(page.locator("#backup-run [role=progressbar]")).to_have_attribute("aria-valuenow", "2")
    expect(page.locator("#backup-run header")).to_contain_text(ID)
    expect(page.locator("#backup-run header")).to_contain_text(words["backups.by"].format(who="Dana"))
    expect(page.locator("#backup-now")).to_contain_text(words["backups.running_restore"])
    served.do(lambda on: runs.note_trouble(on.scripts, "DISK_FULL"))
    expect(page.locator("#backup-run [role=status]")).to_contain_text(words["backups.why.DISK_FULL"])
    page.reload()  # whoever comes later sees the same
    expect(page.locator("#headline")).to_have_text(words["backups.restoring"].format(n=2, total=4))
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text(words["backups.stage_now"])
    expect(rows.nth(1)).to_contain_text(words["backups.stage_waits"])
    expect(rows.nth(2)).to_contain_text("gone_1")
    expect(rows.nth(2)).to_contain_text(words["restore_outcome.PHONE_FULL"])
    expect(rows.nth(3)).to_contain_text(words["restore_outcome.RESTORED"])

    outcomes = {"gone_1": "PHONE_FULL"} | dict.fromkeys(("worker_4", "worker_5", "worker_6"), "RESTORED")
    ended = EndedRun("restore", ID, at, at, 4, "dashboard:Dana", outcomes=outcomes)
    told = BackupEnded(ID, 4, incomplete=1)
    prepared_restore.finish(directory)
    served.do(lambda on: runs.end_restore(on.scripts, plan.id, ended, EventType.RESTORE_INCOMPLETE, told))
    expect(rows).to_have_count(0)
    result = page.locator("#backup-result")
    expect(result).to_contain_text(words["backups.restored_in_part"].format(n=3, total=4))
    expect(result.locator("header")).to_contain_text(ID)
    expect(result.locator("header")).to_contain_text("Dana")
    expect(result).to_contain_text(words["restore_outcome.PHONE_FULL"])


@pytest.mark.parametrize("language", languages())
def test_the_place_of_the_backups_stays_within_its_card(enter: Enter, tmp_path: Path, language: str) -> None:
    page = enter(language)
    place = page.locator("#backup-copies code").first
    expect(place).to_have_text(str(tmp_path / "backups"))
    assert place.evaluate("each => each.scrollWidth <= each.clientWidth")


def test_a_copy_that_is_missing_in_a_bucket_is_shown_with_its_backup(
    redis_url: str, chromium: Browser, tmp_path: Path, backups: Path
) -> None:
    path = archives.sound(backups / f"{ID}.zip", tmp_path / "made", "worker_4")
    note = BackupNote(ID, path.name, path.stat().st_size, 1, "1", ("worker_4",), False, "", 1, False, False)
    backup_files.note_path(path).write_text(json.dumps(asdict(note)))
    bucket = {
        "backup_s3_url": "https://store.example.com/backups",
        "backup_s3_access_key": "wa",
        "backup_s3_secret_key": "not-a-real-secret",
    }
    places = {"data_dir": tmp_path / "data", "backups_dir": backups} | bucket
    with serve_fleet(redis_url, routers, **places) as served, visit(chromium, served.address) as context:
        page = log_in(context, served.address, PASSWORD)
        page.goto(f"{served.address}/backups")
        expect(page.locator("#backup-list tbody tr")).to_contain_text(texts("en")["backups.second_missing"])


@pytest.mark.parametrize("language", languages())
def test_a_restore_shows_what_would_change_before_its_button_and_its_number_follows_the_choice(
    served: ServedFleet, enter: Enter, backups: Path, tmp_path: Path, language: str
) -> None:
    files = archives.contents(tmp_path / "a", "worker_4") | archives.contents(tmp_path / "b", "gone_1")
    state = archives.contents(tmp_path / "c", "worker_4")[archives.STATE]
    files[archives.STATE] = state + archives.contents(tmp_path / "d", "gone_1")[archives.STATE]
    entries = [("manifest.json", archives.manifest(files)), *files.items()]
    archives.write(backups / f"{ID}.zip", entries)  # type: ignore[arg-type]
    page = enter(language)
    page.locator("[data-open=restore]").click()
    dialog = page.locator("#restore")
    expect(dialog.locator(".changes")).to_contain_text("gone_1")
    count = int(dialog.locator("#restore-plan").get_attribute("data-count") or 0)
    assert count >= 1
    expect(dialog.locator("[data-restore]")).to_have_text(re.compile("|".join(forms(language, count))))
    expect(dialog).to_contain_text(texts(language)["backups.lost"])

    dialog.locator("[value=some]").check()
    for box in dialog.locator(".options [type=checkbox]").all():
        expect(box).to_be_checked()
    dialog.locator(".options [value=worker_4]").uncheck()
    expect(dialog.locator("#restore-plan")).to_have_attribute("data-count", "1")
    dialog.locator("[data-restore]").click()
    expect(toast(page, language, "done.backup-restore")).to_be_visible()
    (plan,) = (tmp_path / "sessions" / ".restore").glob("restore-*/plan.json")
    assert '"sessions": ["gone_1"]' in plan.read_text()


def forms(language: str, count: int) -> list[str]:
    return [texts(language)[f"backups.restore_n.{form}"].replace("{n}", str(count)) for form in ("one", "other")]


def test_a_damaged_backup_is_refused_in_the_dialog_and_nothing_can_be_pressed(
    served: ServedFleet, enter: Enter, backups: Path, tmp_path: Path
) -> None:
    path = archives.sound(backups / f"{ID}.zip", tmp_path / "made", "worker_4")
    path.write_bytes(path.read_bytes()[:-300])
    page = enter("en")
    page.locator("[data-open=restore]").click()
    expect(page.locator("#restore [data-error]")).to_contain_text("Nothing was changed")
    expect(page.locator("#restore [data-restore]")).to_be_disabled()


def test_an_encrypted_backup_asks_for_its_key_and_does_not_keep_it(
    served: ServedFleet, enter: Enter, backups: Path, tmp_path: Path
) -> None:
    key = pyrage.x25519.Identity.generate()
    plain = archives.sound(tmp_path / "plain.zip", tmp_path / "made", "gone_1")
    backups.mkdir()
    (backups / f"{ID}.zip.age").write_bytes(pyrage.encrypt(plain.read_bytes(), [key.to_public()]))
    page = enter("en")
    page.locator("[data-open=restore]").click()
    dialog = page.locator("#restore")
    dialog.locator("[data-check]").click()
    expect(dialog.locator("[data-error]")).to_be_visible()
    dialog.locator("[name=identity]").fill(str(key))
    dialog.locator("[data-check]").click()
    expect(dialog.locator("[data-restore]")).to_have_text("Restore 1 session")
    dialog.locator("[data-cancel]").click()
    page.locator("[data-open=restore]").click()
    expect(dialog.locator("[name=identity]")).to_have_value("")
    assert str(key) not in page.content()


def test_a_backup_is_downloaded_by_an_administrator_and_not_by_a_viewer(
    served: ServedFleet, enter: Enter, backups: Path, tmp_path: Path
) -> None:
    path = archives.sound(backups / f"{ID}.zip", tmp_path / "made", "worker_4")
    page = enter("en")
    with page.expect_download() as download:
        page.locator("#backup-list a[download]").click()
    assert Path(download.value.path()).read_bytes() == path.read_bytes()
    audit = served.do(lambda on: on.redis.xrevrange("audit", count=1))
    assert audit[0][1]["action"] == "backup.download"
    viewer = enter("en", VIEWER_PASSWORD)
    expect(viewer.locator("#backup-list tbody tr")).to_have_count(1)
    expect(viewer.locator("#backup-list a[download], [data-open=restore]")).to_have_count(0)
    assert viewer.request.get(f"{served.address}/backups/{ID}/file").status == 403


@pytest.mark.parametrize("language", languages())
def test_jobs_are_shown_failed_ones_first_and_one_is_run_by_hand(
    served: ServedFleet, enter: Enter, language: str
) -> None:
    failed = JobRun(1_700_000_000_000, 1_700_000_001_000, "OSError")
    served.do(lambda on: jobs.note(on.scripts, Job.TRASH, failed))
    page = enter(language)
    page.goto(f"{served.address}/jobs")
    expect(page.locator("#headline")).to_have_text(said(language, "jobs.some_failed.one"))
    rows = page.locator("#job-list tbody tr")
    expect(rows).to_have_count(len(Job))
    expect(rows.first).to_contain_text("OSError")
    full = JobRun(1_700_000_002_000, 1_700_000_003_000, "DISK_FULL")
    served.do(lambda on: jobs.note(on.scripts, Job.TRASH, full))
    page.reload()
    expect(rows.first).to_contain_text(said(language, "backups.why.DISK_FULL"))
    page.locator("#job-archive button").click()
    expect(toast(page, language, "done.job-run")).to_be_visible()
    expect(page.locator("#job-archive button")).to_be_disabled()
    assert list(served.do(lambda on: jobs.take_asked(on.scripts))) == [Job.ARCHIVE]


@pytest.mark.parametrize("language", languages())
def test_the_version_job_says_which_version_worked_and_who_waits(
    served: ServedFleet, enter: Enter, language: str
) -> None:
    page = enter(language)
    page.goto(f"{served.address}/jobs")
    known = page.locator("#job-version #client-version")
    expect(known).to_have_text(said(language, "jobs.version_unknown"))
    served.do(lambda on: client_version.record_login(on.scripts, "worker_1", 1_023_456_789))
    outdated = {"status": "failed", "reason": "CLIENT_OUTDATED", "wanted": "running"}
    served.do(lambda on: on.redis.hset("session:worker_1", mapping=outdated))
    page.reload()
    expect(known).to_contain_text("1023456789")
    expect(known).to_contain_text(said(language, "jobs.version_refused.one"))


@pytest.mark.parametrize("language", languages())
def test_a_job_that_never_ran_is_not_called_fine(served: ServedFleet, enter: Enter, language: str) -> None:
    page = enter(language)
    page.goto(f"{served.address}/jobs")
    expect(page.locator("#headline")).to_have_text(said(language, "jobs.none_ran"))
    fine = JobRun(1_700_000_000_000, 1_700_000_001_000)
    for job in (Job.ARCHIVE, Job.SUMMARY, Job.TRASH):
        served.do(partial(_note, job=job, run=fine))
    page.reload()
    expect(page.locator("#headline")).to_have_text(said(language, "jobs.some_new.other"))
    served.do(partial(_note, job=Job.TRASH, run=JobRun(1_700_000_002_000, 1_700_000_003_000, "OSError")))
    page.reload()
    expect(page.locator("#headline")).to_contain_text(re.compile(r"^2\b"))


async def _note(on: Context, *, job: Job, run: JobRun) -> None:
    await jobs.note(on.scripts, job, run)
