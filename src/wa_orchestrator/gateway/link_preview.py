"""Reads the page that a text links to, for the preview that WhatsApp shows. If anything fails, there is none."""

import asyncio
import re
import ssl
import tempfile
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

import httpx
import structlog

from wa_orchestrator import outbound_http
from wa_orchestrator.domain.messages.content import LinkPreview, MediaKind
from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.messages.conversion import media_files

_LINK: Final = re.compile(r"https://[^\s<>\"'`]+")
_META: Final = re.compile(r"<meta\b[^>]{0,1000}>", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r"""([a-z:]{1,20})\s?=\s?(["'])(.*?)\2""", re.IGNORECASE | re.DOTALL)
_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{0,1000})", re.IGNORECASE)
#: Signs that end a sentence, not an address.
_AFTER: Final = ".,;:!?)]}»"
_FETCH_S: Final = 6.0
_WHOLE_S: Final = 12.0
#: The head of a page is at its beginning.
_MOST_PAGE: Final = 128 * 1024
_MOST_PICTURE: Final = 4 * 1024 * 1024
_LONGEST_LINK: Final = 2048
_LONGEST_TITLE, _LONGEST_DESCRIPTION = 200, 300
_LONGEST_THUMBNAIL: Final = 32 * 1024
_FAILURES: Final = (OrchestratorError, httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError, ValueError)

log = structlog.get_logger(__name__)


def link_in(text: str) -> str:
    """Return the first link in a text; '' if there is none."""
    found = _LINK.search(text)
    link = found[0].rstrip(_AFTER) if found else ""
    return link if len(link) <= _LONGEST_LINK else ""


class PreviewReader:
    """Reads previews by the guarded way to customers' URLs."""

    def __init__(self, *, allow_private: bool, resolve: outbound_http.Resolve, trust: ssl.SSLContext | bool) -> None:
        self._allow_private = allow_private
        self._resolve = resolve
        self._trust = trust

    async def read(self, text: str) -> LinkPreview | None:
        """Return the preview of the first link in a text; None if there is no link, or nothing to show."""
        link = link_in(text)
        try:
            async with asyncio.timeout(_WHOLE_S):
                return await self._preview(link) if link else None
        except _FAILURES as error:
            log.info("link_preview.unavailable", error=type(error).__name__)
            return None

    async def _preview(self, link: str) -> LinkPreview | None:
        page = await self._get(link, "text/html", _MOST_PAGE)
        facts = PageFacts.of(page.decode("utf-8", "replace"))
        if not facts.title:
            return None
        return LinkPreview(link, facts.title, facts.description or None, await self._thumbnail(link, facts.image))

    async def _thumbnail(self, link: str, image: str) -> str | None:
        try:
            picture = await self._get(urljoin(link, image), "image/", _MOST_PICTURE) if image else b""
            if not picture:
                return None
            with tempfile.TemporaryDirectory(prefix="preview-") as directory:
                path = Path(directory) / "picture"
                path.write_bytes(picture)
                facts = await media_files.facts(MediaKind.IMAGE, path)
        except _FAILURES as error:
            log.info("link_preview.without_picture", error=type(error).__name__)
            return None
        thumbnail = str(facts.get("thumbnail", ""))
        return thumbnail if 0 < len(thumbnail) <= _LONGEST_THUMBNAIL else None

    async def _get(self, url: str, mimetype: str, most: int) -> bytes:
        """Return a page or a picture; nothing for one of another type, too long, or elsewhere."""
        target = await outbound_http.check(url, allow_private=self._allow_private, resolve=self._resolve)
        async with outbound_http.request("GET", target, timeout_s=_FETCH_S, trust=self._trust) as response:
            is_wanted = response.headers.get("content-type", "").lower().startswith(mimetype)
            if response.status_code != httpx.codes.OK or not is_wanted:
                return b""
            body = bytearray()
            async for chunk in outbound_http.raw_chunks(response):
                body += chunk
                if len(body) > most:  # of a page the beginning is enough, of a picture it is not
                    return bytes(body[:most]) if mimetype == "text/html" else b""
            return bytes(body)


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page says of itself."""

    title: str
    description: str
    image: str

    @classmethod
    def of(cls, page: str) -> "PageFacts":
        """Read the head of a page. With patterns of limited length: a parser's time would be the page's to decide."""
        named: dict[str, str] = {}
        for tag in _META.finditer(page):
            given = {each[1].lower(): unescape(each[3]) for each in _ATTRIBUTE.finditer(tag[0])}
            named.setdefault((given.get("property") or given.get("name") or "").lower(), given.get("content", ""))
        title = _TITLE.search(page)
        return cls(
            _line(named.get("og:title") or (unescape(title[1]) if title else ""), _LONGEST_TITLE),
            _line(named.get("og:description") or named.get("description") or "", _LONGEST_DESCRIPTION),
            named.get("og:image", "").strip()[:_LONGEST_LINK],
        )


def _line(text: str, longest: int) -> str:
    """Return a text in one line, without control characters, cut where it is shown no further."""
    plain = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(plain.split())[:longest]
