"""The ledger of messages."""

from typing import Any

from wa_orchestrator.simulator.protocol.message_content import Content
from wa_orchestrator.simulator.whatsapp.ledger import Ledger


def arrive(ledger: Ledger, message_id: str, to: str = "2") -> dict[str, Any]:
    return ledger.record_arrival(**{"from": "1", "to": to, "id": message_id}, text=None, kind="undecrypted")


def entry(message_id: str, sender: str = "1") -> dict[str, Any]:
    return {"id": message_id, "from": sender, "fromMe": False}


def test_the_same_id_in_the_same_chat_is_a_repeat_and_another_chat_is_not() -> None:
    ledger = Ledger()
    flags = [arrive(ledger, *key)["repeat"] for key in (("a",), ("a",), ("b",), ("a", "3"))]
    assert flags == [False, True, False, False]
    assert [one["n"] for one in ledger.arrivals()] == [1, 2, 3, 4]
    assert [one["n"] for one in ledger.arrivals(after=3)] == [4]


def test_the_content_of_a_message_is_recorded_once() -> None:
    ledger = Ledger()
    arrive(ledger, "a")
    ledger.describe("1", "2", "a", Content("text", "first"))
    ledger.describe("1", "2", "a", Content("text", "second"))
    assert ledger.arrivals()[0]["text"] == "first"


def test_a_repeated_message_is_in_the_inbox_once() -> None:
    ledger = Ledger()
    assert ledger.add_to_inbox("2", "1", entry("a"))
    assert not ledger.add_to_inbox("2", "1", entry("a"))
    (shown,) = ledger.inbox("2")
    assert (shown["shown"], shown["copies"]) == (1, 2)


def test_reading_returns_unread_messages_of_one_sender_only() -> None:
    ledger = Ledger()
    ledger.add_to_inbox("2", "1", entry("a"))
    ledger.add_to_inbox("2", "3", entry("b", "3"))
    assert [one["id"] for one in ledger.take_unread("2", "1")] == ["a"]
    assert [one["id"] for one in ledger.take_unread("2", None)] == ["b"]
    assert ledger.take_unread("2", None) == []
