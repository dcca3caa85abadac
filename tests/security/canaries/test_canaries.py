"""Planted secrets are in no log, metric, alert, page, note of a backup or error, over a run that provokes the errors.

The process list is `tests/e2e/test_way_of_a_message.py`'s, which has processes.
"""

import io
import re
from pathlib import Path
from typing import Final

import pytest
from redis.asyncio import Redis

from tests.error_codes import ingredients, refusals
from tests.security.canaries import planted
from tests.security.canaries.error_tour import ErrorTour
from tests.security.fleet import two_customers
from tests.test_logs import logging_to
from wa_orchestrator.dashboard import login_throttle
from wa_orchestrator.dashboard.app import PAGES
from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.orchestrator.api import contacts
from wa_orchestrator.orchestrator.api.sessions import changes as sessions
from wa_orchestrator.orchestrator.api.sessions import passkeys
from wa_orchestrator.settings import Settings

#: What the words of a refusal are made of, where it can be no secret. First what its own name says: an id, a state, a number.
NAMED: Final = re.compile(r"(\w+\.)*(\w+_)?(id|name|node|state|status|count|number|epoch|ms|bytes|version)(\[:\d+\])?")
#: And others: names, words from closed lists, paths, what the operating system says.
HARMLESS: Final = frozenset(
    {
        "body.group", "body.to", "message.session", "min(missing)", "list(changes.older)", "await _create(context, request)",
        "most", "len(changes.older)", "len(problems)", "len(proxy.sessions)", "iso(sender.reopens_ms)",
        "max(1, math.ceil((sender.reopens_ms - now_ms) / 1000))", "passwords.SHORTEST", "sender.pace.per_day",
        "uploads.LARGEST[kind]", "sum((file.bytes for file in manifest.files))", "str(campaign.state)", "field",
        "outcome.reason", "str(Reason.BANNED)", "', '.join(COLUMNS)", "list(words)", "words[0]", "', '.join(words)",
        "error.strerror", "data_dir", "bundle or BUILT_BUNDLE", "Path(tempfile.gettempdir(), name)",
        "(await placement.inventory(self._context))['free'] - free_slots(proxy, self._settings.max_sessions_per_proxy)",
        "[each for name in body.override().raises_above(preset) for each in _API_NAMES[name]]",
    }
)  # fmt: skip
#: Codes that say more, and that this run cannot provoke.
ELSEWHERE: Final = {
    "BAD_PACE": "a sentence of domain/pacing/limits.py for one field; requests are refused before it",
    "BAD_QUESTION": "names a field, between the server and its runner (tests/runner)",
    "BAD_RECIPIENT": "a fixed sentence of domain/recipient.py; requests meet it as VALIDATION_FAILED",
    "DOCKER_UNAVAILABLE": "an engine's words, which the runner's tests search for secrets (tests/runner)",
    "HOURS_NEVER_OPEN": "names a level of trust (tests/messages)",
    "KUBERNETES_UNAVAILABLE": "an engine's words (tests/runner)",
    "NO_NODE_FOR_WORKER": "an engine's words (tests/runner)",
    "NO_PROFILE_FREE": "names profiles of the list (tests/orchestrator)",
    "REDIS_DID_NOT_START": "the end of Redis' own log, at a start that fails (tests/store)",
    "RISK": "names limits and a level of trust (tests/messages)",
    "WORKER_DID_NOT_START": "an engine's words (tests/runner)",
}


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no workers to wait for, and no people to slow down."""
    waits = ("_REMOVED_WITHIN_S", "_CODE_WITHIN_S", "_REPORTED_WITHIN_S")
    for module, name in ((contacts, "_WAIT_S"), (passkeys, "_WITHIN_S"), *((sessions, each) for each in waits)):
        monkeypatch.setattr(module, name, 0.01)
    monkeypatch.setattr(login_throttle, "LONGEST_S", 0)


async def test_no_planted_secret_is_said_to_anybody_whatever_goes_wrong(redis: Redis, tmp_path: Path) -> None:
    log = io.StringIO()
    with logging_to(log):
        settings = planted.settings() | {"cold_hours": "00:00-00:00"}
        tour = ErrorTour(await two_customers(redis, tmp_path / "data", **settings))
        for stage in (tour.plant, tour.clients, tour.workers, tour.backups, tour.receivers, tour.pages, tour.broken):
            await stage()
        await tour.redis_away()
    tour.said.add("log", log.getvalue())
    assert tour.said.leaks() == []
    made_of = {code: {each for each in said if not _is_harmless(each)} for code, said in ingredients().items()}
    assert {code: made_of[code] for code in refusals() - tour.met if made_of.get(code) and code not in ELSEWHERE} == {}
    assert ELSEWHERE.keys() <= {code for code, said in made_of.items() if said} - tour.met, "a code that needs no word"
    assert {*PAGES, *Failure, "alerts", "note of a backup", "/metrics"} <= {where for where, *_ in tour.said.texts}
    assert tour.met >= {"BROKEN", "VALIDATION_FAILED", "BACKUP_DAMAGED", "PROXY_UNREACHABLE", "REDIS_UNREACHABLE"}
    assert "request.failed" in log.getvalue()


def _is_harmless(expression: str) -> bool:
    return expression in HARMLESS or NAMED.fullmatch(expression) is not None


@pytest.mark.parametrize("name", planted.SECRETS)
def test_a_secret_that_is_said_is_found_however_it_is_spelled(name: str) -> None:
    for spelled in planted.spellings(planted.SECRETS[name]):
        said = planted.Said()
        said.add("log", f"proxy=socks5h://user:{spelled}@proxy.example.com")
        assert (name, "log") in {found[:2] for found in said.leaks()}


def test_every_setting_that_is_a_secret_is_planted() -> None:
    secret = {name for name, each in Settings.model_fields.items() if "SecretStr" in str(each.annotation)}
    given = planted.settings()
    assert secret - set(given) == {"redis_url", "archive_url", "alert_webhook_secret_previous"}
