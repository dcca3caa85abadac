"""The API of linking with a passkey: checked first, used once, for the present worker only, and in the audit log."""

import json
from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import Teller, drive
from tests.orchestrator.session_steps import code_of, linked, now
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers import command_calls
from wa_orchestrator.simulator.protocol.passkey import Passkey
from wa_orchestrator.store import keys
from wa_orchestrator.store.events import event_stream

PATH = "/api/sessions/s1/passkey"
CHALLENGE = "Q0hBTExFTkdF"


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the worker is told."""
    calls: list[dict[str, Any]] = []

    async def call(_context: object, session_id: str, kind: str, *, timeout_s: float, **fields: str) -> dict[str, Any]:
        calls.append({"session": session_id, "kind": kind, **fields})
        return {"ok": True}

    monkeypatch.setattr(command_calls, "call", call)
    return calls


@pytest.fixture
async def asked(control: Orchestrator, api: httpx.AsyncClient, teller: Teller) -> None:
    await api.post("/api/sessions/provision", json={"sessionId": "s1"})
    await drive(control)
    await teller.qr("s1")
    options = json.dumps({"challenge": CHALLENGE, "rpId": "whatsapp.com"})
    await teller.tell("s1", "PASSKEY", {"stage": "required", "options": options, "expiresAt": 1_900_000_000_000})


def signed(**how: Any) -> dict[str, str]:
    return {"answer": json.dumps(Passkey().sign(how.pop("challenge", CHALLENGE), **how))}


async def test_an_answer_is_passed_to_the_worker_once_and_is_in_the_audit_log_without_its_value(
    control: Orchestrator, api: httpx.AsyncClient, asked: None, called: list[dict[str, Any]]
) -> None:
    session = await now(control.context, "s1")
    assert (session.status, session.reason) == (State.QR_READY, Reason.SIGN_WITH_PASSKEY)
    shown = (await api.get(PATH)).json()
    assert (shown["stage"], json.loads(shown["options"])["challenge"]) == ("required", CHALLENGE)
    assert (await api.post(PATH, json=signed())).status_code == 200
    again = await api.post(PATH, json=signed())
    assert (again.status_code, await code_of(again)) == (409, "PASSKEY_USED")
    [told] = called
    assert (told["kind"], json.loads(told["assertion"])["type"]) == ("passkey", "public-key")
    entries = (await api.get("/api/v1/audit")).json()["entries"]
    assert entries[0]["action"] == "session.passkey"
    assert CHALLENGE not in json.dumps(entries)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"answer": "hello"}, "PASSKEY_MALFORMED"),
        (signed(origin="https://dashboard.example.com"), "PASSKEY_OTHER_SITE"),
        (signed(challenge="b2xk"), "PASSKEY_OLD_REQUEST"),
        (signed(flags=0x01), "PASSKEY_NOT_VERIFIED"),
    ],
)
async def test_a_wrong_answer_is_named_and_not_used_up(
    api: httpx.AsyncClient, asked: None, called: list[dict[str, Any]], body: dict[str, str], code: str
) -> None:
    assert await code_of(await api.post(PATH, json=body)) == code
    assert called == []
    assert (await api.post(PATH, json=signed())).status_code == 200


async def test_the_request_after_a_refused_answer_says_why_it_is_asked_again(
    api: httpx.AsyncClient, teller: Teller, asked: None
) -> None:
    assert (await api.get(PATH)).json()["reason"] is None
    await teller.tell("s1", "PASSKEY", {"stage": "failed", "reason": "rejected", "retry": "new"})
    options = json.dumps({"challenge": "bmV3", "rpId": "whatsapp.com"})
    await teller.tell("s1", "PASSKEY", {"stage": "required", "options": options, "expiresAt": 1_900_000_000_000})
    shown = (await api.get(PATH)).json()
    assert (shown["stage"], shown["reason"]) == ("required", "rejected")


async def test_codes_are_compared_by_a_person_where_whatsapp_wants_it(
    api: httpx.AsyncClient, teller: Teller, asked: None, called: list[dict[str, Any]]
) -> None:
    await teller.tell("s1", "PASSKEY", {"stage": "confirm", "code": "PYSL-SH11", "auto": False})
    shown = (await api.get(PATH)).json()
    assert (shown["stage"], shown["code"], shown["compare"]) == ("confirm", "PYSL-SH11", True)
    assert called == []
    assert (await api.post(f"{PATH}/confirm")).status_code == 200
    assert called == [{"session": "s1", "kind": "passkey"}]


async def test_every_step_is_an_event_without_the_request_or_the_code(
    control: Orchestrator, teller: Teller, asked: None
) -> None:
    await teller.tell("s1", "PASSKEY", {"stage": "sent"})
    await teller.tell("s1", "PASSKEY", {"stage": "confirm", "code": "PYSL-SH11", "auto": False})
    await teller.tell("s1", "PASSKEY", {"stage": "failed", "reason": "rejected", "retry": "new"})
    entries = await event_stream.read(control.context.scripts, most=1000)
    told = [each.fields for each in entries if each.fields["type"] == "session.passkey"]
    assert [(each["session"], each["stage"], each.get("reason")) for each in told] == [
        ("s1", "required", None), ("s1", "sent", None), ("s1", "confirm", None), ("s1", "failed", "rejected"),
    ]  # fmt: skip
    assert not any(secret in json.dumps(told) for secret in (CHALLENGE, "PYSL"))


async def test_a_request_ends_with_its_worker_and_with_the_link(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, asked: None, called: list[dict[str, Any]]
) -> None:
    await control.context.redis.hincrby(keys.session("s1"), "epoch", 1)
    assert await code_of(await api.post(PATH, json=signed())) == "NO_PASSKEY_ASKED"
    await linked(control, api, teller, "s2", "972501234567")
    assert (await api.get("/api/sessions/s2/passkey")).status_code == 404
    assert called == []
