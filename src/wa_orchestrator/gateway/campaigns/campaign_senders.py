"""The sessions that send a campaign: those it names, without the ones that were linked lately."""

from collections.abc import Sequence

from wa_orchestrator.domain.access.permissions import reach_of
from wa_orchestrator.domain.campaigns.plan import CampaignSender
from wa_orchestrator.domain.messages.sender_policy import Readiness
from wa_orchestrator.domain.pacing.limits import Trust
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason
from wa_orchestrator.gateway.senders.sender_pool import PoolSnapshot, Sender
from wa_orchestrator.messages.session_pace import trust_of
from wa_orchestrator.store.campaigns.campaign_records import Campaign
from wa_orchestrator.store.sessions.labels import labels_of


def named(campaign: Campaign, pool: PoolSnapshot) -> list[Sender]:
    """Return the linked sessions that a campaign names, or all, one for each phone: the one that is readiest."""
    reach = reach_of(campaign.sessions, campaign.tags)
    by_phone: dict[str, Sender] = {}
    for sender in sorted(pool.senders.values(), key=lambda each: (each.readiness, each.session.id)):
        session = sender.session
        if session.phone and reach.includes(session.id, labels_of(session)):
            by_phone.setdefault(session.phone, sender)
    return list(by_phone.values())


def usable(campaign: Campaign, pool: PoolSnapshot) -> list[Sender]:
    """Return the senders that can send, or will by themselves. A new account that writes to many is banned first."""
    return [
        sender
        for sender in named(campaign, pool)
        if sender.readiness is not Readiness.OFFLINE and (campaign.with_cold or not is_cold(sender, pool))
    ]


def is_cold(sender: Sender, pool: PoolSnapshot) -> bool:
    """Whether a session was linked lately."""
    return trust_of(sender.session, pool.now_ms()) is Trust.COLD


def banned_phones(campaign: Campaign, pool: PoolSnapshot) -> set[str]:
    """Return the phones of a campaign that WhatsApp has banned, or that are held after a ban signal."""
    return {
        sender.session.phone
        for sender in named(campaign, pool)
        if sender.session.banned or any(wait.because is WaitReason.BANNED_HOLD for wait in sender.holds)
    }


def waits_for(sender: Sender) -> int:
    """Return how many messages wait for a sender's phone, as the snapshot knows it."""
    return max(0, sender.pace.per_day - sender.sent_today - sender.room_today)


def takers(senders: Sequence[Sender]) -> list[CampaignSender]:
    """Return the senders that can send now, as `plan.allot` takes them."""
    return [
        CampaignSender(sender.session.id, waits_for(sender), sender.room_today, sender.pace.per_day)
        for sender in senders
        if sender.readiness is Readiness.READY
    ]
