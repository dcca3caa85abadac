"""Alerts: grouped, paced, never lost by an outage of the receiver, and without secrets."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from pydantic import SecretStr

from tests.orchestrator.fakes import Teller, drive
from tests.orchestrator.session_steps import PHONE, linked, now
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.domain.stream_events import CampaignChanged, EventType, ProxyPoolChanged
from wa_orchestrator.orchestrator.notifications import alert_texts, lasting_troubles
from wa_orchestrator.orchestrator.notifications.alert_channels import telegram_channel, webhook_channel
from wa_orchestrator.orchestrator.notifications.alert_texts import Alert
from wa_orchestrator.orchestrator.notifications.alerts import Alerts
from wa_orchestrator.orchestrator.notifications.daily_summary import emit_when_due
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.simulator.world import World
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.events import event_stream, webhooks
from wa_orchestrator.store.events.webhooks import Webhook


class Receiver:
    """Takes alerts, or is away."""

    name = "telegram"

    def __init__(self) -> None:
        self.away = False
        self.taken: list[Sequence[Alert]] = []

    async def deliver(self, alerts: Sequence[Alert]) -> float | None:
        if self.away:
            return 0
        self.taken.append(alerts)
        return None


async def tell(control: Orchestrator, kind: str, who: str, reason: str = "") -> None:
    fields = {"type": kind, "session": who, "reason": reason, "at": 1_750_000_000_000}
    await control.context.redis.xadd(keys.EVENTS, fields)  # type: ignore[arg-type]


@pytest.fixture
async def receiver() -> Receiver:
    return Receiver()


async def test_several_events_become_one_alert_and_each_is_told_once(control: Orchestrator, receiver: Receiver) -> None:
    alerts = Alerts(control.context, [receiver], gap_s=0)
    await alerts.step()
    for name in ("a", "b", "c"):
        await tell(control, "session.connected", name)
    await tell(control, "message.queued", "a")
    for _ in range(3):
        await alerts.step()
    assert [[alert.who for alert in taken] for taken in receiver.taken] == [["a", "b", "c"]]


async def test_an_outage_of_the_receiver_loses_nothing_and_a_restart_neither(
    control: Orchestrator, receiver: Receiver
) -> None:
    await Alerts(control.context, [receiver], gap_s=0).step()
    receiver.away = True
    for number in range(5):
        await tell(control, "session.failed", f"s{number}", "BANNED")
        await Alerts(control.context, [receiver], gap_s=0).step()
    receiver.away = False
    await Alerts(control.context, [receiver], gap_s=0).step()
    assert [alert.who for alert in receiver.taken[0]] == [f"s{number}" for number in range(5)]
    assert await control.context.redis.llen(keys.alerts("telegram")) == 0


async def test_two_who_deliver_the_same_alerts_at_once_lose_none_that_came_meanwhile(control: Orchestrator) -> None:
    class Slow(Receiver):
        async def deliver(self, alerts: Sequence[Alert]) -> float | None:
            if not self.taken:
                self.taken.append(())
                await Alerts(control.context, [self], gap_s=0)._deliver(self)
                await tell(control, "session.failed", "late")
                await Alerts(control.context, [self], gap_s=0).collect()
            return await super().deliver(alerts)

    receiver = Slow()
    alerts = Alerts(control.context, [receiver], gap_s=0)
    await alerts.collect()
    await tell(control, "session.failed", "early")
    await alerts.step()
    await alerts.step()
    assert [alert.who for taken in receiver.taken for alert in taken] == ["early", "early", "late"]


async def test_a_queue_that_nobody_takes_stays_bounded(control: Orchestrator, receiver: Receiver) -> None:
    receiver.away = True
    await Alerts(control.context, [receiver], gap_s=0).step()
    for number in range(1100):
        await tell(control, "session.connected", f"s{number}")
    for _ in range(6):
        await Alerts(control.context, [receiver], gap_s=0).step()
    assert await control.context.redis.llen(keys.alerts("telegram")) == 1000


async def test_a_restart_is_told_once_and_not_again_when_its_worker_starts(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, receiver: Receiver
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    alerts = Alerts(control.context, [receiver], gap_s=0)
    await alerts.step()
    await api.post("/api/sessions/s1/restart")
    await drive(control)
    assert (await now(control.context, "s1")).reason == "RECONNECTING"
    await alerts.step()
    assert [alert.reason for taken in receiver.taken for alert in taken] == ["RESTARTING"]


async def test_what_happened_before_the_first_start_is_no_news(control: Orchestrator, receiver: Receiver) -> None:
    await tell(control, "session.failed", "old")
    alerts = Alerts(control.context, [receiver], gap_s=0)
    for _ in range(2):
        await alerts.step()
    assert receiver.taken == []


def test_a_text_says_what_to_do_in_the_operators_language_and_counts_the_rest() -> None:
    alerts = [Alert("session.failed", f"s{number}", "BANNED", 0) for number in range(10)]
    english = alert_texts.text_of(alerts, "en")
    assert english.startswith("⛔ Session failed: s0, s1")
    assert "+2" in english
    assert "Request a review" in english
    assert alert_texts.text_of(alerts, "he") != english


async def test_a_real_connection_reaches_telegram_without_password_or_phone(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    async with World(proxies=1) as world, httpx.AsyncClient() as client:
        changes = {"telegram_api_url": world.telegram, "telegram_bot_token": _Secret(), "telegram_chat_id": "7"}
        settings = control.context.settings.model_copy(update=changes)
        alerts = Alerts(control.context, [telegram_channel(settings, client)], gap_s=0)
        await alerts.step()
        world.telegram_bot.fault("error", code=500)
        await linked(control, api, teller, "s1", PHONE)
        await alerts.step()
        world.telegram_bot.clear_faults()
        alerts._next.clear()
        await alerts.step()
        texts = [message["text"] for message in world.telegram_bot.received()]
    assert len(texts) == 1
    assert texts[0].startswith("✅ Connected: s1")
    assert PHONE not in texts[0]


class _Secret:
    def get_secret_value(self) -> str:
        return "123456789:AAExampleExampleExampleExample"


async def test_an_alert_names_the_label_the_last_digits_the_reason_and_a_link(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, receiver: Receiver
) -> None:
    await linked(control, api, teller, "s1", PHONE, label="Clinic Haifa")
    alerts = Alerts(control.context, [receiver], gap_s=0)
    await alerts.step()
    await teller.disconnected("s1", 401)
    await alerts.step()
    text = alert_texts.text_of(receiver.taken[0], "en", "https://wa.example.com")
    first, link = text.splitlines()
    assert first.startswith(f"⚠️ Unlinked on the phone: Clinic Haifa (…{PHONE[-4:]}) — This device was unlinked")
    assert link == "https://wa.example.com/sessions/s1"
    assert PHONE not in text


async def test_the_alert_of_a_suspension_says_when_it_ends(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, receiver: Receiver
) -> None:
    await linked(control, api, teller, "s1", PHONE, label="Clinic Haifa")
    alerts = Alerts(control.context, [receiver], gap_s=0)
    await alerts.step()
    ends_ms = await control.context.scripts.now_ms() + 3_600_000
    data = {"reason": "", "code": 402, "willReconnect": False, "expiresAt": ends_ms}
    await teller.tell("s1", "DISCONNECTED", data)
    await alerts.step()
    text = alert_texts.text_of(receiver.taken[0], "en")
    ends = datetime.fromtimestamp(ends_ms / 1000, tz=ZoneInfo(control.context.settings.timezone))
    assert f"Clinic Haifa (…{PHONE[-4:]}), paused until {ends:%d.%m. %H:%M} — WhatsApp suspended this account" in text


async def test_the_day_is_summed_up_once_at_eight_local_time(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = ZoneInfo(control.context.settings.timezone)
    begin = datetime(2026, 1, 31, 7, 59, tzinfo=zone)
    clock = [begin, begin + timedelta(hours=23), begin + timedelta(days=1, minutes=1), begin + timedelta(days=1.5)]

    async def now_ms() -> int:
        return round(clock[0].timestamp() * 1000)

    await linked(control, api, teller, "s1", PHONE)
    await control.context.redis.hset(keys.COUNTS, "queued", 1586)
    alerts = Alerts(control.context, [receiver], gap_s=0)
    await alerts.step()
    monkeypatch.setattr(control.context.scripts, "now_ms", now_ms)
    while clock:
        await emit_when_due(control.context)
        clock.pop(0)
    monkeypatch.undo()
    await alerts.step()
    (summary,) = [alert for taken in receiver.taken for alert in taken]
    text = alert_texts.text_of([summary], "en")
    assert text.startswith("📊 Daily summary — 1 of 1 sessions are connected.")
    assert text.endswith("Waiting now: 1586."), "as the dashboard counts: also what waits for another day"


async def test_an_alert_of_a_proxy_has_its_name_where_it_has_one(control: Orchestrator, receiver: Receiver) -> None:
    alerts, scripts = Alerts(control.context, [receiver], gap_s=0), control.context.scripts
    await alerts.step()
    named, nameless = (each.id for each in (await records.proxies(scripts))[:2])
    await control.context.redis.hset(keys.proxy(named), "name", "Frankfurt 1")
    for proxy in (named, nameless):
        await event_stream.emit(scripts, EventType.PROXY_BAD, ProxyPoolChanged(proxy, "CHECK_FAILED"))
    await alerts.step()
    assert f"Proxy failed: Frankfurt 1, {nameless}" in alert_texts.text_of(receiver.taken[0], "en")


@pytest.mark.parametrize(("reason", "because"), [("passed", ""), ("REINSTATED", " — An operator reinstated it.")])
def test_an_alert_of_a_proxy_that_works_again_shows_no_code(reason: str, because: str) -> None:
    alert = Alert(EventType.PROXY_OK, "p_1", reason, 0)
    assert alert_texts.text_of([alert], "en") == f"🌱 Proxy works again: p_1{because}"
    assert reason not in alert_texts.text_of([alert], "he")


async def test_a_proxy_that_an_operator_drains_raises_no_alert_that_it_failed(
    control: Orchestrator, receiver: Receiver
) -> None:
    alerts = Alerts(control.context, [receiver], gap_s=0)
    await alerts.step()
    proxy = (await records.proxies(control.context.scripts))[0].id
    for reason in ("DRAINED", "CHECK_FAILED"):
        await event_stream.emit(control.context.scripts, EventType.PROXY_BAD, ProxyPoolChanged(proxy, reason))
    await alerts.step()
    assert [alert.reason for taken in receiver.taken for alert in taken] == ["CHECK_FAILED"]


async def test_an_alert_of_a_campaign_has_its_name_and_leads_to_it(control: Orchestrator, receiver: Receiver) -> None:
    alerts = Alerts(control.context, [receiver], gap_s=0)
    await alerts.step()
    await control.context.redis.hset(keys.campaign("c_1"), mapping={"id": "c_1", "name": "Spring", "state": "paused"})
    paused = CampaignChanged("c_1", "paused", "BAN_SIGNAL")
    await event_stream.emit(control.context.scripts, EventType.CAMPAIGN_PAUSED_ITSELF, paused)
    await alerts.step()
    text = alert_texts.text_of(receiver.taken[0], "en", "https://wa.example.com")
    assert text.startswith("⏸️ A campaign paused by itself and waits for you: Spring — WhatsApp banned or restricted")
    assert text.endswith("\nhttps://wa.example.com/campaigns/c_1")


async def test_a_queue_of_days_and_a_webhook_that_keeps_failing_are_one_alert_each_until_they_are_over(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, receiver: Receiver
) -> None:
    await linked(control, api, teller, "s1", PHONE, label="Clinic Haifa")
    redis, failing = control.context.redis, Webhook("wh1", "https://crm.example.com/secret", ("*",), "s", "0", 1)
    alerts = Alerts(control.context, [receiver], gap_s=0)
    await alerts.step()
    await webhooks.put(control.context.scripts, failing)
    began_ms = await control.context.scripts.now_ms()
    for minutes_ago, queued in ((0, 0), (11, 1600), (12, 1599), (0, 0), (11, 1600)):
        await redis.hset(keys.webhook_state("wh1"), "failing_since", began_ms - minutes_ago * 60_000)
        await redis.delete(keys.queue(PHONE))
        await redis.hset(keys.COUNTS, "queued", queued)
        if queued:
            await redis.zadd(keys.queue(PHONE), {f"m{number}": number for number in range(queued)})
        await lasting_troubles.report_new(control.context)
        await alerts.step()
    assert [len(taken) for taken in receiver.taken] == [2, 2], "told when it begins, and again only after it was over"
    text = alert_texts.text_of(receiver.taken[0], "en", "https://wa.example.com")
    assert f"The queue takes days: link more phones, or cancel what is not needed: Clinic Haifa (…{PHONE[-4:]})" in text
    assert "1600 messages wait, about " in text
    assert "Deliveries to a webhook keep failing: check its receiver: crm.example.com" in text
    assert "secret" not in text


async def test_queues_are_not_counted_while_too_little_waits_for_any_to_be_long(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE, label="Clinic Haifa")
    redis = control.context.redis

    async def counted(waiting: int) -> bool:
        await redis.hset(keys.COUNTS, "queued", waiting)
        before: Any = await redis.info("commandstats")
        await lasting_troubles.report_new(control.context)
        after: Any = await redis.info("commandstats")
        calls = [int(each.get("cmdstat_zcard", {"calls": 0})["calls"]) for each in (before, after)]
        return calls[1] > calls[0]

    per_day = control.context.settings.pace(Trust.COLD).per_day
    assert not await counted(per_day)
    assert await counted(per_day + 1)


async def test_a_webhook_gets_alerts_signed(control: Orchestrator) -> None:
    import standardwebhooks

    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(204)

    settings = control.context.settings.model_copy(update={"alert_webhook_url": "https://ops.example.com/alerts"})
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        channel = webhook_channel(settings, client)
        assert await channel.deliver([Alert("proxy.bad", "p_1", "", 1)]) is None
    told = standardwebhooks.Webhook(settings.webhook_secret.get_secret_value()).verify(
        seen[0].content, dict(seen[0].headers)
    )
    assert told["alerts"] == [{"type": "proxy.bad", "subject": "p_1", "name": "p_1", "reason": "", "at": 1}]


@pytest.mark.parametrize("name", ["webhook_secret", "alert_webhook_secret"])
async def test_during_a_rotation_alerts_are_signed_with_both_secrets(control: Orchestrator, name: str) -> None:
    import standardwebhooks

    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(204)

    new, old = (SecretStr(f"whsec_{each * 32}") for each in ("TmV3", "T2xk"))
    update = {"alert_webhook_url": "https://ops.example.com/alerts", name: new, f"{name}_previous": old}
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        channel = webhook_channel(control.context.settings.model_copy(update=update), client)
        assert await channel.deliver([Alert("proxy.bad", "p_1", "", 1)]) is None
    for secret in (new, old):
        standardwebhooks.Webhook(secret.get_secret_value()).verify(seen[0].content, dict(seen[0].headers))
