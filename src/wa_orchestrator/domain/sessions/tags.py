"""Tags of a session: names of groups beside its label, by which it is found, held and shared."""

from collections.abc import Iterable
from typing import Final

#: More would be a description; there are notes for that.
MOST: Final = 20


def normalized(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names without spaces around them, each once, in the order in which they came."""
    return tuple(dict.fromkeys(name for name in (" ".join(each.split()) for each in names) if name))
