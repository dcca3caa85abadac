"""Sample fleet: sessions in every state, proxies, messages with timelines, holds, opt-outs. No worker runs.

States and ages are written as the scripts would have left them; everything else goes through the scripts themselves.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from redis.asyncio import Redis

from wa_orchestrator.domain.messages.failures import Doubt
from wa_orchestrator.domain.pacing.hours import day_bounds_ms
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.workers.nodes import NodeState, WorkerNode
from wa_orchestrator.store import keys, leases, proxies, sessions
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import webhooks
from wa_orchestrator.store.events.activity import HOUR_MS
from wa_orchestrator.store.messages import admission, contacts, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.sessions import nodes as stored_nodes
from wa_orchestrator.store.sessions import slots

DAY_MS = 86_400_000
NAMES = (
    "Support Tel Aviv", "Support Haifa", "Support Jerusalem", "Sales North", "Sales South", "Sales Center",
    "Deliveries A", "Deliveries B", "Reminders", "Clinic Rehovot", "Clinic Netanya", "Branch Herzliya",
    "Branch Ra'anana", "Branch Modi'in", "Clinic Ashdod", "Agency: Rimon Travel", "Branch Eilat", "Branch Tiberias",
    "Branch Karmiel", "Old support line", "סניף באר שבע",
)  # fmt: skip
GROUPS = ("Branch", "Support", "Agency Rimon", "Agency Oren", "Clinic")
NODE_STATES = (NodeState.READY, NodeState.CLOSED, NodeState.LOST, NodeState.CLOSED, NodeState.CLOSED)
QR = "2@" + "aB3/xY9+" * 24 + ",zQ7w,kLm4,Pq8="


@dataclass
class FleetBuilder:
    """Creates sessions, proxies and messages."""

    scripts: Scripts
    zone: str = "UTC"

    @property
    def redis(self) -> Redis:
        """The Redis of the fleet."""
        return self.scripts.redis

    async def proxy(self, number: int, *, latency: int = 84) -> str:
        """A proxy that was checked just now."""
        url = proxy_url.parse(f"socks5h://op:not-a-real-password@exit-{number:02d}.example.com:1080")
        await proxies.add(self.scripts, url.id, url=url.url, masked=url.masked, origin="operator")
        now = await self.scripts.now_ms()
        await self.redis.hset(keys.proxy(url.id), mapping={"checked_at": now - 9000, "latency_ms": latency})
        for at in range(40):
            value = latency + (at * 37 % 23) - 11
            await self.redis.rpush(keys.proxy_health(url.id), f"{now - (40 - at) * 30_000}:{value}")
        return url.id

    async def session(self, session_id: str, label: str, candidates: list[str]) -> str:
        """A session that was just made; the proxy it got."""
        made = await sessions.create(
            self.scripts,
            sessions.NewSession(session_id, candidates=candidates, fields={"label": label}),
            per_proxy=4,
            per_phone=4,
        )
        assert isinstance(made, sessions.Created), made
        await self.redis.hset(keys.session(session_id), "device_name", "Chrome (Linux)")
        return made.proxy

    async def connected(
        self, session_id: str, label: str, phone: str, candidates: list[str], *, days: float = 20
    ) -> None:
        """A session that has been connected for so many days."""
        proxy = await self.session(session_id, label, candidates)
        held = await leases.acquire_lease(self.scripts, "control", owner="builder", lease_ms=600_000)
        assert isinstance(held, leases.Holding)
        await sessions.register(self.scripts, session_id, phone="", lease=held.value, day="20250615")
        others = int(await self.scripts.redis.scard(keys.sessions_of_phone(phone)))
        version = int(await self.scripts.redis.hget(keys.session(session_id), "version") or 0)
        binding = slots.Binding(1, phone, "", proxy, version, others)
        assert isinstance(await slots.bind(self.scripts, session_id, binding, per_proxy=4, per_phone=4), slots.Bound)
        now = await self.scripts.now_ms()
        first = int(now - days * DAY_MS)
        fields = {
            "first_connected_at": first,
            "connected_at": first,
            "last_ping_at": now - 4000,
            "ping_rss_bytes": 32_500_000,
            "ping_lag_ms": 3,
            "last_traffic_at": now - 2000,
        }
        await self.redis.hset(keys.session(session_id), mapping=fields)
        await self.redis.delete(keys.session_events(session_id))
        for at, state in (
            (first, "connected"),
            (now - 5 * HOUR_MS, "disconnected"),
            (now - 5 * HOUR_MS + 600_000, "connected"),
        ):
            if at >= first:
                await self.redis.xadd(
                    keys.session_events(session_id),
                    {
                        "type": f"session.{state}",
                        "session": session_id,
                        "at": at,
                        "reason": "" if state == "connected" else "RECONNECTING",
                    },
                )

    async def put(self, session_id: str, status: str, reason: str) -> None:
        """Let a session be in a state, as the state machine's writer would."""
        version = int(await self.redis.hget(keys.session(session_id), "version") or 1)
        outcome = (
            await sessions.advance(self.scripts, session_id, sessions.Advance(version, status, reason, reason))
            if hasattr(sessions, "Advance")
            else None
        )
        if outcome is None:
            now = await self.scripts.now_ms()
            await self.redis.hset(
                keys.session(session_id), mapping={"status": status, "reason": reason, "changed_at": now}
            )
            entry = {"type": f"session.{status}", "session": session_id, "at": now, "reason": reason}
            await self.redis.xadd(keys.EVENTS, entry)
            await self.redis.xadd(keys.session_events(session_id), entry)

    async def qr(self, session_id: str, *, text: str = QR, life_ms: int = 60_000, age_ms: int = 18_000) -> None:
        """A session whose code waits to be scanned."""
        await self.code(session_id, text=text, life_ms=life_ms, age_ms=age_ms)
        await self.put(session_id, "qr_ready", "SCAN_THE_CODE")

    async def code(self, session_id: str, *, text: str = QR, life_ms: int = 60_000, age_ms: int = 18_000) -> None:
        """A code, of a session that waits for one."""
        now = await self.scripts.now_ms()
        stored = {"qr": text, "at_ms": now - age_ms, "expires_at_ms": now - age_ms + life_ms}
        await self.redis.set(keys.qr(session_id), json.dumps(stored), px=max(1000, life_ms - age_ms))

    async def message(
        self,
        number: int,
        session_id: str,
        phone: str,
        to: str,
        text: str,
        *,
        until: str = "queued",
        reference: str = "",
    ) -> str:
        """A message that has come so far."""
        name = f"m_{number:018x}"
        place = Place(name, phone, session_id)
        now = await self.scripts.now_ms()
        fields = {"kind": "text", "body": json.dumps({"text": text}), "reference": reference}
        new = admission.NewMessage(name, f"3EB0{number:018X}", phone, session_id, to, fields=fields)
        assert isinstance(
            await admission.accept(self.scripts, new, admission.Room(5000, 5000, now - 1000)), admission.Accepted
        )
        await queues.route(self.scripts, place, to=to, reference=reference)
        if until == "queued":
            return name
        permit = queues.Permit(0, 10_000, 10_000, now - 1000, now + DAY_MS, now - 1000, now + DAY_MS, 60_000, holds=[])
        assert isinstance(await queues.release(self.scripts, place, permit, other_name=to), queues.Released)
        await outbox.claim(self.scripts, session_id, phone=phone, epoch=1, lease_ms=60_000)
        day = await self._day()
        if until in ("failed", "unknown"):
            why = ("NOT_ON_WHATSAPP", Doubt.KEPT) if until == "failed" else ("NO_ACK", Doubt.RAISED)
            verdict = outbox.FailureVerdict(1, why[0], None, why[1])
            await outbox.nack(self.scripts, place, epoch=1, verdict=verdict, day=day)
            return name
        for status in ("sent", "delivered", "read"):
            receipt = outbox.MessageReport(place.session, status, new.whatsapp_id, now)
            await outbox.ack(self.scripts, place, receipt, to=to, day=day)
            if status == until:
                break
        return name

    async def _day(self) -> str:
        now_s = await self.scripts.now_ms() / 1000
        return datetime.fromtimestamp(now_s, tz=ZoneInfo(self.zone)).strftime("%Y%m%d")

    async def busy_day(self, session_id: str, phone: str, sent: int) -> None:
        """So many messages today, as the pace and the figures see them."""
        now = await self.scripts.now_ms()
        midnight, _ = day_bounds_ms(now, ZoneInfo(self.zone))
        apart = min(40_000, (now - midnight) // (sent + 1))
        await self.redis.zadd(keys.sent(phone), {f"s{at}#1": now - at * apart for at in range(sent)})
        stats = {"sent": sent, "delivered": int(sent * 0.98), "read": int(sent * 0.7), "failed": sent // 200}
        await self.redis.hset(keys.stats(session_id, await self._day()), mapping=stats)

    async def hours(self) -> None:
        """A day of messages, hour by hour."""
        now = await self.scripts.now_ms()
        shape = (0, 0, 0, 0, 0, 0, 0, 12, 40, 90, 130, 150, 140, 110, 120, 135, 160, 150, 120, 90, 60, 30, 8, 0)
        local = round(datetime.now(ZoneInfo(self.zone)).utcoffset().total_seconds() / 3600)  # type: ignore[union-attr]
        for back in range(24):
            hour = now // HOUR_MS - back
            await self.redis.hset(
                keys.DASHBOARD_HOURS,
                mapping={f"{hour}:sent": shape[(hour + local) % 24], f"{hour}:failed": int(back % 7 == 3)},
            )
        for back in range(96):
            depth = shape[((now - back * 900_000) // HOUR_MS + local) % 24] * 3 // (2 + back % 3)
            await self.redis.lpush(keys.DASHBOARD_QUEUE, f"{now - back * 900_000}:{depth}")
        newest = await self.redis.xrevrange(keys.EVENTS, count=1)
        if newest:
            await self.redis.set(keys.DASHBOARD_CURSOR, newest[0][0])


async def fill(scripts: Scripts, zone: str = "UTC") -> FleetBuilder:
    """Create 21 sessions with everything that a page can show."""
    builder = FleetBuilder(scripts, zone)
    pool = [await builder.proxy(number, latency=70 + number * 7) for number in range(1, 7)]
    for number, name in enumerate(NAMES[:14] + NAMES[20:], start=1):
        phone = f"97250{1234567 + number * 991:07d}"
        days = 20 if number % 3 else 9 if number % 2 else 1
        await builder.connected(f"worker_{number}", name, phone, pool[:5], days=days)
        await builder.busy_day(
            f"worker_{number}", phone, (number * 61) % (480 if days == 20 else 95 if days == 9 else 19)
        )
    await builder.busy_day("worker_9", f"97250{1234567 + 9 * 991:07d}", 100)
    for number, name in enumerate(NAMES[14:20], start=16):
        if number in (16, 17, 20):
            await builder.connected(
                f"worker_{number}", name, f"97252{2000000 + number * 7919:07d}", [pool[5], pool[4], pool[3]], days=6
            )
        else:
            await builder.session(f"worker_{number}", name, [pool[5], pool[4], pool[3]])
    await builder.put("worker_16", "failed", "BANNED")
    await builder.put("worker_17", "disconnected", "RECONNECTING")
    await builder.put("worker_20", "stopped", "STOPPED_BY_OPERATOR")
    for name in ("worker_18", "worker_19"):
        if await scripts.redis.exists(keys.session(name)):
            await builder.qr(name)
    await _messages(builder)
    await _incidents(builder, pool)
    await _settings(builder)
    await _nodes(builder)
    await builder.hours()
    return builder


async def _nodes(builder: FleetBuilder) -> None:
    """Machines in every state, with sessions on some; one session has moved and is back."""
    states = dict(zip(("node-1", "node-2", "node-3", "node-4", "node-5"), NODE_STATES, strict=True))
    nodes = [WorkerNode(name, state, f"192.0.2.{at}", 2**32, 128) for at, (name, state) in enumerate(states.items(), 1)]
    await stored_nodes.note(builder.scripts, nodes)
    await builder.redis.persist(keys.CONTROL_NODES)
    for name in ("node-2", "node-5"):
        await stored_nodes.drain(builder.scripts, name)
    for number in range(1, 15):
        place = {"node": f"node-{1 + number % 3}", "wanted": "running", "ping_rss_bytes": 31_000_000 + number}
        await builder.redis.hset(keys.session(f"worker_{number}"), mapping=place)
    moved = {"moved_at": await builder.scripts.now_ms() - HOUR_MS, "moved_from": "node-5", "away_ms": 3240}
    await builder.redis.hset(keys.session("worker_4"), mapping=moved)


async def fill_large(scripts: Scripts, zone: str = "UTC", sessions: int = 500) -> FleetBuilder:
    """Create a large fleet: connected sessions on full proxies, every twentieth reconnecting."""
    builder = FleetBuilder(scripts, zone)
    pool = [await builder.proxy(number) for number in range(1, sessions // 4 + 2)]
    for number in range(1, sessions + 1):
        phone = f"97250{number:07d}"
        label = f"{GROUPS[number % len(GROUPS)]} {number:03d}"
        await builder.connected(f"worker_{number}", label, phone, [pool[(number - 1) // 4]])
        await builder.busy_day(f"worker_{number}", phone, number % 400 + 1)
    for number in range(20, sessions + 1, 20):
        await builder.put(f"worker_{number}", "disconnected", "RECONNECTING")
    await builder.hours()
    return builder


async def _settings(builder: FleetBuilder) -> None:
    """What administrators have made: keys, webhooks with a log, a trail."""
    now = await builder.scripts.now_ms()
    for name, url, types in (
        ("wh_1", "https://crm.example.com/hooks/whatsapp", ("message.*",)),
        ("wh_2", "https://billing.example.com/a/rather/long/path/that/does/not/fit/on/one/line", ("*",)),
    ):
        hook = webhooks.Webhook(name, url, types, "whsec_c3RhZ2Utb25seS1ub3QtcmVhbC0xMjM0NTY=", "0-0", now)
        await webhooks.put(builder.scripts, hook)
    await builder.redis.hset(keys.webhook_state("wh_2"), mapping={"failing_since": now - 3 * HOUR_MS})
    for number, (status, note) in enumerate((("delivered", "OK"), ("delivered", "OK"), ("failed", "HTTP_503")), 1):
        event = f"{now - number * 60_000}-0"
        record = {
            "event": event,
            "type": "message.delivered" if number < 3 else "message.received",
            "status": status,
            "note": note,
            "attempts": number,
            "made_at": now - number * 60_000,
            "body": "{}",
        }
        await builder.redis.hset(keys.delivery("wh_1", event), mapping=record)
        await builder.redis.zadd(keys.delivery_log("wh_1"), {event: now - number * 60_000})
    for number, (action, target) in enumerate(
        (("session.restart", "worker_4"), ("hold.add", "session:worker_12"), ("webhook.add", "wh_1")), 1
    ):
        entry = {"at": now - (4 - number) * 90_000, "by": "dashboard:Dana", "action": action, "target": target}
        await builder.redis.xadd(keys.AUDIT, entry)


async def _messages(builder: FleetBuilder) -> None:
    sender, phone = "worker_4", f"97250{1234567 + 4 * 991:07d}"
    story = (
        ("read", "A technician will come today, 11:00–13:00"),
        ("read", "The technician is 10 minutes away"),
        ("failed", "Code for the gate: 4471"),
        ("delivered", "Your order 20714 was accepted. Thank you!\nWe will write again when it leaves."),
        ("sent", "Your order 20714 is on its way"),
    )
    for number, (until, text) in enumerate(story, start=1):
        await builder.message(
            number, sender, phone, f"97252440{8810 + number}", text, until=until, reference=f"order-{20710 + number}"
        )
    for number in range(6, 14):
        await builder.message(number, sender, phone, f"97254331{9000 + number}", "Reminder: a visit tomorrow at 10:30")


async def _incidents(builder: FleetBuilder, pool: list[str]) -> None:
    now = await builder.scripts.now_ms()
    spare = await builder.proxy(7)
    record = {
        "status": "BAD",
        "last_error": "NO_ANSWER:5",
        "changed_at": now - 1_500_000,
        "next_check_at": now + 48_000,
        "bad_in_a_row": 5,
        "good_in_a_row": 0,
    }
    await builder.redis.hset(keys.proxy(spare), mapping=record)
    await builder.redis.rpush(keys.proxy_health(spare), *[f"{now - each}:-1" for each in range(6)])
    await builder.redis.hset(keys.pace(f"97250{1234567 + 13 * 991:07d}"), "burst_until", now + 420_000)
    hold = {"until_ms": 9_000_000_000_000_000, "why": "wrong price list", "by": "Dana"}
    await builder.redis.hset(keys.HOLDS, "session:worker_12", json.dumps(hold))
    await builder.redis.hset(keys.HOLDS, "session:worker_16", json.dumps({**hold, "why": "BAN_SIGNAL", "by": "server"}))
    for recipient, word in (("972521184406", "הסר"), ("972549073321", "STOP"), ("972582401195", "UNSUBSCRIBE")):
        await contacts.opt_out(builder.scripts, recipient, word=word, via="reply", session="worker_4")
