"""The radar adds up what the sessions met: since when, and how many of all."""

from tests.messages.conftest import MessageApi
from wa_orchestrator.domain.workers import event_parser
from wa_orchestrator.orchestrator.api.radar import view
from wa_orchestrator.orchestrator.messages import drift_reports
from wa_orchestrator.store import records
from wa_orchestrator.store.events import drift


async def met(api: MessageApi, session: str, *shapes: str) -> None:
    told = [{"shape": shape, "count": 2, "firstAt": 1, "lastAt": 2} for shape in shapes]
    raw = {"sessionId": session, "type": "PROTOCOL_DRIFT", "timestamp": 1, "epoch": 1, "data": {"shapes": told}}
    event = event_parser.parse(raw)
    known = await records.session(api.context.scripts, session)
    assert known is not None
    await drift_reports.on_protocol_drift(api.context, known, event)  # type: ignore[arg-type]


async def test_a_shape_is_shown_since_the_first_session_met_it_with_the_number_of_sessions(api: MessageApi) -> None:
    await api.scenario.connect("w2", "972501234999")
    await met(api, "w1", "ack.error:479", "<script>:1", "stanza:<b>")
    await met(api, "w2", "ack.error:479")
    [record] = await drift.everything(api.context.scripts)
    shown = view(record, 200)
    assert (shown.shape, shown.sessions, shown.all_sessions, shown.count) == ("ack.error:479", 2, 200, 4)
    assert shown.text == "unknown error 479 in the answer to a message"


async def test_a_shape_that_nobody_met_for_a_month_is_new_again(api: MessageApi) -> None:
    await met(api, "w1", "ack.error:479")
    before = (await drift.everything(api.context.scripts))[0].first_at_ms
    await api.context.redis.set("test:clock", before + 31 * 86_400_000)
    assert await drift.everything(api.context.scripts) == []
    await met(api, "w1", "ack.error:479")
    [record] = await drift.everything(api.context.scripts)
    assert (record.first_at_ms, record.count) == (before + 31 * 86_400_000, 2)
