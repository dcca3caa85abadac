"""Alert loop: turns events into alerts and delivers them in groups, at a limited rate.

The cursor in the stream and the queue of each channel are in Redis and written together. A channel that is down keeps
its own queue waiting and no other; no outage loses an alert.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import httpx

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import Reason
from wa_orchestrator.loop import Loop
from wa_orchestrator.orchestrator.notifications import alert_texts
from wa_orchestrator.orchestrator.notifications.alert_channels import AlertChannel, configured_channels
from wa_orchestrator.orchestrator.notifications.alert_texts import Alert
from wa_orchestrator.store import records
from wa_orchestrator.store.campaigns import campaign_records
from wa_orchestrator.store.events import alert_queue, webhooks
from wa_orchestrator.store.records import Entry, Session
from wa_orchestrator.texts.catalogue import text

_MAX_PER_DELIVERY = 100
#: Telegram accepts about twenty messages a minute in a group.
GAP_S = 3.0
_MAX_BACKOFF_S = 300.0
_ROUND_S = 0.5
_NO_CHANNELS_S = 60.0
_TIMEOUT_S = 10.0


class Alerts:
    """Makes alerts of events and delivers them. Any number may run; each event becomes an alert once."""

    def __init__(self, context: Context, channels: Sequence[AlertChannel] | None = None, gap_s: float = GAP_S) -> None:
        self._context = context
        self._scripts = context.scripts
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False)
        self._channels = configured_channels(context.settings, self._client) if channels is None else channels
        self._gap_s = gap_s
        self._next: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    async def run(self) -> None:
        try:
            await Loop("alerts", self.step).run()
        finally:
            await self._client.aclose()

    async def step(self) -> float:
        """Collect new alerts and deliver those that are due; returns the seconds to wait."""
        if not self._channels:
            return _NO_CHANNELS_S
        await self.collect()
        for channel in self._channels:
            if time.monotonic() >= self._next.get(channel.name, 0):
                await self._deliver(channel)
        return _ROUND_S

    async def collect(self) -> None:
        await alert_queue.collect(self._scripts, [channel.name for channel in self._channels], _encoded)

    async def _deliver(self, channel: AlertChannel) -> None:
        waiting = await alert_queue.waiting(self._scripts, channel.name, most=_MAX_PER_DELIVERY)
        if not waiting:
            return
        retry_after_s = await channel.deliver(await self._named([Alert(**json.loads(text)) for text in waiting]))
        if retry_after_s is None:
            await alert_queue.remove(self._scripts, channel.name, waiting)
            self._failures[channel.name] = 0
            wait_s = self._gap_s
        else:
            failures = self._failures[channel.name] = self._failures.get(channel.name, 0) + 1
            wait_s = max(retry_after_s, min(_MAX_BACKOFF_S, self._gap_s * 2 ** min(failures, 8)))
        self._next[channel.name] = time.monotonic() + wait_s

    async def _named(self, alerts: Sequence[Alert]) -> list[Alert]:
        """Add how people know the sessions, proxies, webhooks and campaigns that alerts are about."""
        ids = {alert.who for alert in alerts if alert.kind.startswith(("session.", "message."))}
        found = await records.sessions(self._scripts, ids)
        names: dict[str, str] = {each.id: self._name_of(each) for each in found}
        if any(alert.kind.startswith("proxy.") for alert in alerts):
            names |= {each.id: each.name for each in await records.proxies(self._scripts)}
        if any(alert.kind.startswith("webhook.") for alert in alerts):
            names |= {each.id: each.host for each in (await webhooks.every(self._scripts)).values()}
        for campaign_id in {alert.who for alert in alerts if alert.kind.startswith("campaign.")}:
            campaign = await campaign_records.find(self._scripts, campaign_id)
            names[campaign_id] = campaign.name if campaign else ""
        return [replace(alert, name=names.get(alert.who, "")) for alert in alerts]

    def _name_of(self, session: Session) -> str:
        """Return how people know a session; one that WhatsApp suspended with the end that it gave."""
        name = alert_texts.name_of(session.label, session.id, session.phone)
        if session.reason is not Reason.TEMPORARY_BAN or not session.ban_ends_at:
            return name
        settings = self._context.settings
        ends = datetime.fromtimestamp(session.ban_ends_at / 1000, tz=ZoneInfo(settings.timezone))
        return text(settings.language, "alert_name.until").format(name=name, until=f"{ends:%d.%m. %H:%M}")


def _encoded(entry: Entry) -> str | None:
    alert = alert_texts.alert_of(entry.fields)
    return alert.encode() if alert else None
