"""The Noise handshake from both sides, and framing."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import noise, protobuf
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.noise import FrameReader, Initiator, Responder, ServerIdentity

AUTHORITY = ServerIdentity.issue(KeyPair.generate(), not_before=0, not_after=2**31)


def test_after_the_handshake_both_sides_decrypt_each_other() -> None:
    client_key = KeyPair.generate()
    responder, initiator = Responder(AUTHORITY), Initiator(client_key, AUTHORITY.root_public)
    finish, send, receive = initiator.finish(responder.hello(initiator.hello()), b"payload")
    done = responder.finish(finish)
    assert (done.client_static, done.payload) == (client_key.public, b"payload")
    for number in range(3):
        words = f"message {number}".encode()
        assert done.receive.open(send.seal(words)) == words
        assert receive.open(done.send.seal(words)) == words


def test_a_repeated_or_altered_frame_does_not_decrypt() -> None:
    responder, initiator = Responder(AUTHORITY), Initiator(KeyPair.generate(), AUTHORITY.root_public)
    finish, send, _ = initiator.finish(responder.hello(initiator.hello()), b"")
    done = responder.finish(finish)
    frame = send.seal(b"once")
    assert done.receive.open(frame) == b"once"
    with pytest.raises(ProtocolError):
        done.receive.open(frame)
    altered = bytearray(send.seal(b"twice"))
    altered[0] ^= 1
    with pytest.raises(ProtocolError):
        done.receive.open(bytes(altered))


def test_a_client_that_checks_refuses_another_root() -> None:
    other = ServerIdentity.issue(KeyPair.generate(), not_before=0, not_after=2**31)
    responder, initiator = Responder(AUTHORITY), Initiator(KeyPair.generate(), other.root_public)
    with pytest.raises(ProtocolError):
        initiator.finish(responder.hello(initiator.hello()), b"")


@given(st.binary(max_size=200))
def test_any_first_frame_is_answered_or_refused(body: bytes) -> None:
    responder = Responder(AUTHORITY)
    with contextlib.suppress(ProtocolError):
        responder.hello(body)
    with pytest.raises(ProtocolError):
        responder.finish(body)


def test_a_public_key_of_small_order_is_refused() -> None:
    with pytest.raises(ProtocolError):
        Responder(AUTHORITY).hello(protobuf.encode({2: {1: bytes(32)}}))


@given(st.lists(st.binary(max_size=60), max_size=6), st.binary(max_size=40), st.integers(1, 30), st.booleans())
def test_frames_are_read_from_any_chunks_of_the_stream(
    bodies: list[bytes], routing: bytes, step: int, has_routing: bool
) -> None:
    intro = b"ED\x00\x01" + len(routing).to_bytes(3, "big") + routing if has_routing else b""
    stream = intro + noise.PROLOGUE + b"".join(noise.frame(body) for body in bodies)
    deframer = FrameReader(expects_intro=True)
    got = [body for start in range(0, len(stream), step) for body in deframer.feed(stream[start : start + step])]
    assert got == bodies


def test_another_intro_is_refused_at_once() -> None:
    for start in (b"GET / HTTP/1.1", b"WA\x06\x02abcd", b"X"):
        with pytest.raises(ProtocolError):
            list(FrameReader(expects_intro=True).feed(start))
