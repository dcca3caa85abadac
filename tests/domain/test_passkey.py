"""An answer is checked before the attempt is spent on it, and only what WhatsApp wants of it is passed on."""

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.sessions import passkey
from wa_orchestrator.domain.sessions.passkey import ORIGIN, RP_ID, Assertion, Problem

CHALLENGE = "Q0hBTExFTkdF"


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()


def answer(
    origin: str = ORIGIN, rp_id: str = RP_ID, flags: int = 0x1D, challenge: str = CHALLENGE, **more: Any
) -> dict[str, Any]:
    client = {"type": "webauthn.get", "challenge": challenge, "origin": origin}
    response = {
        "clientDataJSON": encoded(json.dumps(client).encode()),
        "authenticatorData": encoded(hashlib.sha256(rp_id.encode()).digest() + bytes([flags]) + bytes(4)),
        "signature": encoded(b"signed"),
        "userHandle": encoded(b"user"),
    }
    whole = {"id": "x", "rawId": encoded(b"credential"), "type": "public-key", "response": response}
    return {**whole, "clientExtensionResults": {"uvm": []}, **more}


def test_a_good_answer_is_rebuilt_without_anything_else() -> None:
    checked = passkey.check(json.dumps(answer()), CHALLENGE)
    assert isinstance(checked, Assertion)
    sent = json.loads(checked.text)
    assert set(sent) == {"id", "rawId", "type", "response"}
    assert set(sent["response"]) == {"clientDataJSON", "authenticatorData", "signature", "userHandle"}
    assert (sent["id"], "=" in checked.text) == (sent["rawId"], False)
    assert passkey.check(encoded(json.dumps(answer()).encode()), CHALLENGE) == checked


def test_a_passkey_without_a_user_has_none_in_the_answer() -> None:
    made = answer()
    made["response"]["userHandle"] = None
    checked = passkey.check(json.dumps(made), CHALLENGE)
    assert isinstance(checked, Assertion)
    assert json.loads(checked.text)["response"]["userHandle"] is None


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (answer(origin="https://dashboard.example.com"), Problem.OTHER_SITE),
        (answer(rp_id="web.whatsapp.com"), Problem.OTHER_SITE),
        (answer(challenge="b2xk"), Problem.OLD_REQUEST),
        (answer(flags=0x01), Problem.NOT_VERIFIED),
        (answer(flags=0x04), Problem.NOT_VERIFIED),
        (answer(type="password"), Problem.MALFORMED),
        (answer(rawId="***"), Problem.MALFORMED),
        (answer(rawId=5), Problem.MALFORMED),
        (answer(response={}), Problem.MALFORMED),
    ],
)
def test_a_wrong_answer_is_named(made: dict[str, Any], problem: Problem) -> None:
    assert passkey.check(json.dumps(made), CHALLENGE) is problem


def test_an_answer_to_no_request_is_refused() -> None:
    assert passkey.check(json.dumps(answer(challenge="")), "") is Problem.OLD_REQUEST


@pytest.mark.parametrize(
    ("options", "found"), [('{"challenge":"abc"}', "abc"), ("{}", ""), ("no", ""), ("[]", ""), ('{"challenge":5}', "")]
)
def test_the_challenge_of_a_request_is_found(options: str, found: str) -> None:
    assert passkey.challenge_of(options) == found


@given(st.text())
def test_whatever_is_pasted_is_an_answer_or_a_problem(text: str) -> None:
    assert isinstance(passkey.check(text, CHALLENGE), Assertion | Problem)
