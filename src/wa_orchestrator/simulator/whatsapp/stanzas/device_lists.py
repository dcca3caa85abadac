"""Device lists of an account: their hash, and the list of key indexes that the phone signs."""

import base64
import hashlib
from collections.abc import Iterable

from wa_orchestrator.simulator.protocol import curve25519, protobuf
from wa_orchestrator.simulator.protocol.jid import Jid
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.state import ServerState

_INDEX_LIST_PREFIX = b"\x06\x02"


def addresses(phone: Phone, server: str) -> list[Jid]:
    """Return the JIDs of all devices of an account; the phone itself is device 0."""
    account = phone.address_in(server)
    return [account._replace(device=0), *(account._replace(device=number) for number in sorted(phone.devices))]


def hash_of(phone: Phone, server: str) -> str:
    return participant_hash(addresses(phone, server))


def participant_hash(devices: Iterable[Jid]) -> str:
    """Return the hash of a list of devices: 6 bytes of SHA-256 over their sorted `user.0:device@server`."""
    names = sorted(f"{one.user}.0:{one.device or 0}@{one.server}" for one in devices)
    digest = hashlib.sha256("".join(names).encode()).digest()
    return f"2:{base64.b64encode(digest[:6]).decode()}"


def key_index_list(state: ServerState, phone: Phone) -> bytes:
    """Return the phone's signed key index list; signed again only when its devices change."""
    numbers = sorted(phone.devices)
    key = (phone.number, tuple(numbers))
    if key not in state.index_lists:
        packed = b"".join(protobuf.varint(number) for number in numbers)
        details = protobuf.encode({1: phone.registration, 2: state.now, 3: max(numbers, default=0), 4: packed})
        signature = curve25519.sign(phone.identity.private, _INDEX_LIST_PREFIX + details)
        state.index_lists[key] = protobuf.encode({1: details, 2: signature, 3: phone.identity.public})
    return state.index_lists[key]
