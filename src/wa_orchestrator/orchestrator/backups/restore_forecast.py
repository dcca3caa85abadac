"""Says of a checked backup which of its sessions would not come back as they were, before anything is touched."""

from dataclasses import replace

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.restore_outcome import RestoreOutcome, Returning, forecast
from wa_orchestrator.orchestrator.backups.prepared_restore import Changes, SavedRecords
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.sessions import slots


async def with_forecast(context: Context, saved: SavedRecords, changes: Changes) -> Changes:
    """Return the changes with what is known now of sessions that do not exist: no room, or a full phone."""
    scripts, settings = context.scripts, context.settings
    proxies = dict.fromkeys(saved.proxies, 0)  # those that are gone come back with their sessions
    proxies |= {each.id: len(each.sessions) for each in await records.proxies(scripts)}
    read = [(each, saved.sessions[each]) for each in changes.returns]
    returning = [Returning(each, record.get("phone", ""), record.get("proxy", "")) for each, record in read]
    phones = sorted({each.phone for each in returning if each.phone})
    found = forecast(
        returning,
        of_phone=dict(zip(phones, map(len, await sessions.sessions_of_phones(scripts, phones)), strict=True)),
        on_proxy=proxies,
        sticky={phone: await slots.sticky_proxy(scripts, phone) for phone in phones},
        per_phone=settings.max_sessions_per_phone,
        per_proxy=settings.max_sessions_per_proxy,
    )
    return replace(
        changes,
        returns=tuple(each for each in changes.returns if found[each] is not RestoreOutcome.PHONE_FULL),
        no_room=tuple(each for each in changes.returns if found[each] is RestoreOutcome.NO_ROOM),
        phone_full=tuple(each for each in changes.returns if found[each] is RestoreOutcome.PHONE_FULL),
    )
