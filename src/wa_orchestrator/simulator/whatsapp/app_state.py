"""App state: settings that a phone shares with its linked devices as signed, encrypted patches."""

import hashlib
import hmac
import json
import secrets
import struct
from dataclasses import dataclass, field

from wa_orchestrator.simulator.protocol import curve25519, protobuf
from wa_orchestrator.simulator.protocol.signal import cbc_encrypt

COLLECTIONS = ("critical_block", "critical_unblock_low", "regular_high", "regular_low", "regular")
_MODULUS = 1 << 16


@dataclass(slots=True)
class AppState:
    """The app state patches of one account. The version of a collection is the number of its patches."""

    key_id: bytes
    key: bytes
    patches: dict[str, list[bytes]] = field(default_factory=dict)

    def since(self, collection: str, version: int) -> list[bytes]:
        return self.patches.get(collection, [])[version:]

    def version(self, collection: str) -> int:
        return len(self.patches.get(collection, []))

    def append(self, collection: str, patch: bytes) -> int:
        """Store an uploaded patch and return the new version."""
        version = self.version(collection) + 1
        self.patches.setdefault(collection, []).append(protobuf.encode({1: {1: version}}) + patch)
        return version

    def name_account(self, name: str, now_ms: int) -> None:
        """Store the account's display name, once."""
        if not self.version("critical_block"):
            self.patches["critical_block"] = [name_patch(self.key_id, self.key, name, now_ms)]

    def add_salt(self, salt: bytes, now_ms: int) -> None:
        """Store the salt of tokens for first contacts, once."""
        if not self.version("regular_high"):
            value: protobuf.Layout = {1: now_ms, 80: {1: salt}}
            patch = _first_patch(self.key_id, self.key, "regular_high", "nct_salt_sync", value)
            self.patches["regular_high"] = [patch]


def name_patch(key_id: bytes, key: bytes, name: str, now_ms: int, iv: bytes | None = None) -> bytes:
    """Return the first patch of `critical_block`, which sets the push name."""
    return _first_patch(key_id, key, "critical_block", "setting_pushName", {1: now_ms, 7: {1: name}}, iv=iv)


def _first_patch(
    key_id: bytes, key: bytes, collection: str, name: str, value: protobuf.Layout, *, iv: bytes | None = None
) -> bytes:
    """Return the first patch of a collection, which sets one value, with valid MACs."""
    derived = curve25519.hkdf(key, 160, info=b"WhatsApp Mutation Keys")
    index_key, value_key, value_mac_key, snapshot_key, patch_key = (derived[n : n + 32] for n in range(0, 160, 32))
    index = json.dumps([name]).encode()
    action = protobuf.encode({1: index, 2: value, 3: b"", 4: 1})
    iv = iv or secrets.token_bytes(16)
    sealed = iv + cbc_encrypt(value_key, iv, action)
    length = struct.pack(">Q", 1 + len(key_id))
    value_mac = hmac.digest(value_mac_key, b"\x01" + key_id + sealed + length, "sha512")[:32]
    name_of_collection, version = collection.encode(), struct.pack(">Q", 1)
    snapshot_mac = curve25519.mac(snapshot_key, lt_hash(bytes(128), value_mac), version, name_of_collection)
    patch_mac = curve25519.mac(patch_key, snapshot_mac, value_mac, version, name_of_collection)
    record = {1: {1: curve25519.mac(index_key, index)}, 2: {1: sealed + value_mac}, 3: {1: key_id}}
    return protobuf.encode({1: {1: 1}, 2: {1: 0, 2: record}, 4: snapshot_mac, 5: patch_mac, 6: {1: key_id}})


def lt_hash(state: bytes, value_mac: bytes) -> bytes:
    """Add one value to the LTHash: 64 little-endian 16-bit additions."""
    addend = curve25519.hkdf(value_mac, 128, info=b"WhatsApp Patch Integrity")
    pairs = zip(struct.unpack("<64H", state), struct.unpack("<64H", addend), strict=True)
    return struct.pack("<64H", *((left + right) % _MODULUS for left, right in pairs))


def digest_of_keys(*parts: bytes) -> bytes:
    """Return the 20-byte digest by which a device checks that the server has its keys."""
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()
