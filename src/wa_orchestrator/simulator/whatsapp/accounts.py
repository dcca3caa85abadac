"""Accounts: phones, their linked devices, keys and pending stanzas."""

import secrets
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from wa_orchestrator.simulator.errors import ProtocolError, SimulatorError
from wa_orchestrator.simulator.protocol import curve25519, jid
from wa_orchestrator.simulator.protocol.binary_xml import Node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.jid import Jid
from wa_orchestrator.simulator.protocol.passkey import Passkey
from wa_orchestrator.simulator.protocol.sender_keys import SenderKey
from wa_orchestrator.simulator.protocol.signal import DJB, PreKeyBundle, SignalSession
from wa_orchestrator.simulator.whatsapp.app_state import AppState

#: A LID is the number multiplied modulo a prime: it looks unrelated, and is reversible without a table.
#: It has 13 to 15 digits, as real ones have: a client that takes LID digits for a phone number must be caught.
_LID_PRIME, _LID_FACTOR, _LID_BASE = 999 * 10**12 - 17, 271_828_182_845_904, 10**12
SIGNED_ID = 1
_PREKEYS_IN_TURN = 1 << 24
_MAX_SESSIONS = 8


def lid_of(number: str) -> str:
    return str(_LID_BASE + int(number) * _LID_FACTOR % _LID_PRIME)


def number_of(lid: str) -> str:
    """Reverse `lid_of`. Raises ProtocolError for anything else."""
    if not lid.isdecimal() or not _LID_BASE <= int(lid) < _LID_BASE + _LID_PRIME:
        raise ProtocolError(f"not a LID: {lid!r}")
    return str((int(lid) - _LID_BASE) * pow(_LID_FACTOR, -1, _LID_PRIME) % _LID_PRIME)


@dataclass(slots=True)
class Device:
    """A linked device, as the server knows it."""

    phone: str
    number: int
    noise: bytes
    identity: bytes
    registration: int
    account_details: bytes
    device_identity: bytes = b""
    signed_id: int = 0
    signed_key: bytes = b""
    signature: bytes = b""
    platform: int = 0
    system: str = ""
    linked_at: float = 0.0
    bootstrapped: bool = False
    prekeys: "OrderedDict[int, bytes]" = field(default_factory=OrderedDict)
    #: Stanzas that the device has not acked: they are sent again at its next login.
    pending: "OrderedDict[str, Node]" = field(default_factory=OrderedDict)
    #: Ids of statuses that it has refused: until it takes them it gets nothing else at a login.
    refused: set[str] = field(default_factory=set)

    def address(self, server: str = jid.SERVER) -> Jid:
        return Jid(self.phone if server == jid.SERVER else lid_of(self.phone), server, self.number)

    def account(self, server: str) -> Jid:
        """Return the JID of its account."""
        return self.address(server)._replace(device=None)

    def take_prekey_bundle(self) -> PreKeyBundle:
        """Return the pre-key bundle; its one-time pre-key is used up."""
        prekey_id, prekey = self.prekeys.popitem(last=False) if self.prekeys else (None, None)
        return PreKeyBundle(
            self.registration, self.identity, self.signed_id, self.signed_key, self.signature, prekey_id, prekey
        )


