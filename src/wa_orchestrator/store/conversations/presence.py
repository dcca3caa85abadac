"""Who has a conversation open, and what they have begun to write."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from redis.asyncio.client import Pipeline

from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations.conversation_records import Name
from wa_orchestrator.store.engine.scripts import Argument, Scripts

#: Without a sign for so long, somebody has gone.
GONE_MS: Final = 30_000
_KEPT_MS: Final = 60_000


class Doing(StrEnum):
    """What somebody does in a conversation."""

    READING = "reading"
    WRITING = "writing"


@dataclass(frozen=True, slots=True)
class Attendant:
    """A person who has a conversation open."""

    name: str
    doing: Doing


async def attend(
    scripts: Scripts, conversation: Name, who: str, name: str, doing: Doing, *, draft: str | None = None
) -> bool:
    """Note that a person has a conversation open, and their draft if it has changed; False if it is gone."""
    names = [keys.conversation(*conversation), keys.presence(*conversation)]
    args: list[Argument] = [who, f"{doing} {name}", _KEPT_MS, "same" if draft is None else "draft", draft or ""]
    return await scripts.whether("attend_conversation", names, args, noted=True, unknown=False)


async def others(scripts: Scripts, conversation: Name, who: str) -> list[Attendant]:
    """Return who else has a conversation open, those who write first."""
    stored: Any = await scripts.redis.hgetall(keys.presence(*conversation))
    until, found = await scripts.now_ms() - GONE_MS, []
    for person, told in stored.items():
        at, doing, name = str(told).split(" ", 2)
        if person != who and int(at) > until:
            found.append(Attendant(name, Doing(doing)))
    return sorted(found, key=lambda each: (each.doing is Doing.READING, each.name))


async def drafts(scripts: Scripts, conversations: Sequence[Name], who: str) -> dict[Name, str]:
    """Return what a person has begun to write, by conversation."""
    field = f"draft {who}"
    names = [keys.conversation(*each) for each in conversations]
    texts = await scripts.each(lambda pipe, key: Pipeline.hget(pipe, key, field), names)
    return {name: str(text) for name, text in zip(conversations, texts, strict=True) if text}
