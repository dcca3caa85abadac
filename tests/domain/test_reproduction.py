"""A scenario has the shape of a message's way, and nothing by which somebody could be recognised."""

import json
from typing import Any

import pytest

from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.domain.workers import reproduction
from wa_orchestrator.domain.workers.reproduction import Omission

MESSAGE = {
    "kind": "image",
    "attempts": 2,
    "to": "972501234567",
    "content": {"caption": "Dear Ms Cohen", "media": {"url": "https://example.com/x.png", "mimetype": "image/png"}},
    "timeline": [
        {"at": "2030-01-01T00:00:00Z", "status": "queued", "note": ""},
        {"at": "2030-01-01T00:00:01Z", "status": "sending", "note": ""},
        {"at": "2030-01-01T00:00:02Z", "status": "queued", "note": "SERVER_ERROR"},
        {"at": "2030-01-01T00:00:09Z", "status": "sending", "note": "words of a person"},
        {"at": "2030-01-01T00:00:10Z", "status": "read", "note": None},
    ],
}


def test_a_scenario_repeats_what_whatsapp_did_in_its_order() -> None:
    made = reproduction.scenario(MESSAGE)
    assert made["attempts"] == [
        {"faults": [{"kind": "ack_error", "code": 500, "times": 1}], "read": False},
        {"faults": [], "read": True},
    ]
    assert [each["status"] for each in made["expected"]] == ["queued", "sending", "queued", "sending", "read"]
    assert made["message"] == {
        "kind": "image", "caption": "x" * 13,
        "media": {"mimetype": "image/png", "size": None},
    }  # fmt: skip


def ended(note: str, answer: str | None = None) -> dict[str, Any]:
    """The scenario of a message whose only attempt ended so."""
    end = {"status": "failed", "note": note} | ({"answer": answer} if answer else {})
    return reproduction.scenario({"timeline": [{"status": "sending", "note": ""}, end]})


@pytest.mark.parametrize("code", [404, 406, 420, 421, 487, 496, 552])
def test_an_error_that_has_no_name_here_is_replayed_with_its_own_code(code: int) -> None:
    for note in ("UNKNOWN", "REFUSED"):
        made = ended(note, f"WA_{code}")
        assert made["attempts"][0]["faults"] == [{"kind": "ack_error", "code": code, "times": 1}]
        assert made["notReplayed"] == []


def test_what_a_worker_tries_under_two_names_is_refused_twice() -> None:
    for note, answer, code in (("REFUSED", "WA_479", 479), ("ADDRESSING", "ADDRESSING", 400)):
        assert ended(note, answer)["attempts"][0]["faults"] == [{"kind": "ack_error", "code": code, "times": 2}]


@pytest.mark.parametrize(
    ("note", "answer", "why"),
    [
        ("UNKNOWN", None, Omission.NOT_RECORDED),
        ("REFUSED", None, Omission.NOT_RECORDED),
        ("UNKNOWN", "SEND_FAILED", Omission.NOT_WHATSAPPS),
        ("CONNECTION_LOST", "LOOKUP_FAILED", Omission.NOT_WHATSAPPS),
        ("WORKER_CRASHED", None, Omission.NOT_WHATSAPPS),
        ("UNKNOWN", "SOMETHING_NEW", Omission.UNKNOWN_CODE),
    ],
)
def test_what_cannot_be_replayed_is_named_and_not_replaced_by_something_else(
    note: str, answer: str | None, why: Omission
) -> None:
    made = ended(note, answer)
    assert made["attempts"] == [{"faults": [], "read": False}]
    assert made["notReplayed"] == [{"attempt": 1, "reason": note, "why": why}]


def test_every_failure_is_replayed_or_named() -> None:
    for failure in Failure:
        made = ended(failure)
        assert bool(made["attempts"][0]["faults"]) != bool(made["notReplayed"]), failure


def test_nothing_personal_is_in_a_scenario() -> None:
    text = json.dumps(reproduction.scenario(MESSAGE))
    for secret in ("Cohen", "972501234567", "example.com", "words of a person", "2030"):
        assert secret not in text


def test_a_message_whose_text_was_erased_has_a_scenario_too() -> None:
    assert reproduction.scenario({"kind": "text", "content": None})["attempts"] == []
