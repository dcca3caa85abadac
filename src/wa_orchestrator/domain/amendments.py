"""What later messages did to an earlier one: reactions, votes, an edit, a deletion."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wa_orchestrator.domain.messages.incoming import IncomingKind


@dataclass(frozen=True, slots=True)
class Amendment:
    """One change of a message; `author` is who made it, '' for the account itself."""

    kind: str
    author: str
    at_ms: int
    text: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Amended:
    """What a message is after all changes."""

    reactions: Mapping[str, str] = field(default_factory=dict)
    """Author → emoji."""
    votes: Mapping[str, int] = field(default_factory=dict)
    """Option → how many people chose it."""
    text: str | None = None
    """The text of the last edit; None if there was none."""
    edited_at_ms: int = 0
    deleted_at_ms: int = 0


def fold(amendments: Iterable[Amendment]) -> Amended:
    """Return what these changes, the oldest first, made of a message; of one person the last reaction and vote."""
    reactions: dict[str, str] = {}
    chosen: dict[str, tuple[str, ...]] = {}
    text, edited_at_ms, deleted_at_ms = None, 0, 0
    for each in amendments:
        if each.kind == IncomingKind.REACTION:
            reactions[each.author] = each.text
        elif each.kind == IncomingKind.VOTE:
            chosen[each.author] = each.options
        elif each.kind == IncomingKind.EDIT:
            text, edited_at_ms = each.text, each.at_ms
        elif each.kind == IncomingKind.DELETION:
            deleted_at_ms = each.at_ms
    votes: dict[str, int] = {}
    for options in chosen.values():
        for option in options:
            votes[option] = votes.get(option, 0) + 1
    shown = {author: emoji for author, emoji in reactions.items() if emoji}
    return Amended(shown, votes, text, edited_at_ms, deleted_at_ms)
