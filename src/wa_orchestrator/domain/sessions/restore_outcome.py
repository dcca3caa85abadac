"""How a restore of some sessions ends for each of them, and what can be said of that before anything is touched."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class RestoreOutcome(StrEnum):
    """What became of one session of a restore."""

    RESTORED = "RESTORED"
    """It has the credentials of the backup, and a slot on its phone's proxy if it had one."""
    NO_ROOM = "NO_ROOM"
    """It has the credentials of the backup; its proxy has no free slot, or is gone, so it waits for another one."""
    PHONE_FULL = "PHONE_FULL"
    """It was not restored: its phone has as many sessions as it may have. Nothing of it was touched."""


@dataclass(frozen=True, slots=True)
class Returning:
    """A session of a backup that does not exist now; '' is no phone, or no proxy."""

    id: str
    phone: str
    proxy: str


def outcome_of(*, saved_proxy: str, proxy: str) -> RestoreOutcome:
    """Return how it ended for a session whose credentials are in place, by its proxy in the backup and now."""
    return RestoreOutcome.NO_ROOM if saved_proxy and not proxy else RestoreOutcome.RESTORED


def forecast(
    returning: Iterable[Returning],
    *,
    of_phone: Mapping[str, int],
    on_proxy: Mapping[str, int],
    sticky: Mapping[str, str],
    per_phone: int,
    per_proxy: int,
) -> dict[str, RestoreOutcome]:
    """Return how a restore would end for sessions that do not exist, in their order, if nothing else changes.

    `of_phone` and `on_proxy` are how many sessions each has now (`on_proxy`: of every proxy that there will be), and
    `sticky` is the proxy that each phone has. `lua/backups/restore_session.lua` decides when it happens.
    """
    phones, slots, bound = Counter(of_phone), dict(on_proxy), dict(sticky)
    found: dict[str, RestoreOutcome] = {}
    for each in returning:
        if each.phone and phones[each.phone] >= per_phone:
            found[each.id] = RestoreOutcome.PHONE_FULL
            continue
        phones[each.phone] += 1
        proxy = bound.get(each.phone) or each.proxy
        has_room = slots.get(proxy, per_proxy) < per_proxy
        if has_room:
            slots[proxy] += 1
            if each.phone:  # its later ones follow it there
                bound[each.phone] = proxy
        found[each.id] = outcome_of(saved_proxy=proxy, proxy=proxy if has_room else "")
    return found
