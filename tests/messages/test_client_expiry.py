"""WhatsApp tells every session when it will refuse their client version: people are told once."""

import json

from tests.messages.conftest import MessageApi
from wa_orchestrator.domain.workers import event_parser
from wa_orchestrator.orchestrator.sessions import client_expiry
from wa_orchestrator.store import records
from wa_orchestrator.store.events import event_stream

AT_MS = 1_900_000_000_000


async def told(api: MessageApi, session: str, expires_at_ms: int) -> None:
    data = {"expiresAt": expires_at_ms, "revision": 1043857760}
    raw = {"sessionId": session, "type": "CLIENT_EXPIRATION", "timestamp": 1, "epoch": 1, "data": data}
    known = await records.session(api.context.scripts, session)
    assert known is not None
    await client_expiry.on_client_expiration(api.context, known, event_parser.parse(raw))  # type: ignore[arg-type]


async def said(api: MessageApi) -> list[tuple[str, str]]:
    """The type and the date of each announcement, the oldest first."""
    entries = [each.fields for each in await event_stream.read(api.context.scripts, after="0", most=100)]
    ours = [each for each in entries if each["type"].startswith("client.")]
    return [(each["type"], json.loads(each["details"])["date"]) for each in ours]


async def test_the_same_day_told_by_two_sessions_is_one_alert_and_a_sooner_day_is_another(api: MessageApi) -> None:
    await api.scenario.connect("w2", "972501234999")
    await told(api, "w1", AT_MS)
    await told(api, "w2", AT_MS)
    await told(api, "w2", AT_MS + 86_400_000)
    assert await said(api) == [("client.expires", "2030-03-17")]
    await told(api, "w2", AT_MS - 86_400_000)
    assert (await said(api))[1:] == [("client.expires", "2030-03-16")]


async def test_a_day_that_is_withdrawn_is_told_once_and_may_be_announced_again(api: MessageApi) -> None:
    await told(api, "w1", 0)
    assert await said(api) == []
    for expires_at_ms in (AT_MS, 0, 0, AT_MS):
        await told(api, "w1", expires_at_ms)
    assert [name for name, _ in await said(api)] == ["client.expires", "client.expiry_withdrawn", "client.expires"]


async def test_a_day_that_no_calendar_has_stops_nobody(api: MessageApi) -> None:
    await told(api, "w1", 10**17)
    assert [name for name, _ in await said(api)] == ["client.expires"]
