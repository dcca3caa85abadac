"""A small https server for `files.example.com`, with a certificate authority of its own."""

import asyncio
import contextlib
import datetime
import ssl
import struct
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "files.example.com"


def _answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def _png() -> bytes:
    """A green square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x10\xa0\x40" * 64) * 64
    head = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


_HTML = "Content-Type: text/html; charset=utf-8"
_ARTICLE = """<!doctype html><html><head><title>Ignored</title>
<meta property="og:title" content="Spring &amp; summer"><meta content='What is
new' name="description"><meta property="og:image" content="/picture.png"></head><body>…</body></html>"""

PAGES = {
    "/article": _answer("200 OK", _ARTICLE.encode(), _HTML),
    "/title-only": _answer("200 OK", b"<title>A page\x00 of its own</title>", _HTML),
    "/no-picture": _answer("200 OK", b"<title>Menu</title><meta property=og:image content='/menu.pdf'>", _HTML),
    "/nothing": _answer("200 OK", b"<p>nothing</p>", _HTML),
    "/hostile": _answer("200 OK", b"<meta " * 40_000 + b"<title>late</title>", _HTML),
    "/picture.png": _answer("200 OK", _png(), "Content-Type: image/png"),
    "/menu.pdf": _answer("200 OK", b"%PDF-1.4 menu", "Content-Type: application/pdf"),
    "/elsewhere": _answer("302 Found", b"", "Location: /secret"),
    "/endless": _answer("200 OK", b"x" * 200_000, "Content-Type: image/png"),
    "/page.html": _answer("200 OK", b"<script>", "Content-Type: text/html; charset=utf-8"),
    "/empty": _answer("200 OK", b"", "Content-Type: image/png"),
}


class Website:
    """Serves `PAGES` and remembers what was asked: (Host without port, path), and the names in TLS."""

    def __init__(self, directory: Path) -> None:
        self.seen: list[tuple[str, str]] = []
        self.names: list[str | None] = []
        self._file = directory / "site.pem"
        self._file.write_bytes(_certificate())
        self._port = 0

    def url(self, path: str) -> str:
        """The address of a page."""
        return f"https://{HOST}:{self._port}{path}"

    def trust(self) -> ssl.SSLContext:
        """What a client must trust."""
        return ssl.create_default_context(cafile=str(self._file))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._file)
        context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self._port = server.sockets[0].getsockname()[1]
        async with server:
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            host = next(line for line in head.splitlines() if line.lower().startswith("host:"))
            self.seen.append((host.split(":")[1].strip(), path))
            writer.write(PAGES.get(path, _answer("404 Not Found", b"no")))
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


def _certificate() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
