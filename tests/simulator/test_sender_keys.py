"""Sender keys of groups."""

import pytest

from wa_orchestrator.simulator.protocol.sender_keys import SenderKey
from wa_orchestrator.simulator.protocol.signal import UndecryptableError


def test_a_distributed_sender_key_decrypts_later_messages_in_any_order() -> None:
    sender = SenderKey.generate()
    before = sender.encrypt(b"before")
    reader = SenderKey.read(sender.distribution())
    messages = [(f"{n}".encode(), sender.encrypt(f"{n}".encode())) for n in range(5)]
    for words, message in [messages[3], messages[0], messages[4], messages[1], messages[2]]:
        assert reader.decrypt(message) == words
    with pytest.raises(UndecryptableError):
        reader.decrypt(before)
    with pytest.raises(UndecryptableError):
        reader.decrypt(messages[0][1])


def test_a_message_signed_by_somebody_else_is_refused() -> None:
    sender, forger = SenderKey.generate(), SenderKey.generate()
    reader = SenderKey.read(sender.distribution())
    forger.key_id, forger.chain.key = sender.key_id, sender.chain.key
    with pytest.raises(UndecryptableError):
        reader.decrypt(forger.encrypt(b"words"))
    with pytest.raises(UndecryptableError):
        reader.encrypt(b"a reader cannot write")
