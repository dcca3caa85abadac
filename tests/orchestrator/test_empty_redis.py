"""Redis comes back without its data: what the settings and the disk know is used, and the operator is told."""

import sqlite3
from contextlib import closing
from typing import Any

import httpx

from tests.orchestrator.fakes import FakeRunner
from tests.orchestrator.session_steps import started
from wa_orchestrator.orchestrator.installation_check import check_installation
from wa_orchestrator.orchestrator.notifications.alert_texts import alert_of, text_of
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.store import keys, records


def opened_by(control: Orchestrator, session_id: str, epoch: int) -> None:
    """The session's directory, as a worker of this epoch leaves it."""
    directory = credential_files.directory(control.context.settings, session_id)
    directory.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(directory / credential_files.DATABASE)) as database:
        database.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL)")
        database.execute("INSERT INTO meta VALUES ('epoch', ?)", (epoch,))
        database.commit()


async def test_a_session_that_is_made_again_is_not_fenced_by_its_own_directory(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    opened_by(control, "s1", epoch=41)
    await started(control, api, "s1")
    assert runner.epochs()["s1"] == 42


async def test_an_emptied_redis_is_set_up_again_and_reported_once(control: Orchestrator) -> None:
    opened_by(control, "s1", epoch=41)
    for _ in range(2):
        await control.context.redis.flushall()
        for _ in range(2):
            await check_installation(control.context)
        known = {proxy.url for proxy in await records.proxies(control.context.scripts)}
        assert known == {each.get_secret_value() for each in control.context.settings.proxy_urls}
        written: Any = await control.context.redis.xrange(keys.EVENTS)
        (told,) = [fields for _, fields in written if fields["type"] == "server.redis_emptied"]
        assert told["sessions"] == "1"
        alert = alert_of(told)
        assert alert is not None
        assert "came back empty" in text_of([alert], "en")


async def test_a_new_installation_is_not_reported_as_emptied(control: Orchestrator) -> None:
    await check_installation(control.context)
    written: Any = await control.context.redis.xrange(keys.EVENTS)
    assert [fields for _, fields in written if fields["type"] == "server.redis_emptied"] == []
