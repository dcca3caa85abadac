"""Items that are due at an instant: phones that may send, deliveries, files to fetch. Several processes take them."""

from dataclasses import dataclass
from enum import Enum

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts, unexpected


class Due(Enum):
    """A kind of items; its value are the keys of its instants and of its marks."""

    PHONES = (keys.DUE, keys.DUE_MARK)
    DELIVERIES = (keys.WEBHOOK_DUE, keys.WEBHOOK_MARK)
    MEDIA = (keys.MEDIA_DUE, keys.MEDIA_MARK)


@dataclass(frozen=True, slots=True)
class Taken:
    """Items that are due, and the `mark` with which they are settled. Of the others the next is due at `next_ms`."""

    now_ms: int
    items: tuple[str, ...] = ()
    mark: str = ""
    next_ms: int | None = None


async def take(scripts: Scripts, kind: Due, *, most: int, away_ms: int) -> Taken:
    """Take items that are due; if the taker dies they are due again after `away_ms`."""
    reply = await scripts.run("take_due_items", kind.value, [most, away_ms])
    match reply:
        case ["taken", now, first, mark, *items]:
            return Taken(int(now), tuple(items), str(mark), _instant(first))
        case ["nothing", now, first]:
            return Taken(int(now), next_ms=_instant(first))
        case _:
            raise unexpected("take_due_items", reply)


def _instant(raw: int) -> int | None:
    return int(raw) if int(raw) >= 0 else None


async def settle(scripts: Scripts, kind: Due, item: str, mark: str, *, next_ms: int | None) -> bool:
    """Set when an item is due next (None: never); False if it was woken since it was taken, and is due now."""
    args: list[Argument] = [item, mark, -1 if next_ms is None else next_ms]
    return await scripts.whether("settle_due_item", [kind.value[0]], args, settled=True, woken=False)
