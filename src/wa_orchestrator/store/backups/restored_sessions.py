"""Writes what a restore brings back: sessions that are gone, and what the journal knows of messages."""

from collections.abc import Mapping
from dataclasses import dataclass

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.sessions import Exists, PhoneFull


@dataclass(frozen=True, slots=True)
class Restored:
    """It exists again, with a slot on this proxy; '' if that has no room or is gone."""

    proxy: str


async def restore(
    scripts: Scripts,
    session_id: str,
    fields: Mapping[str, str],
    *,
    proxy: str,
    proxy_fields: Mapping[str, str],
    per_proxy: int,
    per_phone: int,
) -> Restored | Exists | PhoneFull:
    """Record a session again and take its slot in one step."""
    phone = fields.get("phone", "")
    names = [
        keys.session(session_id), keys.SESSIONS_ALL, keys.sessions_of_phone(phone), keys.proxy(proxy),
        keys.sessions_of_proxy(proxy), keys.sticky(phone), keys.PROXIES_ALL, keys.PROXIES_AVAILABLE, keys.EPOCH_FLOOR,
        keys.TAG_LIMITS,
    ]  # fmt: skip
    described = [part for pair in proxy_fields.items() for part in pair]
    args: list[Argument] = [session_id, phone, proxy, per_proxy, per_phone, fields.get("epoch") or 0, len(described)]
    args += [*described, *(part for pair in fields.items() for part in pair)]
    return await scripts.ask("restore_session", names, args, restored=Restored, exists=Exists, phone_full=PhoneFull)


async def count_sent(scripts: Scripts, place: Place, at_ms: int) -> None:
    """Count a message that left after the backup against its phone's limits, and let it wait nowhere any more."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.zadd(keys.sent(place.phone), {f"{place.message}#restored": at_ms})
        pipe.lrem(keys.GATEWAY_JOBS, 0, place.message)
        pipe.zrem(keys.SCHEDULED, place.message)
        pipe.zrem(keys.later(place.phone), place.message)
        await pipe.execute()
