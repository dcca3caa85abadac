"""Sessions that are brought in: linked devices of other programs, and lists of sessions to create."""

import json
from typing import Any

import httpx
import pytest

from tests.domain.test_baileys_account import creds
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.orchestrator.workers.session_controller import SessionController
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.records import SessionChanges

PHONE = "972501234567"
FILES = {"creds.json": json.dumps(creds()), "pre-key-1.json": "{}", "../../evil.json": "{}"}


async def bring(api: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await api.post("/api/sessions/import", json={"sessionId": "moved", "files": FILES} | body)


async def test_a_preview_says_what_was_found_and_changes_nothing(api: httpx.AsyncClient, settings: Settings) -> None:
    answer = await bring(api, dryRun=True)
    assert answer.json() == {
        "sessionId": None, "phone": PHONE, "device": 12, "name": "Oren", "keys": {"pre-key": 1}, "samePhone": [],
    }  # fmt: skip
    assert (await api.get("/api/sessions")).json()["sessions"] == []
    assert credential_files.list_trash(settings) == []


async def test_nothing_is_taken_over_before_somebody_says_that_the_old_place_is_off(api: httpx.AsyncClient) -> None:
    answer = await bring(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "OLD_PLACE_RUNS")
    assert (await api.get("/api/sessions")).json()["sessions"] == []


async def test_an_account_becomes_a_session_whose_worker_finds_its_files(
    api: httpx.AsyncClient, control: Orchestrator, settings: Settings
) -> None:
    answer = await bring(api, label="Haifa", tags=["north"], oldPlaceIsOff=True)
    assert (answer.status_code, answer.json()["sessionId"]) == (201, "moved"), answer.text
    await control.lease.step()
    await SessionController(control.context, control.pool).attend("moved")
    session = await records.session(control.context.scripts, "moved")
    assert session is not None
    assert (session.named_phone, session.label, session.tags, session.restore) == (PHONE, "Haifa", ("north",), "")
    directory = credential_files.directory(settings, "moved")
    found = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    assert found == {"creds.json": 0o600, "pre-key-1.json": 0o600}
    assert json.loads((directory / "creds.json").read_text()) == creds()
    audit = (await api.get("/api/v1/audit")).json()["entries"]
    assert "session.import" in [each["action"] for each in audit]


async def test_credentials_of_a_session_that_could_not_be_created_do_not_stay(
    api: httpx.AsyncClient, settings: Settings
) -> None:
    (await bring(api, oldPlaceIsOff=True)).raise_for_status()
    before = credential_files.list_trash(settings)
    answer = await bring(api, oldPlaceIsOff=True)
    assert answer.json()["error"]["code"] == "SESSION_EXISTS"
    assert credential_files.list_trash(settings) == before


async def test_a_device_that_is_here_already_is_not_taken_over_again(
    api: httpx.AsyncClient, control: Orchestrator
) -> None:
    (await bring(api, sessionId="first", oldPlaceIsOff=True)).raise_for_status()
    await sessions.update(control.context.scripts, "first", SessionChanges(jid=creds()["me"]["id"]))
    answer = await bring(api, dryRun=True)
    assert answer.json()["error"]["code"] == "IMPORT_ALREADY_HERE"


async def test_what_is_damaged_is_refused_with_the_reason(api: httpx.AsyncClient, settings: Settings) -> None:
    answer = await bring(api, files={"creds.json": json.dumps(creds(noiseKey=None))}, oldPlaceIsOff=True)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "IMPORT_DAMAGED")
    assert "noiseKey" in answer.json()["error"]["message"]
    assert credential_files.list_trash(settings) == []


LIST = (
    "id;phone;label;tags;proxy\nnorth;+972 50 123 4567;Haifa;vip|north;\n\nbad;0501;;;\nworse;;;;http://canary-word@x\n"
)


async def test_a_list_becomes_sessions_and_bad_lines_are_named_without_their_secrets(api: httpx.AsyncClient) -> None:
    tried = (await api.post("/api/sessions/import-list", json={"text": LIST, "dryRun": True})).json()
    assert (tried["created"], tried["lines"], [each["line"] for each in tried["errors"]]) == ([], 3, [4, 5])
    answer = await api.post("/api/sessions/import-list", json={"text": LIST})
    made = answer.json()
    assert made["created"] == ["north"]
    assert [(each["line"], each["code"]) for each in made["errors"]] == [(4, "BAD_PHONE"), (5, "BAD_PROXY_URL")]
    assert "canary-word" not in answer.text
    (north,) = (await api.get("/api/sessions")).json()["sessions"]
    assert (north["label"], north["tags"]) == ("Haifa", ["vip", "north"])


@pytest.mark.parametrize(
    ("text", "code"), [("972501234567\n", "NO_HEADING"), ("id\n" + "a\n" * 1001, "TOO_MANY_LINES")]
)
async def test_a_file_that_is_no_list_of_sessions_is_refused(api: httpx.AsyncClient, text: str, code: str) -> None:
    answer = await api.post("/api/sessions/import-list", json={"text": text})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code)


async def test_a_line_with_a_bad_cell_says_which_one(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/sessions/import-list", json={"text": "id,timezone\na b,UTC\nok1,Mars/Base\nok2\n"})
    errors = answer.json()["errors"]
    assert [(each["line"], each["code"]) for each in errors] == [(2, "VALIDATION_FAILED"), (3, "VALIDATION_FAILED")]
    assert errors[0]["message"].startswith("sessionId")
    assert answer.json()["created"] == ["ok2"]
