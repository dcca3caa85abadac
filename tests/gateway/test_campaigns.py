"""Campaigns over HTTP, and their feeder: killed at any step it loses nobody and writes to nobody twice."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Clock
from tests.gateway.conftest import PHONE, Gate, OpenGate, make_settings
from wa_orchestrator.context import Context
from wa_orchestrator.domain.campaigns.recipients import Recipient
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.gateway.campaigns.feeder import CampaignFeeder
from wa_orchestrator.messages.session_pace import BAN_SIGNAL
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.campaigns import campaign_answers, campaign_records, campaign_rows
from wa_orchestrator.store.engine.scripts import Reply, Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import contacts, holds
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.timestamps import FOREVER_MS

BODY = {
    "name": "Price list",
    "text": "Hello {{name}}, the price list is here. To stop, answer STOP.",
    "consent": "They ticked the box on the order form.",
}


def _csv(count: int) -> str:
    return "phone,name\n" + "".join(f"97250100{n:04d},Person {n}\n" for n in range(count))


async def _draft(gate: Gate, count: int = 5, **changes: Any) -> dict[str, Any]:
    answer = await gate.client.post("/api/v1/campaigns", json={**BODY, "csv": _csv(count), **changes})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def _do(gate: Gate, campaign: dict[str, Any], action: str) -> dict[str, Any]:
    answer = await gate.client.post(f"/api/v1/campaigns/{campaign['id']}/{action}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def _started(gate: Gate, count: int = 5, **changes: Any) -> dict[str, Any]:
    return await _do(gate, await _draft(gate, count, **changes), "start")


async def _get(gate: Gate, campaign: dict[str, Any]) -> dict[str, Any]:
    return dict((await gate.client.get(f"/api/v1/campaigns/{campaign['id']}")).json())


async def _messages(gate: Gate) -> list[records.Message]:
    return [each for each in await records.messages(gate.scripts, await _ids(gate)) if each.batch]


async def _ids(gate: Gate) -> list[str]:
    return sorted([key.removeprefix("message:") async for key in gate.redis.scan_iter("message:m_*")])


async def _all_leave(gate: Gate) -> list[str]:
    """What waits has been sent; return to whom, one for each place in the queue."""
    waiting = {message.id: message for message in await _messages(gate) if message.status == "queued"}
    for message in waiting.values():
        await gate.redis.hset(keys.message(message.id), mapping={"status": "sent", "sent_at": message.accepted_at})
    jobs = await gate.queued()
    await gate.redis.delete(keys.GATEWAY_JOBS, keys.GATEWAY_WAITING)
    return [waiting[job].to for job in jobs if job in waiting]


async def test_a_draft_says_when_it_would_end_and_writes_to_nobody(gate: Gate) -> None:
    draft = await _draft(gate, 30)
    await gate.gateway.campaigns.step()
    assert not await _messages(gate)
    assert (draft["state"], draft["recipients"], draft["counts"]["waiting"]) == ("draft", 30, 30)
    assert draft["endsAt"] > "2025"
    assert sum(each["messages"] for each in draft["days"]) == 30
    longer = await _draft(gate, 2000)
    assert longer["endsAt"] > draft["endsAt"]
    per_day = (await records.sessions(gate.scripts))[0]
    assert len(longer["days"]) > 1, per_day  # a fifth of each day is kept for replies


async def test_a_draft_ends_after_the_campaigns_that_are_sending_from_its_phones(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    alone = await _draft(gate, 5, sessions=["w1"])
    first = await _started(gate, 400, sessions=["w1"])
    behind = await _draft(gate, 5, sessions=["w1"])
    assert behind["endsAt"] > first["endsAt"] > alone["endsAt"]
    assert sum(each["messages"] for each in behind["days"]) == 5
    elsewhere = await _draft(gate, 5, sessions=["w2"])
    assert elsewhere["endsAt"] < first["endsAt"]


async def test_the_campaign_that_was_started_first_is_sent_first(gate: Gate) -> None:
    drafts = sorted([await _draft(gate, 4, name=f"No. {n}") for n in range(4)], key=lambda each: str(each["id"]))
    drafts.reverse()  # the order of their ids is not that of their starts
    for place, draft in enumerate(drafts):
        await _do(gate, draft, "start")
        await gate.redis.hset(keys.campaign(draft["id"]), "started_at", 1_000 + place)
    await gate.gateway.campaigns.step()
    assert {each.batch.removeprefix("b_") for each in await _messages(gate)} == {drafts[0]["id"].removeprefix("c_")}


async def test_a_draft_tells_what_stands_in_single_braces_and_fills_nothing(gate: Gate) -> None:
    assert (await _draft(gate))["singleBraced"] == []
    assert (await _draft(gate, text="Hi {name} {{name}}. To stop, answer STOP."))["singleBraced"] == ["name"]


async def test_a_campaign_sends_its_text_with_the_fields_of_each_recipient(gate: Gate) -> None:
    campaign = await _started(gate, 3)
    await gate.gateway.campaigns.step()
    found = {each.to: each.body for each in await _messages(gate)}
    assert found == {
        f"97250100{n:04d}": f'{{"kind": "text", "text": "Hello Person {n}, the price list is here. To stop, answer STOP."}}'
        for n in range(3)
    }
    await _all_leave(gate)
    await gate.gateway.campaigns.step()
    await gate.gateway.campaigns.step()
    done = await _get(gate, campaign)
    assert (done["state"], done["counts"]["sent"], done["counts"]["waiting"]) == ("done", 3, 0)


async def test_only_a_few_messages_wait_in_a_queue_at_a_time(gate: Gate) -> None:
    await _started(gate, 50)
    for _ in range(3):
        await gate.gateway.campaigns.step()
    assert len(await _messages(gate)) == 3


async def test_a_text_that_does_not_say_how_to_stop_is_refused(gate: Gate) -> None:
    answer = await gate.client.post("/api/v1/campaigns", json={**BODY, "text": "Buy now, {{name}}", "csv": _csv(2)})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "CAMPAIGN_NO_STOP_WORD")


async def test_a_row_without_its_field_is_refused_with_its_line_unless_it_may_be_left_out(gate: Gate) -> None:
    body = {**BODY, "csv": "phone,name\n972501000001,Dana\n972501000002,\n"}
    answer = await gate.client.post("/api/v1/campaigns", json=body)
    assert answer.json()["error"]["code"] == "CAMPAIGN_LINES"
    assert answer.json()["error"]["errors"] == [
        {"path": "csv.3", "code": "FIELD_EMPTY", "message": "Line 3: {{name}} is empty.", "line": 3, "value": "name"}
    ]
    assert (await _draft(gate, 0, csv=body["csv"], skipBadLines=True))["recipients"] == 1


async def _becomes_known(gate: Gate, lid: str) -> None:
    """Somebody writes who is known by this LID alone."""
    written = contacts.Incoming("w1", PHONE, f"3EB0{lid}", "text", contact_lid=lid)
    await contacts.receive(gate.scripts, written, keep_ms=60_000)


async def test_digits_that_are_the_lid_of_a_person_are_no_recipient(gate: Gate) -> None:
    lids = ["123456789012345", "123456789012346"]
    file = f"phone,name\n972501000001,Dana\n{lids[0]},Gil\n{lids[1]},Ben\n"
    await _becomes_known(gate, lids[0])
    answer = await gate.client.post("/api/v1/campaigns", json={**BODY, "csv": file})
    [error] = answer.json()["error"]["errors"]
    assert (error["line"], error["code"], error["value"]) == (3, "RECIPIENT_IS_LID", lids[0])
    campaign = await _started(gate, 0, csv=file, skipBadLines=True)
    assert campaign["recipients"] == 2
    await _becomes_known(gate, lids[1])
    await gate.gateway.campaigns.step()
    assert [each.to for each in await _messages(gate)] == ["972501000001"]
    assert (await _get(gate, campaign))["counts"]["failed"] == 1


async def test_nobody_is_written_to_without_a_word_on_where_they_agreed(gate: Gate) -> None:
    answer = await gate.client.post("/api/v1/campaigns", json={**BODY, "consent": "", "csv": _csv(2)})
    assert answer.json()["error"]["errors"][0]["path"] == "consent"
    await _started(gate, 1)
    started = [each.fields for each in await event_stream.read(gate.scripts, keys.AUDIT)]
    assert BODY["consent"] in next(each for each in started if each["action"] == "campaign.start")["details"]


async def test_the_audit_log_has_what_was_done_with_a_campaign_and_nothing_that_was_refused(gate: Gate) -> None:
    campaign = await _started(gate, 1)
    await _do(gate, campaign, "start")  # a repetition
    await _do(gate, campaign, "cancel")
    for action in ("start", "pause", "resume"):
        answer = await gate.client.post(f"/api/v1/campaigns/{campaign['id']}/{action}")
        assert answer.json()["error"]["code"] == "CAMPAIGN_STATE"
    audited = [each.fields["action"] for each in await event_stream.read(gate.scripts, keys.AUDIT)]
    assert audited == ["campaign.create", "campaign.start", "campaign.cancel"]


async def test_who_has_opted_out_is_left_out_also_while_it_runs(gate: Gate) -> None:
    await contacts.opt_out(gate.scripts, "972501000000", word="", via="api")
    campaign = await _started(gate, 3)
    assert (campaign["recipients"], campaign["optedOutBefore"]) == (2, 1)
    await contacts.opt_out(gate.scripts, "972501000001", word="", via="api")
    await gate.gateway.campaigns.step()
    assert [each.to for each in await _messages(gate)] == ["972501000002"]
    assert (await _get(gate, campaign))["counts"]["optedOut"] == 1


async def test_a_pause_takes_back_what_waits_and_a_resume_writes_to_nobody_twice(gate: Gate) -> None:
    campaign = await _started(gate, 5)
    await gate.gateway.campaigns.step()
    await _do(gate, campaign, "pause")
    await gate.gateway.campaigns.step()
    paused = await _get(gate, campaign)
    assert (paused["state"], paused["pausedBecause"], paused["counts"]["waiting"]) == ("paused", "OPERATOR", 5)
    assert {each.status for each in await _messages(gate)} == {"cancelled"}
    await _do(gate, campaign, "resume")
    for _ in range(6):
        await gate.gateway.campaigns.step()
        await _all_leave(gate)
    sent = Counter(each.to for each in await _messages(gate) if each.status == "sent")
    assert len(sent) == 5
    assert set(sent.values()) == {1}


async def test_a_pause_and_a_resume_write_nothing_new_to_a_person_who_may_have_the_message_already(gate: Gate) -> None:
    campaign = await _started(gate, 3)
    await gate.gateway.campaigns.step()
    tried, *_ = await _messages(gate)
    await gate.redis.hset(keys.message(tried.id), "in_doubt", "1")  # WhatsApp never answered; it is about to be retried
    await _do(gate, campaign, "pause")
    await gate.gateway.campaigns.step()
    await _do(gate, campaign, "resume")
    await gate.gateway.campaigns.step()
    await gate.gateway.campaigns.step()
    assert [each.status for each in await _messages(gate) if each.to == tried.to] == ["unknown"]
    assert (await _get(gate, campaign))["counts"]["unknown"] == 1


async def test_a_cancelled_campaign_writes_to_nobody_any_more(gate: Gate) -> None:
    campaign = await _started(gate, 5)
    await gate.gateway.campaigns.step()
    await _do(gate, campaign, "cancel")
    for _ in range(3):
        await gate.gateway.campaigns.step()
    assert {each.status for each in await _messages(gate)} == {"cancelled"}
    ended = await _get(gate, campaign)
    assert (ended["counts"]["cancelled"], ended["counts"]["waiting"]) == (3, 2)
    answer = await gate.client.post(f"/api/v1/campaigns/{campaign['id']}/resume")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CAMPAIGN_STATE")


async def test_a_ban_signal_pauses_it_until_a_person_has_seen_that(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    campaign = await _started(gate, 5)
    await holds.put(gate.scripts, Hold("phone:972500000002", FOREVER_MS, BAN_SIGNAL, "server"))
    await gate.gateway.campaigns.step()
    assert (await _get(gate, campaign))["pausedBecause"] == "BAN_SIGNAL"
    kinds = [each.fields["type"] for each in await event_stream.latest(gate.scripts, most=5)]
    assert "campaign.paused_itself" in kinds
    await _do(gate, campaign, "resume")
    await gate.gateway.campaigns.step()
    assert (await _get(gate, campaign))["state"] == "sending"
    assert {each.session for each in await _messages(gate)} == {"w1"}


async def test_an_account_that_was_linked_yesterday_sends_no_campaign(gates: OpenGate) -> None:
    gate = await gates()
    now_ms = await gate.scripts.now_ms()
    await gate.add_session("new", first_connected_at=now_ms - 86_400_000)
    campaign = await _started(gate, 2)
    assert (campaign["senders"], campaign["coldSenders"], campaign["endsAt"]) == (0, 1, None)
    await gate.gateway.campaigns.step()
    assert (await _get(gate, campaign))["pausedBecause"] == "NO_SENDER"
    assert not await _messages(gate)


async def test_the_word_of_one_phones_worker_leaves_nobody_out(gate: Gate) -> None:
    await contacts.opt_out_from(gate.scripts, "972501000000", phone="972500000009")
    campaign = await _draft(gate, 2)
    assert (campaign["recipients"], campaign["optedOutBefore"]) == (2, 0)


async def test_who_answered_and_who_opted_out_since_is_told_apart(gate: Gate) -> None:
    await gate.gateway.campaigns.step()
    campaign = await _started(gate, 3)
    await gate.gateway.campaigns.step()
    await _all_leave(gate)
    for number, text in (("972501000000", "hello"), ("972501000001", "STOP")):
        incoming = contacts.Incoming("w1", "972500000001", f"wa-{number}", "text", contact_phone=number)
        await contacts.receive(gate.scripts, incoming, keep_ms=60_000)
        if text == "STOP":
            await contacts.opt_out(gate.scripts, number, word="STOP", via="reply", session="w1")
    await gate.gateway.campaigns.step()
    found = await _get(gate, campaign)
    assert (found["answered"], found["optedOutSince"]) == (2, 1)
    path = f"/api/v1/campaigns/{campaign['id']}/recipients"
    answered = (await gate.client.get(path, params={"status": "answered", "limit": 1})).json()
    assert [each["to"] for each in answered["recipients"]] == ["972501000000"]
    rest = (await gate.client.get(path, params={"status": "answered", "cursor": answered["next"]})).json()
    assert [(each["to"], each["optedOutSince"]) for each in rest["recipients"]] == [("972501000001", True)]
    assert rest["next"] is None


async def test_what_another_phones_worker_reports_is_no_answer_to_the_campaign(gate: Gate) -> None:
    await gate.gateway.campaigns.step()
    campaign = await _started(gate, 2)
    await gate.gateway.campaigns.step()
    await _all_leave(gate)
    for phone, number in (("972500000009", "972501000000"), ("972500000001", "972501000001")):
        said = contacts.Incoming("another", phone, f"wa-{number}", "text", contact_phone=number)
        await contacts.receive(gate.scripts, said, keep_ms=60_000)
    await gate.gateway.campaigns.step()
    path = f"/api/v1/campaigns/{campaign['id']}/recipients"
    answered = (await gate.client.get(path, params={"status": "answered"})).json()["recipients"]
    assert [each["to"] for each in answered] == ["972501000001"]  # to the phone that wrote, by whichever device


async def test_an_answer_counts_although_the_feeder_died_before_it_noted_it(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gate.gateway.campaigns.step()
    campaign = await _started(gate, 1)
    await gate.gateway.campaigns.step()
    incoming = contacts.Incoming("w1", "972500000001", "wa-1", "text", contact_phone="972501000000")
    await contacts.receive(gate.scripts, incoming, keep_ms=60_000)
    with monkeypatch.context() as patched:

        async def die(*_: Any) -> None:
            raise SystemError

        patched.setattr(campaign_answers, "events_noted", die)
        with pytest.raises(SystemError):
            await gate.gateway.campaigns.step()
    await gate.gateway.campaigns.step()
    assert (await _get(gate, campaign))["answered"] == 1


class Dying(Scripts):
    """Scripts of a process that is killed at its nth call of a script, before or after Redis has carried it out."""

    def __init__(self, alive: Scripts, calls: int, *, after: bool) -> None:
        super().__init__(alive.redis, clock="")
        self._text, self._digest = alive._text, alive._digest
        self._left, self._after = calls, after

    async def run(self, name: str, keys: Any, args: Any = ()) -> Reply:
        if name == "now":
            return await super().run(name, keys, args)
        self._left -= 1
        if self._left < 0 or (self._left == 0 and not self._after):
            raise SystemError("killed")
        reply = await super().run(name, keys, args)
        if self._left == 0:
            raise SystemError("killed")
        return reply


async def _step_until_killed(feeder: CampaignFeeder) -> None:
    for _ in range(10):
        await feeder.step()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_feeder_killed_at_every_step_loses_nobody_and_writes_to_nobody_twice(
    gates: OpenGate, tmp_path: Path, after: bool
) -> None:
    gate = await gates()
    await gate.add_session()
    campaign = await _started(gate, 7)
    settings = make_settings(tmp_path, gateway_hot_path=False)
    sent: Counter[str] = Counter()
    for calls in range(1, 25):
        # Each life is another process: it knows only what is in Redis, and the lease of the one before has run out.
        await gate.redis.delete(keys.lease("campaigns"))
        if calls in (6, 14):
            await _do(gate, campaign, "pause")
        if calls in (9, 17):
            await _do(gate, campaign, "resume")
        dying = Dying(gate.scripts, calls % 8 + 1, after=after)
        feeder = Gateway(Context(settings, dying.redis, dying)).campaigns
        with pytest.raises(SystemError):
            await _step_until_killed(feeder)
        if calls % 3:
            sent.update(await _all_leave(gate))
        # What was handed over a day ago has no idempotency record any more.
        stale = [key async for key in gate.redis.scan_iter("idempotency:*")]
        if stale:
            await gate.redis.delete(*stale)
    for _ in range(10):
        await gate.redis.delete(keys.lease("campaigns"))
        await gate.gateway.campaigns.step()
        sent.update(await _all_leave(gate))
    assert sorted(sent) == [f"97250100{n:04d}" for n in range(7)]
    assert set(sent.values()) == {1}
    tally = await campaign_rows.tally(gate.scripts, campaign["id"])
    assert (tally.waiting, tally.by_status) == (0, {"sent": 7})


async def test_a_server_killed_while_it_stores_recipients_leaves_no_campaign(gate: Gate) -> None:
    people = [Recipient(n, Phone(f"97250100{n:04d}"), {"name": "x"}) for n in range(700)]
    await campaign_records.stage(gate.scripts, "c_000000000000000001", people)
    assert (await gate.client.get("/api/v1/campaigns")).json() == {"campaigns": []}
    left = [key async for key in gate.redis.scan_iter("campaign:*")]
    assert left
    assert all([await gate.redis.ttl(key) > 0 for key in left])


async def test_an_erased_person_is_in_no_campaign_any_more(gate: Gate) -> None:
    campaign = await _started(gate, 2)
    await campaign_rows.erase_recipient(gate.scripts, "972501000000")
    await gate.gateway.campaigns.step()
    assert [each.to for each in await _messages(gate)] == ["972501000001"]
    stored = [str(await gate.redis.hgetall(key(campaign["id"]))) for key in (keys.campaign_rows, keys.campaign_phones)]
    assert "972501000000" not in "".join(stored)


async def test_campaigns_are_erased_as_long_after_their_end_as_messages(gate: Gate, clock: Clock) -> None:
    campaign = await _draft(gate, 2)
    await _do(gate, campaign, "cancel")
    days = gate.gateway.context.settings.message_retention_days
    await clock.set(clock.now_ms + (days + 1) * 86_400_000)
    await gate.gateway.campaigns.step()
    assert [key async for key in gate.redis.scan_iter("campaign:*")] == []
