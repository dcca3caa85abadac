"""One sentence for a person, in each language that the product speaks."""

from dataclasses import dataclass
from enum import StrEnum


class Language(StrEnum):
    """The languages of sentences; `LANGUAGE` and the dashboard choose between them."""

    ENGLISH = "en"
    HEBREW = "he"


@dataclass(frozen=True, slots=True)
class Sentence:
    """The same thing said in every language: what happened, what was done, what to do now."""

    english: str
    hebrew: str

    def in_language(self, language: str) -> str:
        """Say it in `language` (`en` or `he`); any other language gets English."""
        return self.hebrew if language == Language.HEBREW else self.english
