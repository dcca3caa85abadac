"""Which session answers in a conversation: the one that has it, or another of its account while that one cannot."""

from collections.abc import Sequence

from wa_orchestrator.domain.conversation import Device, answering
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations.conversation_records import StoredConversation
from wa_orchestrator.store.engine.scripts import Scripts


async def find(scripts: Scripts, found: Sequence[StoredConversation]) -> list[Device]:
    """Return the session that answers in each of these conversations; the one that had it where none is left."""
    own = await _devices(scripts, sorted({each.session for each in found}))
    homes = [own.get(each.session) for each in found]
    phones = [each.our_phone or (home.phone if home else "") for each, home in zip(found, homes, strict=True)]
    away = sorted({phone for phone, home in zip(phones, homes, strict=True) if phone and not (home and home.connected)})
    named = await scripts.each(lambda pipe, key: pipe.smembers(key), map(keys.sessions_of_phone, away))
    members = dict(zip(away, named, strict=True))
    others = await _devices(scripts, sorted({str(name) for several in members.values() for name in several}))
    siblings = {
        phone: [others[name] for name in sorted(several) if name in others] for phone, several in members.items()
    }
    return [
        answering(home, siblings.get(phone, [])) or Device(each.session, phone, connected=False)
        for each, home, phone in zip(found, homes, phones, strict=True)
    ]


async def _devices(scripts: Scripts, names: Sequence[str]) -> dict[str, Device]:
    fields = ["id", "phone", "status", "removing"]
    read = await scripts.each(lambda pipe, key: pipe.hmget(key, fields), map(keys.session, names)) if names else []
    return {
        name: Device(name, phone or "", connected=status == State.CONNECTED)
        for name, (known, phone, status, removing) in zip(names, read, strict=True)
        if known and not removing
    }
