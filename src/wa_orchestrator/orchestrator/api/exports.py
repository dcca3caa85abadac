"""Routes `/api/v1/exports`: messages, sessions, opt-outs and the audit log as files."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import Query, Response
from pydantic import Field

from wa_orchestrator import audit_log
from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.messages import message_search
from wa_orchestrator.messages.session_pace import trust_of
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import AdminCaller, Caller, LimitedReader, ReadCaller
from wa_orchestrator.web.exported_rows import ExportedFile, FileFormat, Row, exported
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

MESSAGES: Final = (
    "messageId", "acceptedAt", "to", "phone", "sessionId", "status", "reason", "kind", "text", "reference", "batchId",
    "sentAt", "deliveredAt", "readAt",
)  # fmt: skip
SESSIONS: Final = (
    "sessionId", "label", "tags", "phone", "status", "reason", "trust", "proxyId", "createdAt", "firstConnectedAt",
    "connectedAt",
)  # fmt: skip
OPT_OUTS: Final = ("phone", "lid", "at", "word", "via", "onlyFrom")
AUDIT: Final = ("number", "at", "by", "name", "action", "target", "details")
Format = Annotated[FileFormat, Query(alias="format", description="CSV for spreadsheets, or JSON lines.")]


class MessageExport(RequestModel):
    """Which messages; without filters: all that are kept, the newest first."""

    format: FileFormat = FileFormat.CSV
    session_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    status: MessageStatus | None = None
    batch_id: Annotated[str, Field(pattern=r"^b_[0-9a-f]{18}$")] | None = None
    reference: Annotated[str, Field(max_length=200)] | None = None


class ExportRoutes(RouteGroup):
    """Routes of files. The audit log keeps who took one."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/exports", "exports")
        away = responses(ARCHIVE_ELSEWHERE=503)
        self.get("/messages", response_class=ExportedFile, responses=away)(self.export_messages)
        self.get("/sessions", response_class=ExportedFile)(self.export_sessions)
        self.get("/opt-outs", response_class=ExportedFile)(self.export_opt_outs)
        self.get("/audit", response_class=ExportedFile, name="export_audit_file")(self.export_audit)

    async def export_messages(self, caller: LimitedReader, search: Annotated[MessageExport, Query()]) -> Response:
        """Export messages, the newest first. A key that is limited to some sessions gets theirs."""
        return await messages_file(self._context, caller, search)

    async def export_sessions(self, caller: LimitedReader, form: Format = FileFormat.CSV) -> Response:
        """Export sessions. A key that is limited to some sessions gets those."""
        return await sessions_file(self._context, caller, form)

    async def export_opt_outs(self, caller: ReadCaller, form: Format = FileFormat.CSV) -> Response:
        """Export the opt-out list."""
        return await opt_outs_file(self._context, caller, form)

    async def export_audit(self, caller: AdminCaller, form: Format = FileFormat.CSV) -> Response:
        """Export the audit log, the oldest first. `/api/v1/audit/export` has it line by line, to verify it."""
        return await audit_file(self._context, caller, form)


async def messages_file(context: Context, caller: Caller, search: MessageExport) -> Response:
    """Return messages as a file."""
    await message_search.require_complete(context.scripts, context.archive)
    filters = Filters(
        session_id=search.session_id,
        statuses=[search.status] if search.status else (),
        batch_id=search.batch_id,
        reference=search.reference,
    )
    await _note(context, caller, "messages", search.format)
    return exported(_messages(context, caller, filters), MESSAGES, search.format, "messages")


async def sessions_file(context: Context, caller: Caller, form: FileFormat) -> Response:
    """Return the sessions that a caller reaches as a file."""
    await _note(context, caller, "sessions", form)
    return exported(_sessions(context, caller), SESSIONS, form, "sessions")


async def opt_outs_file(context: Context, caller: Caller, form: FileFormat) -> Response:
    """Return the opt-out list as a file."""
    await _note(context, caller, "opt-outs", form)
    return exported(_opt_outs(context), OPT_OUTS, form, "opt-outs")


async def audit_file(context: Context, caller: Caller, form: FileFormat) -> Response:
    """Return the audit log as a file; that it was taken is its last line."""
    await _note(context, caller, "audit", form)
    return exported(_audit_entries(context), AUDIT, form, "audit")


async def _note(context: Context, caller: Caller, what: str, form: FileFormat) -> None:
    await audit_log.record(context, caller.key_id, caller.name, "data.export", what, format=str(form))


async def _messages(context: Context, caller: Caller, filters: Filters) -> AsyncIterator[Row]:
    among = await context.session_labels.reached(caller.reach)
    async for message in message_search.every(context.scripts, context.archive, filters, among=among):
        yield _message_row(message)


def _message_row(message: Message) -> Row:
    content = json.loads(message.body) if message.body else {}
    text = content.get("text") or content.get("caption") or ""
    return dict(
        zip(
            MESSAGES,
            (
                message.id, iso(message.accepted_at), message.to, message.phone, message.session, str(message.status),
                message.reason or None, message.kind, text or None, message.reference or None, message.batch or None,
                iso(message.sent_at), iso(message.delivered_at), iso(message.read_at),
            ),
            strict=True,
        )
    )  # fmt: skip


async def _sessions(context: Context, caller: Caller) -> AsyncIterator[Row]:
    now_ms = await context.scripts.now_ms()
    reaches = await context.session_labels.filter_for(caller.reach)
    for session in await records.sessions(context.scripts):
        if reaches(session.id):
            yield _session_row(session, now_ms, proxy=None if caller.is_limited else session.proxy or None)


def _session_row(session: Session, now_ms: int, proxy: str | None) -> Row:
    return dict(
        zip(
            SESSIONS,
            (
                session.id, session.label or None, ",".join(session.tags) or None, session.phone or None,
                str(session.status), session.reason and str(session.reason), str(trust_of(session, now_ms)), proxy,
                iso(session.created_at), iso(session.first_connected_at), iso(session.connected_at),
            ),
            strict=True,
        )
    )  # fmt: skip


async def _opt_outs(context: Context) -> AsyncIterator[Row]:
    for each in await contacts.opt_outs(context.scripts):
        lid = each.recipient.removeprefix("lid:") if each.recipient.startswith("lid:") else None
        phone = None if lid else each.recipient
        facts = {"at": iso(each.at_ms), "word": each.word or None, "via": each.via or None}
        yield {"phone": phone, "lid": lid, **facts, "onlyFrom": each.only_from or None}


async def _audit_entries(context: Context) -> AsyncIterator[Row]:
    for line in audit_log.lines(audit_log.path_of(context)):
        entry = json.loads(line)
        shown = {name: entry.get(name) for name in AUDIT}
        yield shown | {"details": json.dumps(entry.get("details"), ensure_ascii=False)}
