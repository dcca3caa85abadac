"""Accounts as programs on Baileys store them, as files by name or as one document: read and checked."""

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wa_orchestrator.errors import Refused

CREDENTIALS: Final = "creds.json"
#: Longest first: `sender-key-memory-x` is no `sender-key`.
_TYPES: Final = (
    "app-state-sync-version", "app-state-sync-key", "sender-key-memory", "lid-mapping", "device-list", "identity-key",
    "sender-key", "pre-key", "session", "tctoken",
)  # fmt: skip
#: How old versions of Baileys called them in a document of their own.
_OLD_TYPES: Final = {
    "preKeys": "pre-key", "sessions": "session", "senderKeys": "sender-key", "senderKeyMemory": "sender-key-memory",
    "appStateSyncKeys": "app-state-sync-key", "appStateVersions": "app-state-sync-version",
}  # fmt: skip
_FILE: Final = re.compile(rf"(?P<type>{'|'.join(_TYPES)})-[A-Za-z0-9@._+=-]{{1,200}}\.json")
_LINKED: Final = re.compile(r"(?P<phone>[0-9]{8,15}):(?P<device>[0-9]{1,5})@s\.whatsapp\.net")
_KEY_BYTES: Final = 32
#: Some programs encode what is JSON already once or twice more.
_MOST_LAYERS: Final = 3


@dataclass(frozen=True, slots=True)
class BaileysAccount:
    """A linked device that can be taken over without a scan."""

    phone: str
    device: int
    """Its number among the phone's linked devices."""
    jid: str
    name: str
    keys: Mapping[str, int]
    """How many keys of each type there are."""
    files: Mapping[str, str]
    """What the worker reads: file names of Baileys' layout, with their content."""


def read(files: Mapping[str, str]) -> BaileysAccount:
    """Return the account in files of Baileys' layout; others are left out. Raises `Refused` if it cannot be used."""
    if CREDENTIALS not in files:
        raise Refused("IMPORT_NO_CREDENTIALS", "There is no creds.json: this is not an account of Baileys.", 422)
    kept = {name: json.dumps(_decoded(name, text)) for name, text in files.items() if _FILE.fullmatch(name)}
    credentials = _decoded(CREDENTIALS, files[CREDENTIALS])
    return _account(credentials, kept)


def read_document(text: str) -> BaileysAccount:
    """Return the account of one exported document: `creds` beside its keys, or beside `keys` by type."""
    document = _decoded("document", text)
    if not isinstance(document, dict) or "creds" not in document:
        raise Refused("IMPORT_NO_CREDENTIALS", "The document has no `creds`: this is not an account of Baileys.", 422)
    by_type = _unwrapped("keys", document.get("keys") or {})
    flat = {name: value for name, value in document.items() if name not in ("creds", "keys")}
    for kind, entries in (by_type if isinstance(by_type, dict) else {}).items():
        if not isinstance(entries or {}, dict):
            raise _damaged(f"keys.{kind[:40]} must be an object")
        flat |= {f"{_OLD_TYPES.get(kind, kind)}-{id_}": value for id_, value in (entries or {}).items()}
    named = {_file_name(name): json.dumps(_unwrapped(name, value)) for name, value in flat.items() if value is not None}
    kept = {name: content for name, content in named.items() if _FILE.fullmatch(name)}
    return _account(_unwrapped("creds", document["creds"]), kept)


def _file_name(key: str) -> str:
    return f"{key.replace('/', '__').replace(':', '-')}.json"


def _decoded(name: str, text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(f"{name} is not JSON") from error
    return _unwrapped(name, value)


def _unwrapped(name: str, value: Any) -> Any:
    """Return a value without the layers of encoding that some programs put around it."""
    for _ in range(_MOST_LAYERS):
        if not isinstance(value, str):
            return value
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise _damaged(f"{name} is not JSON") from error
    raise _damaged(f"{name} is not JSON")


def _account(credentials: Any, keys: Mapping[str, str]) -> BaileysAccount:
    if not isinstance(credentials, dict):
        raise _damaged("creds must be an object")
    for name, part in (("noiseKey", "private"), ("signedIdentityKey", "private")):
        if len(_bytes(credentials.get(name), part)) != _KEY_BYTES:
            raise _damaged(f"{name} is missing or damaged")
    signed = credentials.get("signedPreKey")
    complete = (
        isinstance(signed, dict)
        and isinstance(signed.get("keyPair"), dict)
        and isinstance(credentials.get("registrationId"), int)
        and isinstance(credentials.get("advSecretKey"), str)
    )
    if not complete:
        raise _damaged("creds is incomplete")
    me = credentials.get("me")
    jid = str(me.get("id", "")) if isinstance(me, dict) else ""
    linked = _LINKED.fullmatch(jid)
    if linked is None or not credentials.get("account"):
        text = "The account is not linked: its phone never accepted this device. Link it here with a code instead."
        raise Refused("IMPORT_NOT_LINKED", text, 422)
    counted = Counter(found["type"] for name in keys if (found := _FILE.fullmatch(name)))
    name = str(me.get("name") or "")[:100] if isinstance(me, dict) else ""
    files = {CREDENTIALS: json.dumps(credentials), **keys}
    return BaileysAccount(linked["phone"], int(linked["device"]), jid, name, dict(counted), files)


def _bytes(pair: Any, part: str) -> bytes:
    """Return the bytes of one half of a key pair, written as base64 or as a list of numbers; b'' if it is neither."""
    value = pair.get(part) if isinstance(pair, dict) else None
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, str | list):  # of a number, `bytes` would make as many zeros
        return b""
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else bytes(data)
    except (binascii.Error, TypeError, ValueError):
        return b""


def _damaged(what: str) -> Refused:
    text = f"The account cannot be read: {what}. Nothing was changed. Copy it again while the old program is off."
    return Refused("IMPORT_DAMAGED", text, 422)
