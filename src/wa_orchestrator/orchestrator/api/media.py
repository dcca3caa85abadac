"""Routes of files that people sent, or were sent, and of the small pictures that came with messages."""

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Final

from fastapi import Path

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import message_lookup, message_search, received_files, uploads
from wa_orchestrator.orchestrator.api.message_acts import AnyMessageId
from wa_orchestrator.orchestrator.messages.media_fetch import MediaFetch
from wa_orchestrator.store import records
from wa_orchestrator.store.conversations import conversation_records
from wa_orchestrator.store.messages import incoming_messages
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.web.auth import Caller, LimitedReader
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup
from wa_orchestrator.web.stored_file import StoredFileResponse

_ERRORS = responses(
    NO_SUCH_MESSAGE=404, NO_MEDIA=404, MEDIA_EXPIRED=410, MEDIA_TOO_LARGE=413, MEDIA_CORRUPT=422, MEDIA_INVALID=422,
    SESSION_NOT_CONNECTED=503, MEDIA_BUSY=503, MEDIA_UNREACHABLE=503, ARCHIVE_ELSEWHERE=503,
    FILE_STORE_UNAVAILABLE=503, DISK_FULL=507,
)  # fmt: skip
_THUMBNAIL_ERRORS = responses(NO_SUCH_MESSAGE=404, NO_THUMBNAIL=404, ARCHIVE_ELSEWHERE=503, FILE_STORE_UNAVAILABLE=503)
_JPEG: Final = "image/jpeg"
#: Types that no browser runs. The sender chooses the type; a page of his would run with the rights of who opens it.
_HARMLESS: Final = frozenset(
    {
        "image/jpeg", "image/png", "image/webp", "image/gif", "video/mp4", "video/3gpp", "video/quicktime", "audio/ogg",
        "audio/mpeg", "audio/mp4", "audio/aac", "audio/amr", "audio/wav", "application/pdf",
    }
)  # fmt: skip
_HEADERS: Final = {
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}
IncomingId = Annotated[
    str, Path(pattern=r"^i_[A-Za-z0-9_-]{4,200}$", description="`messageId` of the event.", examples=["i_dzEgM0EwMA"])
]


class ReceivedFile(StoredFileResponse):
    """A file that somebody sent; its type is `application/octet-stream` where a browser could run it."""

    media_type = "application/octet-stream"


class MediaRoutes(RouteGroup):
    """Routes `/api/v1/messages/{message_id}/media` and `/api/v1/messages/{message_id}/thumbnail`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/messages", "messages")
        self._fetch = MediaFetch(context)
        self.get("/{message_id}/media", response_class=ReceivedFile, responses=_ERRORS)(self.get_media)
        self.get("/{message_id}/thumbnail", response_class=ReceivedFile, responses=_THUMBNAIL_ERRORS)(
            self.get_thumbnail
        )

    async def get_media(self, message_id: AnyMessageId, caller: LimitedReader) -> ReceivedFile:
        """Download the file of a message that came in, or that was sent from here.

        One that came in is fetched from WhatsApp when the server does not have it, which can take a minute.
        """
        if not message_id.startswith("i_"):
            return await self._sent_file(message_id, caller)
        session, whatsapp_id, fields = await self._found(message_id, caller)
        if "media" not in fields:
            raise Refused("NO_MEDIA", "The message has no file.", 404, messageId=message_id)
        file = await self._fetch.file(message_id, session, whatsapp_id)
        claimed: dict[str, Any] = json.loads(fields["media"])
        kind, name = served_type(claimed), _filename(claimed)
        return ReceivedFile(file.size, file.read, media_type=kind, filename=name, headers=_HEADERS)

    async def get_thumbnail(self, message_id: IncomingId, caller: LimitedReader) -> ReceivedFile:
        """Download the small picture that came with an incoming message, where `hasThumbnail` says so.

        It was checked to be a JPEG, and its type is always `image/jpeg`.
        """
        await self._found(message_id, caller)
        file = await received_files.find_thumbnail(self._settings, message_id)
        if file is None:
            text = "The message came without a small picture, or it is not kept any more."
            raise Refused("NO_THUMBNAIL", text, 404, messageId=message_id)
        return ReceivedFile(file.size, file.read, media_type=_JPEG, filename="thumbnail.jpg", headers=_HEADERS)

    async def _sent_file(self, message_id: str, caller: Caller) -> ReceivedFile:
        both = (self._scripts, self._context.archive)
        reaches = await self._context.session_labels.account_filter_for(caller.reach)
        sent = await message_lookup.message(*both, message_id)
        if sent is None or not reaches(sent.session):
            await message_search.require_complete(*both, message_search.MAY_BE_THERE, messageId=message_id)
            raise Refused("NO_SUCH_MESSAGE", "There is no such message; it was erased.", 404, messageId=message_id)
        media: dict[str, Any] = json.loads(sent.body or "{}").get("media") or {}
        is_shown = not sent.deleted_at and not media.get("viewOnce")
        upload = await uploads.open(self._settings, str(media.get("upload") or "")) if is_shown else None
        if upload is None:
            raise Refused("NO_MEDIA", "The message has no file, or it is not kept any more.", 404, messageId=message_id)
        named = {"mimetype": upload.mimetype, "filename": media.get("filename") or upload.filename}
        kind, name = served_type(named), _filename(named)
        return ReceivedFile(upload.size, upload.read, media_type=kind, filename=name, headers=_HEADERS)

    async def _found(self, message_id: str, caller: Caller) -> tuple[str, str, Mapping[str, str]]:
        both, name = (self._scripts, self._context.archive), incoming.parse_id(message_id)
        reaches = await self._context.session_labels.account_filter_for(caller.reach)
        fields = await message_lookup.incoming(*both, *name) if name else None
        if name and fields:
            holder = await self._holder(*name, fields)
            if reaches(name[0]) or reaches(holder):
                return holder, name[1], fields
        await message_search.require_complete(*both, message_search.MAY_BE_THERE, messageId=message_id)
        text = "There is no such incoming message; it may have been erased."
        raise Refused("NO_SUCH_MESSAGE", text, 404, messageId=message_id)

    async def _holder(self, session: str, whatsapp_id: str, fields: Mapping[str, str]) -> str:
        """Return the session whose worker can fetch a file: the one that reported it, or once that is deleted another
        of its account that got it too.
        """
        if await records.session(self._scripts, session):
            return session
        chat = IncomingCopy(session, whatsapp_id, fields, 0).chat
        known = await conversation_records.find(self._scripts, session, chat)
        siblings = await records.sessions_of_phone(self._scripts, known.our_phone) if known else []
        names = [(each.id, whatsapp_id) for each in siblings]
        copies = await incoming_messages.fields_of_each(self._scripts, names)
        return next((each.id for each, copy in zip(siblings, copies, strict=True) if copy), session)


def served_type(claimed: Mapping[str, Any]) -> str:
    """Return the type that a file is served as."""
    bare = str(claimed.get("mimetype", "")).partition(";")[0].strip().lower()
    return bare if bare in _HARMLESS else "application/octet-stream"


def _filename(claimed: Mapping[str, Any]) -> str:
    """Return the sender's name for a file, without folders and control characters."""
    name = PurePath(str(claimed.get("filename", "")).replace("\\", "/")).name
    return "".join(letter for letter in name if letter.isprintable()) or "file"
