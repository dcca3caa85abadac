"""Profiles: what a session shows as under "linked devices". An operator lists them; a session keeps its own for life.

A profile is a real system with a real browser. None is made up and none is changed later: both are what a farm looks
like, and linking by code fails with a name that is not a real system.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from wa_orchestrator.errors import Refused

#: Systems and browsers that WhatsApp knows, by what people write.
SYSTEMS: Final = {"ubuntu": "Ubuntu", "mac os": "Mac OS", "macos": "Mac OS", "windows": "Windows"}
BROWSERS: Final = {"chrome": "Chrome", "edge": "Edge", "firefox": "Firefox", "opera": "Opera", "safari": "Safari"}
_VERSION: Final = re.compile(r"\d{1,4}(\.\d{1,6}){0,3}")
#: The truth: workers run on Linux. Sessions that were made before there were profiles have it.
DEFAULT: Final = "Ubuntu"


class BadProfile(Refused):
    """The text is not a profile."""

    def __init__(self, text: str, problem: str) -> None:
        shown = text[:60]
        super().__init__("BAD_PROFILE", f"{shown!r} is not a profile: {problem}", 422, path="name")


@dataclass(frozen=True, slots=True)
class Profile:
    """A system, a browser and, for people, its version ('' = not said)."""

    system: str
    browser: str = "Chrome"
    version: str = ""

    @property
    def name(self) -> str:
        """How a session stores it and a worker reads it: `Windows/Edge/120.0`; Chrome need not be said."""
        if self.version:
            return f"{self.system}/{self.browser}/{self.version}"
        return self.system if self.browser in ("Chrome", "") else f"{self.system}/{self.browser}"

    @property
    def shown(self) -> str:
        """How a phone shows it."""
        return f"{self.browser} ({self.system})" if self.browser else self.system

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `System`, `System/Browser` or `System/Browser/Version`. Raises `BadProfile`."""
        system, *rest = (part.strip() for part in text.split("/"))
        if len(rest) > 2:
            raise BadProfile(text, "write System/Browser/Version, such as Windows/Edge/120.0.")
        browser, version = (*rest, "")[:2] if rest else ("Chrome", "")
        if system.lower() not in SYSTEMS:
            raise BadProfile(text, "its system must be Ubuntu, Mac OS or Windows; WhatsApp accepts no other name.")
        if browser.lower() not in BROWSERS:
            raise BadProfile(text, "its browser must be Chrome, Edge, Firefox, Opera or Safari.")
        if version and not _VERSION.fullmatch(version):
            raise BadProfile(text, "its version is digits with dots, such as 120.0.")
        found = cls(SYSTEMS[system.lower()], BROWSERS[browser.lower()], version)
        if found.browser == "Safari" and found.system != "Mac OS":
            raise BadProfile(text, "Safari runs on Mac OS only.")
        return found


@dataclass(frozen=True, slots=True)
class NoneFree:
    """Every profile has as many sessions as it may have."""


def choose(listed: Sequence[str], taken: Mapping[str, int], most: int) -> str | NoneFree:
    """Return the profile of a new session: of those with room the one with the fewest sessions, then by the list.

    `most` is how many sessions may share a profile; 0 is any number. Nothing is drawn: the answer can be explained.
    """
    free = [name for name in listed if not most or taken.get(name, 0) < most]
    return min(free, key=lambda name: taken.get(name, 0)) if free else NoneFree()