class Phone:
    """The primary device of an account (device 0). Its keys are derived from a common secret and the number."""

    def __init__(self, number: str, secret: bytes) -> None:
        self.number = number
        self.lid = lid_of(number)
        self._seed = curve25519.mac(secret, number.encode())
        self.identity = self._key("identity")
        self.registration = int.from_bytes(self._seed[:2], "big") % 16380 + 1
        self.signed = self._key("signed")
        self._signature: bytes | None = None
        self._next_prekey = secrets.randbelow(_PREKEYS_IN_TURN - 1) + 1
        self.name = f"Person {number[-4:]}"
        self.devices: dict[int, Device] = {}
        self.next_device = 1
        self.app_state = AppState(b"\0\0" + self._seed[:4], curve25519.hkdf(self._seed, 32, info=b"app state"))
        #: (phone, device) → sessions, newest first
        self.sessions: dict[tuple[str, int], list[SignalSession]] = {}
        #: (group, phone, device) → the sender key that it distributed
        self.sender_keys: dict[tuple[str, str, int], SenderKey] = {}
        #: group → our own sender key, and the devices that have it
        self.own_sender_keys: dict[str, tuple[SenderKey, set[tuple[str, int]]]] = {}
        #: phones with which it has exchanged messages: no longer new contacts
        self.contacts: set[str] = set()
        #: whether its one-to-one chats have moved from phone numbers to LIDs
        self.migrated = False
        #: accounts that hold its token of acquaintance → when it was given
        self.trusted: dict[str, float] = {}
        #: from this its devices make the token for a first contact
        self.first_contact_salt = curve25519.hkdf(self._seed, 32, info=b"first contact")
        #: signs that a device may be linked, where WhatsApp wants that
        self.passkey = Passkey()
        #: when it was online last, in seconds; None if it has not been
        self.last_seen: int | None = None
        #: how often it has rung for a message
        self.pushes = 0
        #: ids of this phone's calls that a linked device has rejected
        self.rejected_calls: list[str] = []
        #: others find it by this name; whoever does, and is not told the number, knows its LID only
        self.username = ""
        #: who looks the name up must know these four digits, too; '' without
        self.username_key = ""
        self.hides_number = False
        #: the address of its picture; '' without one
        self.picture = ""
        #: numbers that it has blocked
        self.blocked: set[str] = set()

    @property
    def address(self) -> Jid:
        return jid.of_phone(self.number)

    @property
    def space(self) -> str:
        """The server of JIDs in its one-to-one chats: all of them are of one kind."""
        return jid.LID if self.migrated else jid.SERVER

    def address_in(self, server: str) -> Jid:
        return Jid(self.lid if server == jid.LID else self.number, server)

    def key_of_prekey(self, prekey_id: int) -> KeyPair:
        return self._key(f"prekey {prekey_id}")

    def take_prekey_bundle(self) -> PreKeyBundle:
        """Return the phone's own pre-key bundle."""
        if self._signature is None:
            self._signature = curve25519.sign(self.identity.private, DJB + self.signed.public)
        self._next_prekey = self._next_prekey % (_PREKEYS_IN_TURN - 1) + 1
        prekey = self.key_of_prekey(self._next_prekey).public
        return PreKeyBundle(
            self.registration,
            self.identity.public,
            SIGNED_ID,
            self.signed.public,
            self._signature,
            self._next_prekey,
            prekey,
        )

    def add_session(self, peer: tuple[str, int], session: SignalSession) -> None:
        """Put a session first in the order in which they are tried."""
        known = [other for other in self.sessions.get(peer, []) if other is not session]
        self.sessions[peer] = [session, *known][:_MAX_SESSIONS]

    def _key(self, purpose: str) -> KeyPair:
        return KeyPair.of(curve25519.hkdf(self._seed, 32, info=purpose.encode()))


class Accounts:
    """All phones; one is created when its number is first used."""

    def __init__(self, secret: bytes, *, migrated: bool = False) -> None:
        self._secret = secret
        #: whether new accounts have moved to LIDs
        self._migrated = migrated
        self._phones: dict[str, Phone] = {}
        self._absent: set[str] = set()
        #: other forms of a number, with or without Brazil's ninth digit for example → the form that is registered
        self.other_forms: dict[str, str] = {}
        #: LIDs of numbers that changed hands: the new one → number, and those that nobody has any more
        self._reassigned: dict[str, str] = {}
        self.retired_lids: set[str] = set()
        self._absent_prefixes: tuple[str, ...] = ()

    def phone(self, number: str) -> Phone:
        """Return the phone with that number. Raises SimulatorError for an invalid number."""
        known = self._phones.get(number)
        if known:
            return known
        is_number = number.isascii() and number.isdecimal() and 5 <= len(number) <= 15 and number[0] != "0"
        if not is_number or int(number) >= _LID_PRIME:
            raise SimulatorError("BAD_PHONE", f"{number!r} is not a phone number: 5 to 15 digits, no leading zero.")
        phone = self._phones[number] = Phone(number, self._secret)
        phone.migrated = self._migrated
        return phone

    def find(self, address: Jid) -> Phone | None:
        """Return the phone behind a number or a LID; None if there is none on WhatsApp."""
        try:
            number = self._number_of(address.user) if address.server == jid.LID else address.user
            return self.phone(number) if self.is_registered(number) else None
        except (ProtocolError, SimulatorError):
            return None

    def reassign(self, number: str) -> Phone:
        """Give a number to another person: it has a new LID, and the old one is nobody's."""
        phone = self.phone(number)
        self.retired_lids.add(phone.lid)
        phone.lid = str(_LID_BASE + _LID_PRIME - 1 - len(self._reassigned))
        self._reassigned[phone.lid] = number
        phone.contacts.clear()
        return phone

    def _number_of(self, lid: str) -> str:
        if lid in self.retired_lids:
            raise ProtocolError("nobody has this LID any more")
        return self._reassigned.get(lid) or number_of(lid)

    def find_username(self, username: str) -> Phone | None:
        wanted = username.lower()
        return next((phone for phone in self._phones.values() if phone.username.lower() == wanted), None)

    def device(self, address: Jid) -> Device | None:
        phone = self.find(address)
        return phone.devices.get(address.device or 0) if phone else None

    def devices(self) -> Iterator[Device]:
        for phone in self._phones.values():
            yield from phone.devices.values()

    def linked_phones(self) -> list[Phone]:
        return [phone for phone in self._phones.values() if phone.devices]

    def is_registered(self, number: str) -> bool:
        return number not in self._absent and not number.startswith(self._absent_prefixes or ("-",))

    def unregister(self, number: str) -> None:
        self._absent.add(number)

    def register(self, number: str) -> None:
        self._absent.discard(number)

    def unregister_prefixes(self, prefixes: tuple[str, ...]) -> None:
        """Mark all numbers with these prefixes as not registered."""
        self._absent_prefixes = prefixes
