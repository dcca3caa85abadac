"""Stream of the audit log's newest entries, for the pages. The log itself is a file (`audit_log`)."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Entry

MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry: its place in the file, when it was, who it was and what they did."""

    number: int
    hash: str
    at: int
    by: str
    name: str
    action: str
    target: str


async def add(scripts: Scripts, record: AuditRecord, details: object) -> None:
    """Append an entry that is in the file."""
    entry: dict[Any, Any] = {**asdict(record), "details": json.dumps(details, ensure_ascii=False)}
    await scripts.redis.xadd(keys.AUDIT, entry, maxlen=MOST, approximate=True)


async def read(scripts: Scripts, *, before: str | None, most: int) -> list[Entry]:
    """Return entries older than the cursor `before`, the newest first."""
    raw: Any = await scripts.redis.xrevrange(keys.AUDIT, max=f"({before}" if before else "+", min="-", count=most)
    return [Entry(cursor, fields) for cursor, fields in raw]


async def last_number(scripts: Scripts) -> int:
    """Return the highest number of the newest entries; 0 when there is none. Two writers may have crossed."""
    return max([0, *(int(each.fields.get("number", 0)) for each in await read(scripts, before=None, most=20))])
