"""Number health: what answers, reads and refusals say about a phone, and when a message to a stranger is a wrong turn.

A stranger is a person who never wrote to the phone, as far as this server knows. WhatsApp does not say how it judges a
number: the limits here are ours, and nothing is stopped by them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wa_orchestrator.domain.pacing.limits import DAY_MS, Trust

#: How far back people, and refusals, are counted.
WINDOW_MS: Final = 28 * DAY_MS
#: People get so long to answer before they count.
PATIENCE_MS: Final = DAY_MS
#: Whole days before today whose messages count as read or unread.
READ_DAYS: Final = 7
#: So many strangers in a row, without an answer in between, look like a list that nobody agreed to.
MANY_IN_A_ROW: Final = 10
#: Below these, a share says nothing.
_LEAST_PEOPLE: Final = 20
_LEAST_MESSAGES: Final = 50
#: Fewer than one of ten who answers, and more than four of five messages unread. People can hide that they read.
_POOR_ANSWERS: Final = 0.10
_POOR_UNREAD: Final = 0.80


class HealthLevel(StrEnum):
    """What a signal says."""

    GOOD = "good"
    POOR = "poor"
    TOO_FEW = "too_few"
    """There is too little to tell."""


class HealthSignal(StrEnum):
    """What is counted."""

    ANSWERS = "ANSWERS"
    """Of the strangers this phone wrote to, those who answered."""
    UNREAD = "UNREAD"
    """Of the delivered messages, those that were not read."""
    REFUSALS = "REFUSALS"
    """Of the messages tried, those that WhatsApp refused because it does not let the phone write to that person."""


@dataclass(frozen=True, slots=True)
class HealthEvidence:
    """What was counted for a phone, and since when."""

    written: int = 0
    """Strangers it wrote to, at least `PATIENCE_MS` ago."""
    answered: int = 0
    people_since_ms: int = 0
    delivered: int = 0
    read: int = 0
    read_since_ms: int = 0
    tried: int = 0
    refused: int = 0
    tried_since_ms: int = 0
    strangers: int = 0
    """Strangers it wrote to in a row, up to now."""


@dataclass(frozen=True, slots=True)
class SignalReading:
    """One signal: `count` of `of`, since when, and what that says."""

    signal: HealthSignal
    level: HealthLevel
    count: int
    of: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class NumberHealth:
    """The health of a phone, with its evidence."""

    level: HealthLevel
    signals: tuple[SignalReading, ...]
    strangers: int


def judge(evidence: HealthEvidence) -> NumberHealth:
    """Return the health of a phone: poor if any signal is, good if one is good and none poor."""
    signals = (_answers(evidence), _unread(evidence), _refusals(evidence))
    levels = {each.level for each in signals}
    if HealthLevel.POOR in levels:
        level = HealthLevel.POOR
    else:
        level = HealthLevel.GOOD if HealthLevel.GOOD in levels else HealthLevel.TOO_FEW
    return NumberHealth(level, signals, evidence.strangers)


def _answers(evidence: HealthEvidence) -> SignalReading:
    count, of = evidence.answered, evidence.written
    level = _level(is_poor=count < _POOR_ANSWERS * of, is_enough=of >= _LEAST_PEOPLE)
    return SignalReading(HealthSignal.ANSWERS, level, count, of, evidence.people_since_ms)


def _unread(evidence: HealthEvidence) -> SignalReading:
    of = evidence.delivered
    count = max(0, of - evidence.read)  # what was delivered before the first of these days may be read within them
    level = _level(is_poor=count > _POOR_UNREAD * of, is_enough=of >= _LEAST_MESSAGES)
    return SignalReading(HealthSignal.UNREAD, level, count, of, evidence.read_since_ms)


def _refusals(evidence: HealthEvidence) -> SignalReading:
    count, of = evidence.refused, evidence.tried
    # One is enough: WhatsApp has said that it does not like whom this phone writes to.
    level = HealthLevel.POOR if count else _level(is_poor=False, is_enough=of >= _LEAST_MESSAGES)
    return SignalReading(HealthSignal.REFUSALS, level, count, of, evidence.tried_since_ms)


def _level(*, is_poor: bool, is_enough: bool) -> HealthLevel:
    if not is_enough:
        return HealthLevel.TOO_FEW
    return HealthLevel.POOR if is_poor else HealthLevel.GOOD


class WarningCode(StrEnum):
    """Why a message to a stranger is a wrong turn."""

    NEW_NUMBER = "NEW_NUMBER"
    """Its phone was linked lately."""
    STRANGERS_IN_A_ROW = "STRANGERS_IN_A_ROW"
    """Its phone wrote to many strangers, one after the other."""
    POOR_HEALTH = "POOR_HEALTH"
    """Few answer the phone, few read it, or WhatsApp has refused messages of it."""


@dataclass(frozen=True, slots=True)
class NumberStanding:
    """What a warning depends on, besides whether the recipient is a stranger."""

    trust: Trust = Trust.HOT
    linked_days: int = 0
    strangers: int = 0
    is_poor: bool = False

    @property
    def is_watched(self) -> bool:
        """Whether a message to a stranger would get a warning."""
        return bool(self.warnings(0))

    def warnings(self, before: int) -> tuple["StrangerWarning", ...]:
        """Return the warnings for a message to a stranger that has `before` others of its request before it."""
        return tuple(self._warnings(before))

    def _warnings(self, before: int) -> Iterator["StrangerWarning"]:
        if self.trust is Trust.COLD:
            yield StrangerWarning(WarningCode.NEW_NUMBER, self.linked_days)
        if self.strangers + before >= MANY_IN_A_ROW:
            yield StrangerWarning(WarningCode.STRANGERS_IN_A_ROW, self.strangers + before)
        if self.is_poor:
            yield StrangerWarning(WarningCode.POOR_HEALTH)


@dataclass(frozen=True, slots=True)
class StrangerWarning:
    """A warning; `count` is the days since the phone was linked, or the strangers in a row before this one."""

    code: WarningCode
    count: int | None = None


def campaign_warnings(*, never_wrote: int, new_senders: int, poor_senders: int) -> tuple[StrangerWarning, ...]:
    """Return the warnings for a campaign: how many recipients never wrote, and how many senders that may harm."""
    if never_wrote < MANY_IN_A_ROW:
        return ()
    found = {
        WarningCode.STRANGERS_IN_A_ROW: never_wrote,
        WarningCode.NEW_NUMBER: new_senders,
        WarningCode.POOR_HEALTH: poor_senders,
    }
    return tuple(StrangerWarning(code, count) for code, count in found.items() if count)


def standing(trust: Trust, first_connected_ms: int, now_ms: int, *, strangers: int, is_poor: bool) -> NumberStanding:
    """Return the standing of a phone by when it was first connected (0 = never) and what was counted."""
    linked_days = max(0, now_ms - first_connected_ms) // DAY_MS if first_connected_ms else 0
    return NumberStanding(trust, linked_days, strangers, is_poor)
