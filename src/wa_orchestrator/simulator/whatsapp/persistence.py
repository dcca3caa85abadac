"""Stores linked devices on disk, so that they survive a restart of the simulator."""

import base64
import json
import secrets
from collections import OrderedDict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wa_orchestrator.simulator.protocol import binary_xml
from wa_orchestrator.simulator.whatsapp.accounts import Accounts, Device, Phone
from wa_orchestrator.simulator.whatsapp.stanzas.groups import Group

_BYTES = ("noise", "identity", "account_details", "device_identity", "signed_key", "signature")
_PLAIN = ("phone", "number", "registration", "signed_id", "platform", "system", "linked_at", "bootstrapped")


class DeviceStore:
    """One file per phone that has (or had) linked devices; without a directory nothing is stored."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._dirty: set[str] = set()
        if directory:
            (directory / "phones").mkdir(parents=True, exist_ok=True)

    def secret(self) -> bytes:
        """Return the secret from which all keys of phones are derived; generated once."""
        if self._directory is None:
            return secrets.token_bytes(32)
        path = self._directory / "world.secret"
        if not path.exists():
            _write(path, secrets.token_bytes(32))
        return path.read_bytes()

    def touch(self, number: str) -> None:
        self._dirty.add(number)

    def flush(self, accounts: Accounts) -> None:
        """Write the phones that changed."""
        dirty, self._dirty = self._dirty, set()
        if self._directory is None:
            return
        for number in dirty:
            text = json.dumps(_phone_to_json(accounts.phone(number)))
            _write(self._directory / "phones" / f"{number}.json", text.encode())

    def save_groups(self, groups: dict[str, Group]) -> None:
        if self._directory:
            listing = [asdict(group) for group in groups.values()]
            _write(self._directory / "groups.json", json.dumps(listing).encode())

    def load(self, accounts: Accounts, groups: dict[str, Group]) -> None:
        """Load all phones and groups."""
        if self._directory is None:
            return
        for path in sorted((self._directory / "phones").glob("*.json")):
            _phone_from_json(accounts.phone(path.stem), json.loads(path.read_text("utf-8")))
        listing = self._directory / "groups.json"
        if listing.exists():
            for entry in json.loads(listing.read_text("utf-8")):
                group = Group(**entry)
                groups[group.address] = group


def _phone_to_json(phone: Phone) -> dict[str, Any]:
    return {
        "name": phone.name,
        "next_device": phone.next_device,
        "contacts": sorted(phone.contacts),
        "migrated": phone.migrated,
        "trusted": phone.trusted,
        "username": phone.username,
        "username_key": phone.username_key,
        "hides_number": phone.hides_number,
        "patches": {name: [_text(patch) for patch in patches] for name, patches in phone.app_state.patches.items()},
        "devices": [_device_to_json(device) for device in phone.devices.values()],
    }


def _device_to_json(device: Device) -> dict[str, Any]:
    plain = {name: getattr(device, name) for name in _PLAIN}
    packed = {name: _text(getattr(device, name)) for name in _BYTES}
    prekeys = {str(number): _text(key) for number, key in device.prekeys.items()}
    waiting = {key: _text(binary_xml.encode(stanza)) for key, stanza in device.pending.items()}
    return {**plain, **packed, "prekeys": prekeys, "pending": waiting}


def _phone_from_json(phone: Phone, kept: dict[str, Any]) -> None:
    phone.name = kept["name"]
    phone.next_device = kept["next_device"]
    phone.contacts = set(kept["contacts"])
    phone.migrated = kept.get("migrated", phone.migrated)
    trusted = kept.get("trusted", {})
    phone.trusted = trusted if isinstance(trusted, dict) else dict.fromkeys(trusted, 0.0)  # older files have no times
    phone.username, phone.hides_number = kept.get("username", ""), kept.get("hides_number", False)
    phone.username_key = kept.get("username_key", "")
    phone.app_state.patches = {name: [_bytes(one) for one in many] for name, many in kept["patches"].items()}
    for entry in kept["devices"]:
        prekeys = OrderedDict((int(number), _bytes(key)) for number, key in entry.pop("prekeys").items())
        waiting = OrderedDict((key, binary_xml.decode(_bytes(raw))) for key, raw in entry.pop("pending", {}).items())
        packed = {name: _bytes(entry.pop(name)) for name in _BYTES}
        device = Device(**{**entry, **packed}, prekeys=prekeys, pending=waiting)
        phone.devices[device.number] = device


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _write(path: Path, data: bytes) -> None:
    """Write atomically."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(data)
    draft.replace(path)
