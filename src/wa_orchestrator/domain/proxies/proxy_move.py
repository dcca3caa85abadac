"""Whether an operator may move a phone to the proxy he chose. All its sessions move together: one phone, one exit."""

from dataclasses import dataclass
from enum import StrEnum


class MoveTime(StrEnum):
    """When a session uses the proxy that was chosen for it."""

    NOW = "now"
    """Its worker is replaced at once; no new scan is needed."""
    RESTART = "restart"
    """At the next restart; until then its worker keeps the old proxy and the slot there."""


class MoveVerdict(StrEnum):
    """What becomes of the choice."""

    MOVE = "MOVE"
    STAYS = "STAYS"
    """All sessions of the phone are there already."""
    PROXY_BAD = "PROXY_BAD"
    PROXY_FULL = "PROXY_FULL"
    """It has no free slot."""
    STICKY_PROXY_FULL = "STICKY_PROXY_FULL"
    """It has no room for all sessions of the phone."""
    BANNED_KEEPS_PROXY = "BANNED_KEEPS_PROXY"
    """A banned account that logs in from elsewhere looks worse still."""
    MOVES_TOGETHER = "MOVES_TOGETHER"
    """Other sessions of the phone run: at different restarts they would leave through two exits for a while."""


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """What the decision depends on."""

    healthy: bool
    free: int
    """Slots of the chosen proxy that nobody holds."""
    newcomers: int
    """Sessions of the phone that have no slot there yet."""
    elsewhere: int
    """Sessions of the phone that use another proxy, or none."""
    others_running: int
    """Other sessions of the phone that want a worker."""
    banned: bool


def judge(facts: MoveFacts, when: MoveTime) -> MoveVerdict:
    """Decide about the choice of a proxy."""
    if not facts.elsewhere:
        return MoveVerdict.STAYS
    if facts.banned:
        return MoveVerdict.BANNED_KEEPS_PROXY
    if not facts.healthy:
        return MoveVerdict.PROXY_BAD
    if when is MoveTime.RESTART and facts.others_running:
        return MoveVerdict.MOVES_TOGETHER
    if facts.newcomers > facts.free:
        return MoveVerdict.STICKY_PROXY_FULL if facts.free else MoveVerdict.PROXY_FULL
    return MoveVerdict.MOVE
