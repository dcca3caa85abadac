"""Routes of backups: list, create, restore."""

import asyncio
from datetime import datetime, time
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from fastapi import Path
from fastapi.responses import FileResponse
from pydantic import Field, SecretStr

from wa_orchestrator import audit_log
from wa_orchestrator.context import Context
from wa_orchestrator.domain import backup_schedule
from wa_orchestrator.domain.sessions.restore_outcome import RestoreOutcome
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.sessions.reads import SessionId
from wa_orchestrator.orchestrator.backups import backup_files, prepared_restore
from wa_orchestrator.orchestrator.backups.backup_files import BackupNote
from wa_orchestrator.orchestrator.backups.prepared_restore import Changes, Plan, Staged
from wa_orchestrator.orchestrator.backups.restore_forecast import with_forecast
from wa_orchestrator.store import records
from wa_orchestrator.store.backups import runs, state_dump
from wa_orchestrator.store.backups.runs import EndedRun
from wa_orchestrator.texts import catalogue
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import AdminCaller, Caller, ReadCaller
from wa_orchestrator.web.ids import PRINTABLE
from wa_orchestrator.web.models import OptionalText, OptionalTimestamp, RequestModel, ResponseModel, Timestamp
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_BackupId = Annotated[str, Path(pattern=PRINTABLE, max_length=80, examples=["backup_2026-01-31"])]


class BackupView(ResponseModel):
    """A backup that can be restored."""

    id: str = Field(examples=["backup_2026-01-31"])
    file: str = Field(description="Its name in BACKUPS_DIR.")
    bytes: int
    created_at: OptionalTimestamp
    sessions: list[str] = Field(description="Empty for a file that was brought here without its note.")
    encrypted: bool = Field(description="A restore needs the secret key.")
    verified_at: OptionalTimestamp = Field(description="When it was read back whole; null if it was brought here.")
    version: OptionalText = Field(description="The version that made it.")
    sha256: OptionalText
    has_secrets: bool = Field(description="It contains the generated secrets; only encrypted ones do.")
    needs_auth_key: bool = Field(description="Its credentials can be used only with the AUTH_KEY they were made with.")
    has_history: bool = Field(description="It contains the history on disk: messages and events that had left Redis.")
    left_out: list[str] = Field(
        [], description="Sessions that are not in it, because their credentials are missing or cannot be read."
    )
    copied: bool = Field(description="Its second copies are in BACKUP_COPY_DIR and BACKUP_S3_URL, where set.")


class RunView(ResponseModel):
    """A backup or restore under way."""

    kind: str = Field(examples=["backup", "restore"])
    id: str
    phase: str = Field(
        examples=["sessions"],
        description="`sessions`, `redis`, `history`, `writing`, `copying` of a backup; `restoring`, `starting` of a "
        "restore.",
    )
    done: int = Field(description="Number of sessions that are done.")
    total: int
    session: OptionalText = Field(description="The one it is at.")
    by: OptionalText
    began_at: OptionalTimestamp
    error: OptionalText = Field(
        description="The code of what stops a restore now. It is tried again and goes on once that is gone."
    )


class SessionOutcomeView(ResponseModel):
    """What became of one session of a restore."""

    session_id: str
    outcome: RestoreOutcome
    text: str = Field(description="The outcome for a person, with what to do.")


class EndedRunView(ResponseModel):
    """A backup or restore that ended."""

    kind: str
    id: str
    began_at: OptionalTimestamp
    ended_at: OptionalTimestamp
    sessions: int
    by: OptionalText
    error: OptionalText = Field(description="The code of what failed; null if it succeeded.")
    text: OptionalText
    messages: dict[str, int] = Field(
        description="After a restore of everything: how many messages that waited in the backup are `sent`, `unknown` "
        "(they may have been sent before, and are not sent again by themselves), `waiting`, or `held` for a person."
    )
    complete: bool = Field(description="It did not fail, and every session of a restore came back as it was.")
    outcomes: list[SessionOutcomeView] = Field(description="Of a restore: its sessions, the incomplete ones first.")


