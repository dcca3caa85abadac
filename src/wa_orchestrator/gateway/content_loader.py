"""Loads the content of a message: a text, a location, or a file that is fetched and stored."""

import json
import mimetypes
import ssl
import time
from dataclasses import replace
from json.encoder import encode_basestring
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx

from wa_orchestrator import outbound_http
from wa_orchestrator.domain import recipient
from wa_orchestrator.domain.messages import content
from wa_orchestrator.domain.messages.incoming import Card, Mention, Poll, Quote
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import references
from wa_orchestrator.gateway.link_preview import PreviewReader
from wa_orchestrator.gateway.request_models import MediaBody, SendBody
from wa_orchestrator.messages import uploads
from wa_orchestrator.messages.conversion import media_files
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
        self._previews = PreviewReader(allow_private=settings.allow_private_urls, resolve=resolve, trust=trust)

    def inline(self, send: SendBody) -> Content | None:
        """Return the content of a message for which nothing is fetched or looked up; None for any other."""
        if send.media is not None or references.needs_lookup(send) or send.link_preview:
            return None
        text = send.message if send.message is not None else send.text
        if text is not None and not send.mentions:
            return text_content(text)
        return stored(plain(send), beside(send, None))

    async def load(self, send: SendBody, caller: Caller) -> content.Content:
        """Return the content of a message, with what must be fetched for it."""
        if send.media is not None:
            return await self.fetch(send, caller)
        written = plain(send)
        if send.link_preview and isinstance(written, content.Text):
            return replace(written, preview=await self._previews.read(written.text))
        return written

    async def fetch(self, send: SendBody, caller: Caller) -> content.Media:
        """Return the file of a message, which is stored when this returns, for the sender's API key.

        A caller with a limited reach may send the files only that it has uploaded itself.
        """
        media = send.media
        if media is None:
            raise Refused("VALIDATION_FAILED", "There is no file to send.", 422)
        owner = caller.key_id
        if media.upload:
            upload = await uploads.open(self._settings, media.upload)
        else:
            upload = await self._download(media, owner)
        if upload is None or (media.upload and caller.is_limited and upload.owner != owner):
            raise Refused("NO_SUCH_UPLOAD", "There is no such upload, or it has expired. Upload the file again.", 422)
        mimetype = media.mimetype or upload.mimetype
        uploads.check_type(mimetype)
        kind = content.MediaKind(media.kind or uploads.kind_of(mimetype))
        if upload.size > uploads.LARGEST[kind]:
            raise Refused("FILE_TOO_LARGE", f"A file of this kind has at most {uploads.LARGEST[kind]} bytes.", 413)
        upload = await media_files.prepared(self._settings, upload, kind)
        mimetype = upload.mimetype if kind in (content.MediaKind.VOICE, content.MediaKind.STICKER) else mimetype
        waits_s = max(0, (send.send_at or 0) / 1000 - time.time())
        await uploads.keep_for(upload, uploads.USED_S + waits_s)
        filename = media.filename or upload.filename or None
        shown = {"caption": media.caption, "view_once": media.view_once or None}
        return content.Media(kind, mimetype, upload=upload.id, filename=filename, **shown)  # type: ignore[arg-type]

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


def text_content(text: str) -> Content:
    """Return a text as stored. Same as `stored(content.Text(text))`, ten times as fast: nearly every one is a text."""
    return "text", f'{{"kind": "text", "text": {encode_basestring(text)}}}'


def plain(send: SendBody) -> content.Content:
    """Return the content of a message without a file."""
    if send.location is not None:
        return content.Location(**send.location.model_dump())
    if send.contacts is not None:
        return content.ContactCards(tuple(Card(each.name, tuple(each.phones)) for each in send.contacts))
    if send.poll is not None:
        return content.PollQuestion(send.poll.question, Poll(tuple(send.poll.options), send.poll.selectable))
    return content.Text(send.message if send.message is not None else send.text or "")


def beside(send: SendBody, quote: Quote | None) -> content.Accompaniment:
    """Return what accompanies the content of a message."""
    people = [(recipient.lid_of(each), each) for each in send.mentions]
    return content.Accompaniment(quote, tuple(Mention(lid=lid) if lid else Mention(each) for lid, each in people))


def stored(carried: content.Content, beside: content.Accompaniment = content.NOTHING) -> Content:
    """Return a content as a message's record has it."""
    encoded = content.encode(carried, beside)
    return str(encoded["kind"]), json.dumps(encoded, ensure_ascii=False)


def _unreachable(why: str) -> Refused:
    return Refused("MEDIA_UNREACHABLE", f"The file at this address cannot be fetched. {why} Upload it instead.", 422)


def _name_in(url: str) -> str:
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return "".join(sign for sign in name if sign.isprintable())[:255]
