"""Media on mmg.whatsapp.net: encrypted by the sender and stored by path."""

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import curve25519
from wa_orchestrator.simulator.protocol.signal import UndecryptableError, cbc_decrypt, cbc_encrypt

HOST = "mmg.whatsapp.net"
#: HKDF info by kind of media.
PURPOSES = {
    "image": b"WhatsApp Image Keys",
    "sticker": b"WhatsApp Image Keys",
    "video": b"WhatsApp Video Keys",
    "audio": b"WhatsApp Audio Keys",
    "document": b"WhatsApp Document Keys",
    "history": b"WhatsApp History Keys",
}


@dataclass(frozen=True, slots=True)
class EncryptedMedia:
    """An encrypted file, with its keys and hashes."""

    blob: bytes
    media_key: bytes
    plain_sha256: bytes
    blob_sha256: bytes
    length: int


def encrypt(plain: bytes, kind: str, media_key: bytes | None = None) -> EncryptedMedia:
    """Encrypt a file."""
    media_key = media_key or secrets.token_bytes(32)
    iv, key, mac_key = _keys(media_key, kind)
    body = cbc_encrypt(key, iv, plain)
    blob = body + curve25519.mac(mac_key, iv, body)[:10]
    return EncryptedMedia(blob, media_key, hashlib.sha256(plain).digest(), hashlib.sha256(blob).digest(), len(plain))


def decrypt(blob: bytes, kind: str, media_key: bytes, plain_sha256: bytes | None = None) -> bytes:
    """Decrypt a file. Raises ProtocolError if its MAC or its hash is wrong."""
    iv, key, mac_key = _keys(media_key, kind)
    body, tag = blob[:-10], blob[-10:]
    if not hmac.compare_digest(curve25519.mac(mac_key, iv, body)[:10], tag):
        raise ProtocolError("file MAC is wrong")
    try:
        plain = cbc_decrypt(key, iv, body)
    except UndecryptableError as error:
        raise ProtocolError("file does not decrypt") from error
    if plain_sha256 and hashlib.sha256(plain).digest() != plain_sha256:
        raise ProtocolError("file hash is wrong")
    return plain


class MediaHosts:
    """The hosts that take uploads, in the order in which devices are told to try them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._gone: set[str] = set()
        self.recover()

    def takes(self, name: str) -> bool:
        """Whether a host is reachable."""
        return name not in self._gone

    def lose(self, *, every: bool) -> None:
        """Make the first host unreachable, or every one; then others take their place."""
        if not every:
            self._gone.add(self.names[0])
            return
        self._gone.update(self.names)
        self.names = [f"media-{len(self._gone) + number}.whatsapp.net" for number in range(2)]

    def recover(self) -> None:
        """Be as at the beginning."""
        self.names = [HOST, "media-1.whatsapp.net"]
        self._gone = set()


class MediaStore:
    """Stores blobs by path in memory; the oldest are dropped beyond a limit."""

    def __init__(self, limit_bytes: int = 256 << 20) -> None:
        self._blobs: OrderedDict[str, bytes] = OrderedDict()
        self._dropped: dict[str, bytes] = {}
        self._limit = limit_bytes
        self._size = 0

    def put(self, blob: bytes) -> str:
        """Store a blob and return its direct path, which is the same for the same blob."""
        name = base64.urlsafe_b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
        path = f"/v/t62/{name}.enc"
        if path not in self._blobs:
            self._blobs[path] = blob
            self._size += len(blob)
        while self._size > self._limit and len(self._blobs) > 1:
            _, oldest = self._blobs.popitem(last=False)
            self._size -= len(oldest)
        # Clients append `&hash=…`, so the path must have a query already.
        return f"{path}?ccb=1"

    def get(self, path: str) -> bytes | None:
        return self._blobs.get(path.partition("?")[0])

    def drop(self, path: str) -> None:
        """Serve a blob no more, as after some weeks; phones still have it."""
        name = path.partition("?")[0]
        self._dropped[name] = self._blobs.pop(name)
        self._size -= len(self._dropped[name])

    def damage(self, path: str) -> None:
        """Change a byte in the middle of a blob."""
        name = path.partition("?")[0]
        blob = bytearray(self._blobs[name])
        blob[len(blob) // 2] ^= 1
        self._blobs[name] = bytes(blob)

    def put_again(self, path: str) -> str:
        """Store a blob that was dropped at a path of its own and return that."""
        name = path.partition("?")[0]
        again = f"{name.removesuffix('.enc')}-{len(self._blobs)}.enc"
        self._blobs[again] = self._dropped.get(name) or self._blobs[name]
        self._size += len(self._blobs[again])
        return f"{again}?ccb=1"


def _keys(media_key: bytes, kind: str) -> tuple[bytes, bytes, bytes]:
    derived = curve25519.hkdf(media_key, 112, info=PURPOSES[kind])
    return derived[:16], derived[16:48], derived[48:80]
