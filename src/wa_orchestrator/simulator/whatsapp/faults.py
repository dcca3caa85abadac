"""Active faults of WhatsApp: kind, phone, end."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wa_orchestrator.simulator.errors import SimulatorError

#: The ways in which linking with a passkey goes wrong, as options of the fault `passkey`.
PASSKEY_FAULTS = {
    "noOptions": "the request comes without its options",
    "twice": "the request comes twice",
    "twiceAfter": "the request comes again after the answer",
    "staleChallenge": "the first request is too old by the time it is answered",
    "oldProof": "the answer comes too late for the proof that this device was scanned",
    "refuse": "so many answers are refused",
    "noContinuation": "the phone does not go on",
    "drop": "the connection breaks after the answer",
    "shortNonce": "the phone's part is malformed",
    "garbage": "the phone's part is no protobuf",
    "unknownChild": "the phone's part is something else",
    "foreign": "the phone's part comes from somebody else",
    "compare": "the phone wants the codes compared",
    "oldSecret": "the pairing is signed with the secret from before the ceremony",
}

#: Every kind of fault, with a description.
KINDS = {
    "drop": "connections break without a word; with seconds, new ones too",
    "bad_frame": "one frame cannot be decoded; with part=cipher it cannot even be decrypted",
    "silence": "connections stay up and say nothing",
    "replace": "another client takes the connection (440)",
    "logout": "the phone logs its devices out (401)",
    "ban": "the stream ends and every login is refused (403)",
    "temporary_ban": "the stream ends and every login is refused for a time (402)",
    "refuse_login": "logins are refused with the given code",
    "outdated": "logins and linking are refused because the client is too old (405); with below, older revisions only",
    "no_revision": "the page that names the current revision is not served",
    "repeat_hello": "a phone on which a code was entered repeats its step, so often",
    "foreign_hello": "before the phone's step of a pairing by code comes one for another code",
    "bad_pairing": "a scan is answered with a pairing that is signed with another secret; with times, so often",
    "unavailable": "the server reports that it is overloaded (503)",
    "ack_error": "messages are answered with an error code and do not arrive",
    "ack_delay": "messages arrive, the acknowledgement comes seconds later",
    "no_receipts": "nobody confirms delivery",
    "undecryptable": "phones cannot decrypt what they get, and ask for it again; with times, so often",
    "desync": "phones encrypt with keys that the linked devices do not have; with times, so often",
    "no_resend": "phones do not send again what a linked device could not decrypt, and answer no request for it",
    "no_reupload": "phones have no longer the files that WhatsApp has dropped",
    "absent": "messages reach linked devices without content, marked with type; the owner's phone gives it if asked",
    "no_device_news": "nobody is told that an account links or unlinks a device",
    "no_lids": "nobody is told the LID of a number",
    "no_properties": "the question for properties is answered with none",
    "dead_device": "a person's device list names a device that has no keys any more; with times, so often",
    "refuse_retired": "messages to the LID of a number that changed hands are refused (479), instead of accepted",
    "strict_peer_pn": "messages to a LID without the person's number beside it are refused (463)",
    "reachout_lock": "messages to new contacts are refused (463)",
    "needs_token": "messages without a token of acquaintance are refused (463); with to, those to one person; "
    "with firstContact=false the token for a first contact is not enough",
    "newchat_cap": "the allowance of new chats is used up: messages to new contacts are refused (475); with used and "
    "total, after so many more",
    "companion_reg_refresh": "a scan retires the secret in the QR; the new code must be scanned; with times, so often",
    "client_expiration": "devices are told from when (at, in seconds) their version is refused; without it: no longer",
    "status": "somebody posts a status, which comes as a stanza of its own; with form=message as a message that cannot "
    "be decrypted, and whoever refuses that gets nothing else at the next login",
    "server_ping": "connections are asked whether they live; one that does not answer within seconds (5) is broken",
    "media_hosts_gone": "the first host for uploads is unreachable; with all=true every one that devices know",
    "grouped_receipts": "receipts of a group come in one stanza, and the acknowledgement of the message is lost",
    "novelty": "devices get a stanza, a notification and an announcement that no client knows",
    "passkey": "linking asks for a passkey; with one of these it goes wrong: "
    + ", ".join(f"{name} ({what})" for name, what in PASSKEY_FAULTS.items()),
}


@dataclass(slots=True)
class Fault:
    """One active fault."""

    kind: str
    phone: str | None
    until: float | None
    code: int | None
    extra: dict[str, Any] = field(default_factory=dict)


def _check_passkey(extra: dict[str, Any]) -> None:
    """Raise SimulatorError for a way that the menu does not have: a misspelled fault would be a test of nothing."""
    known = {re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name) for name in PASSKEY_FAULTS}
    if unknown := set(extra) - known - {"times"}:
        text = f"No passkey goes wrong by {', '.join(sorted(unknown))}; it does by {', '.join(PASSKEY_FAULTS)}."
        raise SimulatorError("UNKNOWN_FAULT", text)


class Faults:
    """All active faults. A fault of one phone takes precedence over one of all phones."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._faults: list[Fault] = []

    def add(
        self, kind: str, phone: str | None, seconds: float | None, code: int | None, extra: dict[str, Any]
    ) -> Fault:
        """Activate a fault. Raises SimulatorError for an unknown kind."""
        if kind not in KINDS:
            raise SimulatorError("UNKNOWN_FAULT", f"WhatsApp has no fault {kind!r}; it has {', '.join(KINDS)}.")
        if kind == "passkey":
            _check_passkey(extra)
        # For a delay `seconds` is its length; it stays active until it is cleared.
        until = None if seconds is None or kind == "ack_delay" else self._clock() + seconds
        fault = Fault(kind, phone, until, code, {**extra, "seconds": seconds})
        self._faults = [old for old in self._faults if (old.kind, old.phone) != (kind, phone)]
        self._faults.append(fault)
        return fault

    def active(self, kind: str, phone: str | None) -> Fault | None:
        """Return the active fault of that kind for this phone."""
        if not self._faults:
            return None
        now = self._clock()
        self._faults = [fault for fault in self._faults if fault.until is None or fault.until > now]
        matching = [fault for fault in self._faults if fault.kind == kind and fault.phone in (None, phone)]
        return max(matching, key=lambda fault: fault.phone is not None, default=None)

    def use(self, fault: Fault) -> None:
        """Count one use of a fault that is limited to `times` uses."""
        times = fault.extra.get("times")
        if times is not None:
            fault.extra["times"] = times - 1
            if times <= 1:
                self.remove(fault)

    def remove(self, fault: Fault) -> None:
        self._faults = [other for other in self._faults if other is not fault]

    def clear(self) -> None:
        self._faults = []

    def listing(self) -> list[Fault]:
        return list(self._faults)
