"""Fetches files of incoming messages through the worker of their session, which has their keys and its own proxy."""

import asyncio
from http import HTTPStatus
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.errors import OrchestratorError, Refused, Unavailable
from wa_orchestrator.messages import message_lookup, message_search, received_files
from wa_orchestrator.messages.storage.contract import StoredFile
from wa_orchestrator.store import records
from wa_orchestrator.store.sessions import commands

#: A worker needs up to 100 s for a slow download, and 30 s more to have the phone upload the file again.
TIMEOUT_S: Final = 150.0
#: Files that are fetched at once, over all sessions.
_MOST: Final = 32
_MIB: Final = 1024 * 1024
_SWEEP_S: Final = 300.0
_CHECKED_AT_ONCE: Final = 200
#: What a worker answers where there is no file to be had, and what that means to a caller.
_REFUSALS: Final[dict[str, tuple[str, str, int]]] = {
    code: (code, text, status)
    for code, text, status in (
        ("MEDIA_EXPIRED", "WhatsApp has dropped the file, and the phone does not have it any more.", HTTPStatus.GONE),
        ("MEDIA_CORRUPT", "The file is not the one that its sender has encrypted. Ask them to send it again.", 422),
        ("MEDIA_INVALID", "The message does not say where its file is. Ask its sender to send it again.", 422),
        ("MEDIA_TOO_LARGE", "The file is longer than MEDIA_MAX_MB.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ("DISK_FULL", "The server's disk is nearly full. Tell its operator.", HTTPStatus.INSUFFICIENT_STORAGE),
    )
} | {
    # The worker's own list is shorter than ours, and a session that was linked again begins a new one.
    "UNKNOWN_MESSAGE": ("MEDIA_EXPIRED", "The session has no key to this file any more.", HTTPStatus.GONE)
}

log = structlog.get_logger(__name__)


class MediaFetch:
    """Fetches each file once, however many callers ask for it at the same time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._running: dict[str, asyncio.Task[StoredFile]] = {}

    async def file(self, message_id: str, session_id: str, whatsapp_id: str) -> StoredFile:
        """Return the file of a message, fetched if it is not here. Raises an `OrchestratorError` that says why not."""
        if found := await received_files.find(self._context.settings, message_id):
            return found
        task = self._running.get(message_id)
        if task is None:
            if len(self._running) >= _MOST:
                raise Unavailable("MEDIA_BUSY", "Many files are being fetched at the moment. Try again in a while.")
            task = asyncio.create_task(self._fetch(message_id, session_id, whatsapp_id))
            self._running[message_id] = task
            task.add_done_callback(lambda ended: self._ended(message_id, ended))
        return await asyncio.shield(task)  # others may wait for it too

    def _ended(self, message_id: str, task: asyncio.Task[StoredFile]) -> None:
        del self._running[message_id]
        if not task.cancelled():
            task.exception()  # seen, also where nobody waits any more

    async def _fetch(self, message_id: str, session_id: str, whatsapp_id: str) -> StoredFile:
        settings = self._context.settings
        session = await records.session(self._context.scripts, session_id)
        if session is None or session.status != State.CONNECTED:
            text = "The session that received the message is not connected. Try again when it is."
            raise Unavailable("SESSION_NOT_CONNECTED", text)
        asked = {"whatsappId": whatsapp_id, "maxBytes": str(settings.media_max_mb * _MIB)}
        answer = await commands.run(self._context.scripts, session_id, "fetch_media", timeout_s=TIMEOUT_S, **asked)
        if answer is None or not answer.get("ok"):
            raise refusal(str(answer.get("code")) if answer else "")
        try:
            # By the command's id: a worker that was taken over must not name the file of another session.
            kept = await received_files.keep(settings, answer["id"], message_id)
        except FileNotFoundError:  # it says that it has sent one
            raise refusal("") from None
        log.info("media.fetched", session=session_id, size=kept.size)
        return kept


def refusal(code: str) -> OrchestratorError:
    """Return the error for a worker's code, '' where it did not answer."""
    if code in _REFUSALS:
        return Refused(*_REFUSALS[code])
    return Unavailable("MEDIA_UNREACHABLE", "The file could not be fetched from WhatsApp. Try again in a while.")


async def sweep(context: Context) -> float:
    """Remove files that are too old, and those of messages that were erased. Return the seconds until the next time.

    A process that cannot read the archive does not know which messages were erased, and leaves those to one that does.
    """
    both, erased = (context.scripts, context.archive), set[str]()
    if await message_search.is_complete(*both):
        here = await received_files.names(context.settings)
        for first in range(0, len(here), _CHECKED_AT_ONCE):
            named = {each: incoming.parse_id(each) for each in here[first : first + _CHECKED_AT_ONCE]}
            gone = await message_lookup.missing_incoming(*both, [name for name in named.values() if name])
            erased |= {message_id for message_id, name in named.items() if name is None or name in gone}
    removed = await received_files.sweep(context.settings, erased)
    if removed:
        log.info("media.removed", files=removed)
    return _SWEEP_S
