"""What a worker asks often costs few round trips: an event is one script call, for which Redis syncs once."""

from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import Teller
from tests.orchestrator.session_steps import PHONE, started
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.orchestrator.messages.outbox_service import OutboxService
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.redis_line import Command, OnReplies, RedisLine
from wa_orchestrator.store.messages import admission, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place

FRIEND = Phone("972510000001")
MESSAGE, WHATSAPP_ID = "m_" + "a" * 18, "3EB0" + "A" * 18
DAY_MS = 86_400_000


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the commands of each round trip to Redis."""
    made: list[list[str]] = []
    send = RedisLine.send

    def counted(line: RedisLine, commands: Any, on_replies: OnReplies) -> None:
        made.append([_name(command) for command in commands])
        send(line, commands, on_replies)

    monkeypatch.setattr(RedisLine, "send", counted)
    return made


def _name(command: Command) -> str:
    return str(command[0])


async def _released(control: Orchestrator) -> None:
    """A message that the session's worker may claim."""
    scripts, place = control.context.scripts, Place(MESSAGE, PHONE, "s1")
    now_ms = await scripts.now_ms()
    new = admission.NewMessage(MESSAGE, WHATSAPP_ID, PHONE, "s1", FRIEND)
    await admission.accept(scripts, new, admission.Room(1000, 1000, now_ms))
    await queues.route(scripts, place, to=FRIEND)
    far_ms = now_ms + DAY_MS
    await queues.release(scripts, place, queues.Permit(0, 100, 1000, 0, far_ms, 0, far_ms, 60_000), other_name=FRIEND)


async def _sending(control: Orchestrator) -> None:
    """A message that the session's worker has claimed."""
    await _released(control)
    await outbox.claim(control.context.scripts, "s1", phone=PHONE, epoch=1, lease_ms=60_000)


PING = ("PING", {"socket": "open", "lagMs": 3, "rssBytes": 17_000_000, "lastTrafficAt": 1})
SENT = ("MESSAGE_SENT", {"messageId": MESSAGE, "whatsappId": WHATSAPP_ID})
READ = ("MESSAGE_STATUS", {"whatsappId": WHATSAPP_ID, "status": "read", "at": 1})
OWN = ("MESSAGE_STATUS", {"whatsappId": "ABCDEF", "status": "read", "at": 1})
RECEIVED = (
    "MESSAGE_RECEIVED",
    {"whatsappId": "3AEE", "from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND, "kind": "text", "text": "hi", "at": 2e12},
)  # fmt: skip
UNKNOWN = ("FROM_THE_FUTURE", {"x": 1})
READS = {"HGET", "HMGET", "GET", "TIME", "ZRANGEBYLEX"}


@pytest.mark.parametrize(
    ("event", "trips"),
    [(PING, 1), (UNKNOWN, 1), (OWN, 1), (SENT, 2), (READ, 2), (RECEIVED, 3)],
    ids=["ping", "unknown", "own", "sent", "read", "received"],
)
async def test_a_frequent_event_is_one_script_call_after_one_read_or_two_for_a_message(
    control: Orchestrator,
    api: httpx.AsyncClient,
    teller: Teller,
    rounds: list[list[str]],
    event: tuple[str, dict[str, Any]],
    trips: int,
) -> None:
    await started(control, api)
    assert (await teller.connected("s1", PHONE)).status_code == 200
    await _sending(control)
    await control.context.scripts.load()
    rounds.clear()
    answer = await teller.tell("s1", *event, epoch=1, webhook_id="evt_counted")
    assert answer.status_code == 200, answer.text
    assert len(rounds) == trips
    assert rounds[-1] == ["EVALSHA"]
    for reads in rounds[:-1]:
        assert set(reads) <= READS
    again = await teller.tell("s1", *event, epoch=1, webhook_id="evt_counted")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "DUPLICATE")


async def test_a_claim_is_one_read_the_script_and_the_message(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, rounds: list[list[str]]
) -> None:
    await started(control, api)
    assert (await teller.connected("s1", PHONE)).status_code == 200
    await _released(control)
    session = await records.session(control.context.scripts, "s1")
    assert session is not None
    rounds.clear()
    claimed = await OutboxService(control.context).claim(session)
    assert claimed is not None
    assert claimed[0].id == MESSAGE
    assert rounds == [["HGET", "LINDEX"], ["EVALSHA"], ["HGETALL"]]


async def test_one_write_of_redis_log_holds_an_event_and_its_mark(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    assert (await teller.connected("s1", PHONE)).status_code == 200
    redis = control.context.redis
    before = await redis.info("commandstats")
    assert (await teller.tell("s1", *PING, epoch=1, webhook_id="evt_p")).status_code == 200
    after = await redis.info("commandstats")
    calls = {name: after[name]["calls"] - before.get(name, {"calls": 0})["calls"] for name in after}
    assert calls["cmdstat_evalsha"] == 1
    assert calls["cmdstat_set"] == 1  # the mark of the event, within the script
    assert await redis.exists(keys.heard("s1", "evt_p"))
