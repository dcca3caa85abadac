"""Loads the content of a message: a text, a location, or a file that is fetched and stored."""

import json
import mimetypes
import ssl
from json.encoder import encode_basestring
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx

from wa_orchestrator import outbound_http
from wa_orchestrator.domain import content
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.request_models import MediaBody, SendBody
from wa_orchestrator.messages import uploads
from wa_orchestrator.messages.uploads import Upload
from wa_orchestrator.settings import Settings
from wa_orchestrator.web.auth import Caller

FETCH_S: Final = 20.0

Content = tuple[str, str]
"""The kind of a message and its body as JSON, as stored in its record."""


class ContentLoader:
    """Loads contents. `resolve` and `trust` are for tests: name resolution and certificates of their own."""

    def __init__(
        self,
        settings: Settings,
        *,
        resolve: outbound_http.Resolve = outbound_http.resolve_name,
        trust: ssl.SSLContext | bool = True,
    ) -> None:
        self._settings = settings
        self._resolve = resolve
        self._trust = trust

    def inline(self, send: SendBody) -> Content | None:
        """Return the content of a message without a file; None for one with a file."""
        text = send.message if send.message is not None else send.text
        if text is not None:
            # Same as `_stored(content.Text(text))`, ten times as fast: nearly every message is a text.
            return "text", f'{{"kind": "text", "text": {encode_basestring(text)}}}'
        if send.location is not None:
            return _stored(content.Location(**send.location.model_dump()))
        return None

    async def fetch(self, send: SendBody, caller: Caller) -> Content:
        """Return the content of a message with a file, which is stored when this returns, for the sender's API key.

        A caller with a limited reach may send the files only that it has uploaded itself.
        """
        media = send.media
        if media is None:
            raise Refused("VALIDATION_FAILED", "There is no file to send.", 422)
        owner = caller.key_id
        upload = uploads.open(self._settings, media.upload) if media.upload else await self._download(media, owner)
        if upload is None or (media.upload and caller.is_limited and upload.owner != owner):
            raise Refused("NO_SUCH_UPLOAD", "There is no such upload, or it has expired. Upload the file again.", 422)
        mimetype = media.mimetype or upload.mimetype
        uploads.check_type(mimetype)
        kind = content.MediaKind(media.kind or uploads.kind_of(mimetype))
        if upload.size > uploads.LARGEST[kind]:
            raise Refused("FILE_TOO_LARGE", f"A file of this kind has at most {uploads.LARGEST[kind]} bytes.", 413)
        waits_s = max(0, (send.send_at or 0) / 1000 - upload.path.stat().st_mtime)
        uploads.keep_for(self._settings, upload.id, uploads.USED_S + waits_s)
        filename = media.filename or upload.filename or None
        return _stored(content.Media(kind, mimetype, upload=upload.id, filename=filename, caption=media.caption))

    async def _download(self, media: MediaBody, api_key: str) -> Upload:
        url = str(media.url)
        target = await outbound_http.check(url, allow_private=self._settings.allow_private_urls, resolve=self._resolve)
        try:
            async with outbound_http.request("GET", target, timeout_s=FETCH_S, trust=self._trust) as response:
                if response.status_code != httpx.codes.OK:
                    raise _unreachable(f"It responded with {response.status_code}; redirects are not followed.")
                guessed = mimetypes.guess_type(urlsplit(url).path)[0] or "application/octet-stream"
                mimetype = media.mimetype or response.headers.get("content-type") or guessed
                filename, chunks = media.filename or _name_in(url), outbound_http.raw_chunks(response)
                return await uploads.save(self._settings, chunks, mimetype=mimetype, filename=filename, owner=api_key)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as error:
            raise _unreachable("The connection failed.") from error


def _stored(carried: content.Content) -> Content:
    encoded = content.encode(carried)
    return str(encoded["kind"]), json.dumps(encoded, ensure_ascii=False)


def _unreachable(why: str) -> Refused:
    return Refused("MEDIA_UNREACHABLE", f"The file at this address cannot be fetched. {why} Upload it instead.", 422)


def _name_in(url: str) -> str:
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return "".join(sign for sign in name if sign.isprintable())[:255]
