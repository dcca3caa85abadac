"""A server with DEFAULT_COUNTRY: local numbers are taken everywhere, and found."""

from pathlib import Path

import httpx

from tests.processes import whole_server
from tests.waiting import PATIENCE_S

LOCAL, WHOLE = "050-123 4567", "972501234567"


def test_local_numbers_are_taken_and_searched(tmp_path: Path) -> None:
    with (
        whole_server(tmp_path, DEFAULT_COUNTRY="972", TIMEZONE="UTC") as (url, key),
        httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=PATIENCE_S) as api,
    ):
        added = api.post("/api/v1/opt-outs", json={"phone": LOCAL})
        assert (added.status_code, added.json()["phone"]) == (201, WHOLE), added.text
        refused = api.post("/api/v1/send", json={"to": LOCAL, "message": "x"})
        assert refused.json()["error"]["code"] in ("OPTED_OUT", "NO_SENDER"), refused.text
        found = api.get("/api/v1/messages", params={"to": LOCAL})
        assert (found.status_code, found.json()["messages"]) == (200, [])
        listed = api.post("/api/v1/opt-outs/import", json={"text": f"phone\n{LOCAL}\n054 765 4321\n"}).json()
        assert (listed["known"], listed["added"], listed["errors"]) == (1, 1, [])


def test_without_a_default_country_they_are_refused(tmp_path: Path) -> None:
    with whole_server(tmp_path, TIMEZONE="UTC") as (url, key):
        body, headers = {"to": LOCAL, "message": "x"}, {"X-API-Key": key}
        answer = httpx.post(f"{url}/api/v1/send", headers=headers, json=body, timeout=PATIENCE_S)
        assert answer.status_code == 422
        assert "972501234567" in answer.text
