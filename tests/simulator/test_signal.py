"""Signal sessions: any order is accepted; forged and repeated messages are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import curve25519, signal
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.signal import (
    DJB,
    PreKeyBundle,
    PreKeyMessage,
    SignalSession,
    UndecryptableError,
)

ALICE, BOB, SIGNED, ONCE = (KeyPair.of(bytes([n]) * 32) for n in (1, 2, 3, 4))
BUNDLE = PreKeyBundle(
    77, BOB.public, 5, SIGNED.public, curve25519.sign(BOB.private, DJB + SIGNED.public), 9, ONCE.public
)


def begun(bundle: PreKeyBundle = BUNDLE) -> tuple[SignalSession, SignalSession]:
    """Alice's session, and Bob's after her first message."""
    alice = SignalSession.initiate(ALICE, 11, bundle)
    kind, first = alice.encrypt(b"hello")
    assert kind == "pkmsg"
    greeting = PreKeyMessage.read(first)
    bob = SignalSession.respond(BOB, SIGNED, ONCE if bundle.prekey else None, greeting)
    assert bob.decrypt(greeting.message) == b"hello"
    return alice, bob


def test_messages_are_prekey_messages_until_the_peer_answers() -> None:
    alice, bob = begun()
    kind, second = alice.encrypt(b"still no answer")
    assert kind == "pkmsg"
    greeting = PreKeyMessage.read(second)
    assert (greeting.prekey_id, greeting.signed_id, greeting.registration) == (9, 5, 11)
    assert greeting.identity == ALICE.public
    assert bob.decrypt(greeting.message) == b"still no answer"
    assert alice.decrypt(bob.encrypt(b"answer")[1]) == b"answer"
    assert alice.encrypt(b"now it is short")[0] == "msg"


def test_a_session_begins_without_a_one_time_key_too() -> None:
    alice, bob = begun(PreKeyBundle(77, BOB.public, 5, SIGNED.public, b""))
    assert alice.decrypt(bob.encrypt(b"answer")[1]) == b"answer"


@settings(max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_every_message_decrypts_once_in_any_order(turns: list[tuple[bool, int]], dice: object) -> None:
    alice, bob = begun()
    sides = {True: (alice, bob), False: (bob, alice)}
    late: dict[bool, list[tuple[bytes, bytes]]] = {True: [], False: []}
    for from_alice, count in turns:
        sender, receiver = sides[from_alice]
        batch = [
            (f"{from_alice}{n}".encode(), _body(sender.encrypt(f"{from_alice}{n}".encode()))) for n in range(count)
        ]
        dice.shuffle(batch)  # type: ignore[attr-defined]
        late[from_alice].append(batch.pop())
        for words, message in batch:
            assert receiver.decrypt(message) == words
            with pytest.raises(UndecryptableError):
                receiver.decrypt(message)
        if dice.random() < 0.5:  # type: ignore[attr-defined]
            words, message = late[from_alice].pop(0)
            assert receiver.decrypt(message) == words


def _body(sealed: tuple[str, bytes]) -> bytes:
    kind, message = sealed
    return PreKeyMessage.read(message).message if kind == "pkmsg" else message


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_forged_message_changes_nothing(position: int, flip: int) -> None:
    alice, bob = begun()
    message = bytearray(_body(alice.encrypt(b"words")))
    message[position % len(message)] ^= flip
    with pytest.raises(ProtocolError):
        bob.decrypt(bytes(message))
    assert bob.decrypt(_body(alice.encrypt(b"the next"))) == b"the next"


def test_too_many_skipped_messages_are_refused() -> None:
    alice, bob = begun()
    for _ in range(2100):
        last = _body(alice.encrypt(b""))
    with pytest.raises(UndecryptableError):
        bob.decrypt(last)


@given(st.binary(max_size=100), st.integers(1, 16))
def test_unpadding_reverses_padding(plain: bytes, count: int) -> None:
    assert signal.unpad(signal.pad(plain, count)) == plain


def test_a_bundle_is_valid_only_if_its_identity_signed_it() -> None:
    assert BUNDLE.has_valid_signature
    assert not PreKeyBundle(77, ALICE.public, 5, SIGNED.public, BUNDLE.signature).has_valid_signature
