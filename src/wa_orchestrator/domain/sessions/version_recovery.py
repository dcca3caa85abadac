"""Decides how sessions come back whose client version WhatsApp refused (405): one tries, its success releases all.

A fleet that tries by the hundred tells WhatsApp nothing new and looks like an attack; a version that one session was
accepted with is as good for every other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

#: How long the fleet waits between two tries.
RETRY_AFTER_MS = 15 * 60_000


@dataclass(frozen=True, slots=True)
class RefusedSession:
    """A session that WhatsApp refused at `since_ms`, with the client revision that it had then (0 = unknown)."""

    session: str
    since_ms: int
    revision: int = 0


@dataclass(frozen=True, slots=True)
class AcceptedLogin:
    """The last login that WhatsApp accepted: whose, when, and with which revision."""

    session: str = ""
    at_ms: int = 0
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """The last session that tried for the others, and when it began."""

    session: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Release:
    """These sessions start again: WhatsApp has accepted a version that they can use."""

    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TryOne:
    """This session starts, alone."""

    session: str


@dataclass(frozen=True, slots=True)
class NextTrial:
    """Nobody starts before this time; then one session tries."""

    at_ms: int


def decide(
    refused: Sequence[RefusedSession],
    *,
    login: AcceptedLogin,
    trial: Trial,
    now_ms: int,
    retry_after_ms: float = RETRY_AFTER_MS,
) -> Release | TryOne | NextTrial:
    """Decide which of the refused sessions start now; `refused` has at least one."""
    released = tuple(each.session for each in refused if _is_released(each, login, trial, now_ms, retry_after_ms))
    if released:
        return Release(released)
    due_ms = next_trial_ms(refused, trial, retry_after_ms)
    if now_ms < due_ms:
        return NextTrial(due_ms)
    return TryOne(_next_in_turn(refused, trial))


def next_trial_ms(refused: Sequence[RefusedSession], trial: Trial, retry_after_ms: float = RETRY_AFTER_MS) -> int:
    """Return when the next session may try for the others; `refused` has at least one."""
    return round(max(trial.at_ms, min(each.since_ms for each in refused)) + retry_after_ms)


def _is_released(each: RefusedSession, login: AcceptedLogin, trial: Trial, now_ms: int, retry_after_ms: float) -> bool:
    """Whether a login after the refusal shows that this session can log in too.

    One with a newer revision does, and the trial's does. One that merely happened, of a session that was never
    refused, does so only after a while: else every such login would send the refused ones into the next refusal.
    """
    if login.at_ms <= each.since_ms:
        return False
    is_trial = login.session == trial.session and login.at_ms >= trial.at_ms
    return is_trial or login.revision > each.revision > 0 or now_ms - each.since_ms >= retry_after_ms


def _next_in_turn(refused: Sequence[RefusedSession], trial: Trial) -> str:
    """Return the session that waits longest and did not try last: a trial may fail for a reason of its own."""
    others = [each for each in refused if each.session != trial.session] or list(refused)
    return min(others, key=lambda each: (each.since_ms, each.session)).session
