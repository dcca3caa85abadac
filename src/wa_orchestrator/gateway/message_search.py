"""Finding messages: pages over the indexes, newest first, with bounded work per page."""

from dataclasses import dataclass
from typing import Final

from wa_orchestrator.errors import Refused
from wa_orchestrator.store import keys, message_index, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Message
from wa_orchestrator.web import paging

#: How many messages are looked at for one page, however few of them fit. The cursor goes on from there.
MOST_LOOKED_AT: Final = 1000
_CHUNK: Final = 200


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for; what is None does not matter."""

    to: str | None = None
    session: str | None = None
    status: str | None = None
    reference: str | None = None
    from_ms: int | None = None
    until_ms: int | None = None

    @property
    def index(self) -> str:
        """The narrowest index that holds all answers."""
        if self.reference is not None:
            return keys.messages_with_reference(self.reference)
        if self.to is not None:
            return keys.messages_to(self.to)
        if self.session is not None:
            return keys.messages_of_session(self.session)
        return keys.ALL_MESSAGES

    def fits(self, message: Message) -> bool:
        """Whether a message is an answer."""
        wanted = (
            (self.to, message.to),
            (self.session, message.session),
            (self.status, message.status),
            (self.reference, message.reference),
        )
        return all(wish is None or wish == found for wish, found in wanted)


async def search(
    scripts: Scripts, question: Question, *, cursor: str | None, limit: int
) -> tuple[list[Message], str | None]:
    """Give a page of answers and the cursor of the next one, or None at the end."""
    found: list[Message] = []
    looked_at = 0
    place = None if cursor is None else _read(cursor)
    while looked_at < MOST_LOOKED_AT:
        entries = await message_index.page(
            scripts, question.index, after=place, from_ms=question.from_ms, until_ms=question.until_ms, most=_CHUNK
        )
        if not entries:
            return found, None
        messages = await records.messages(scripts, [name for name, _ in entries])
        by_id: dict[str, Message] = {message.id: message for message in messages}
        for name, score in entries:
            looked_at += 1
            place = (name, score)
            message = by_id.get(name)
            if message is not None and question.fits(message):
                found.append(message)
                if len(found) == limit:
                    return found, _write(place)
    return found, _write(place) if place else None


def _write(place: tuple[str, int]) -> str:
    return paging.encode(f"{place[1]} {place[0]}")


def _read(cursor: str) -> tuple[str, int]:
    score, _, name = paging.decode(cursor).partition(" ")
    if not (score.isascii() and score.isdigit() and name.isascii() and name):
        raise Refused("BAD_CURSOR", "The cursor is malformed. Use `next` of the page before, or none.")
    return name, int(score)