class BackupsResponse(ResponseModel):
    """All backups, the newest first, what runs, and how the latest runs ended."""

    backups: list[BackupView]
    running: RunView | None
    requested: bool = Field(description="A backup was asked for and begins at once.")
    latest: list[EndedRunView]
    next_at: Timestamp = Field(description="When the next daily backup is made.")
    keep: int = Field(description="Number of backups that are kept.")
    encrypted: bool = Field(description="New ones are encrypted.")
    copy_dir: OptionalText = Field(description="The directory where second copies go.")
    copy_url: OptionalText = Field(description="The bucket where second copies go.")


class BackupRequested(ResponseModel):
    """The backup begins within a second; `GET /api/v1/backups` and the event stream tell how far it is."""

    requested: Literal[True] = True
    running: RunView | None = Field(description="What runs now and has to end first.")


class RestoreBody(RequestModel):
    """What to restore, and how. Without a body: everything."""

    sessions: list[SessionId] | None = Field(None, max_length=10_000, description="Only these. Default: all.")
    identity: SecretStr | None = Field(None, max_length=20_000, description="The secret key, for an encrypted backup.")
    dry_run: bool = Field(False, description="Check the backup and say what would change; change nothing.")
    accept_older: bool = Field(
        False,
        description="Sessions that were online after the backup lose chat keys: messages since then may be unreadable "
        "until WhatsApp sends them again. This accepts it.",
    )


class ChangesView(ResponseModel):
    """What a restore does with each session."""

    returns: list[str] = Field(description="They do not exist now.")
    goes_back: list[str] = Field(
        description="They exist; their credentials are replaced, those of now go to the trash."
    )
    kept: list[str] = Field(description="They were linked again after the backup and stay as they are.")
    untouched: list[str] = Field(description="They are not in the backup, or were not chosen.")
    older: list[str] = Field(description="Of those that go back: they were online after the backup.")
    no_room: list[str] = Field(
        description="Of those that return: their proxy has no free slot now, or is gone. They wait for another one."
    )
    phone_full: list[str] = Field(
        description="They do not exist and do not return: their phones have MAX_SESSIONS_PER_PHONE sessions. They are "
        "tried all the same, should one of those be deleted meanwhile."
    )


class RestoreResponse(ResponseModel):
    """The backup was read whole and is sound."""

    backup: str
    created_at: OptionalTimestamp
    started: bool = Field(description="False for a dry run: nothing was changed.")
    whole: bool = Field(description="The installation was empty: queues, keys, webhooks and settings return too.")
    changes: ChangesView


class BackupFile(FileResponse):
    """An archive, as it is in BACKUPS_DIR."""

    media_type = "application/octet-stream"


class BackupRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/backups", "backups")
        restore = responses(
            NO_SUCH_BACKUP=404, NOT_IN_BACKUP=404, BACKUP_OLDER=409, RESTORE_RUNNING=409, BACKUP_DAMAGED=422,
            BACKUP_UNSAFE=422, BACKUP_TOO_LARGE=422, BACKUP_NEWER=422, BACKUP_KEY_NEEDED=422, BACKUP_KEY_WRONG=422,
            BACKUP_AUTH_KEY=422, BACKUP_CREDENTIALS=422, DISK_FULL=507,
        )  # fmt: skip
        self.get("")(self.list_backups)
        self.get("/download/{backup_id}", response_class=BackupFile, responses=responses(NO_SUCH_BACKUP=404))(
            self.download_backup
        )
        self.post("/create", status_code=202)(self.create_backup)
        self.post("/restore/{backup_id}", status_code=202, responses=restore)(self.restore_backup)

    async def list_backups(self, _caller: ReadCaller) -> BackupsResponse:
        """List backups, and what runs."""
        settings = self._settings
        zone = ZoneInfo(settings.timezone)
        now = datetime.fromtimestamp(await self._scripts.now_ms() / 1000, tz=zone)
        upcoming = backup_schedule.next_run(now, time.fromisoformat(settings.backup_time), zone)
        return BackupsResponse(
            backups=[BackupView.of(each) for each in await asyncio.to_thread(backup_files.listed, settings)],
            running=await self._running(),
            requested=await runs.requested(self._scripts) is not None,
            latest=[_ended(each, settings.language) for each in await runs.latest(self._scripts)],
            next_at=iso(round(upcoming.timestamp() * 1000)) or "",
            keep=settings.max_backups,
            encrypted=settings.backup_recipient is not None,
            copy_dir=str(settings.backup_copy_dir or ""),
            copy_url=settings.backup_s3_url or "",
        )

    async def _running(self) -> RunView | None:
        run = await runs.current(self._scripts)
        return None if run is None else RunView.of(run)

    async def download_backup(self, backup_id: _BackupId, caller: AdminCaller) -> BackupFile:
        """Download a backup. Who has an unencrypted one can act as every account in it."""
        return await backup_file(self._context, caller, backup_id)

    async def create_backup(self, caller: AdminCaller) -> BackupRequested:
        """Make a backup now, without stopping anyone. Asking twice makes one."""
        await runs.request(self._scripts, caller.key_id)
        await self._audit(caller, "backup.create", "")
        return BackupRequested(running=await self._running())

    async def restore_backup(
        self, backup_id: _BackupId, caller: AdminCaller, body: RestoreBody | None = None
    ) -> RestoreResponse:
        """Check a backup whole, then restore it: everything into an empty installation, else its sessions.

        Anything wrong with the backup refuses it, and nothing is changed. Sessions need no new scan.
        """
        wanted = body or RestoreBody.model_validate({})
        note = await asyncio.to_thread(backup_files.find, self._settings, backup_id)
        if await asyncio.to_thread(lambda: any(prepared_restore.decided(self._settings))):
            raise Refused("RESTORE_RUNNING", "A restore is being carried out. Wait until it has ended.", 409)
        secret = wanted.identity.get_secret_value() if wanted.identity else None
        staged = await asyncio.to_thread(prepared_restore.stage, self._settings, note, secret)
        try:
            return await self._decide(note, staged, wanted, caller)
        finally:
            await asyncio.to_thread(staged.discard)  # once decided it has another name

    async def _decide(self, note: BackupNote, staged: Staged, wanted: RestoreBody, caller: Caller) -> RestoreResponse:
        whole = wanted.sessions is None and await state_dump.is_empty(self._scripts)
        current = await records.sessions(self._scripts)
        changes = prepared_restore.compare(staged, current, wanted.sessions)
        if not whole:
            changes = await with_forecast(self._context, staged.saved, changes)
        answer = RestoreResponse(
            backup=note.id,
            created_at=iso(staged.manifest.created_at),
            started=not wanted.dry_run,
            whole=whole,
            changes=ChangesView.of(changes),
        )
        if wanted.dry_run:
            return answer
        if changes.older and not wanted.accept_older:
            raise _older(changes)
        restored = (*changes.returns, *changes.goes_back, *changes.phone_full)
        now = await self._scripts.now_ms()
        plan = Plan(
            prepared_restore.plan_id(staged), note.id, whole, restored, caller.key_id, now, staged.manifest.cursor
        )
        await self._audit(caller, "backup.restore", note.id, sessions=len(restored), whole=whole)
        await asyncio.to_thread(prepared_restore.commit, staged, plan)
        return answer


def _ended(run: EndedRun, language: str) -> EndedRunView:
    ordered = sorted(run.outcomes.items(), key=lambda each: (each[1] == RestoreOutcome.RESTORED, each[0]))
    views = [
        SessionOutcomeView(
            session_id=session_id, outcome=RestoreOutcome(why), text=catalogue.text(language, f"restore_outcome.{why}")
        )
        for session_id, why in ordered
    ]
    return EndedRunView.of(run, complete=not run.error and not run.incomplete, outcomes=views)


async def backup_file(context: Context, caller: Caller, backup_id: str) -> BackupFile:
    """Return the file of a backup, and record who fetched it. Raises `Refused` if there is none."""
    note = await asyncio.to_thread(backup_files.find, context.settings, backup_id)
    await audit_log.record(context, caller.key_id, caller.name, "backup.download", note.id)
    path = backup_files.path_of(context.settings, note)
    return BackupFile(path, filename=note.file)


def _older(changes: Changes) -> Refused:
    text = (
        f"{len(changes.older)} sessions were online after this backup. Their chat keys go back: messages since then "
        'may be unreadable until WhatsApp sends them again. To restore all the same, send {"acceptOlder": true}.'
    )
    return Refused("BACKUP_OLDER", text, 409, sessions=list(changes.older))
