"""A scenario has the shape of a message's way, and nothing by which somebody could be recognised."""

import json

from wa_orchestrator.domain.workers import reproduction

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


def test_nothing_personal_is_in_a_scenario() -> None:
    text = json.dumps(reproduction.scenario(MESSAGE))
    for secret in ("Cohen", "972501234567", "example.com", "words of a person", "2030"):
        assert secret not in text


def test_a_message_whose_text_was_erased_has_a_scenario_too() -> None:
    assert reproduction.scenario({"kind": "text", "content": None})["attempts"] == []
