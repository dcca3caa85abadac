"""Who may do what: the scopes of a key, the roles of people, and the sessions that a caller reaches."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """What a key may do. `admin` includes the others."""

    SEND = "send"
    """Send messages, read their status, and add opt-outs."""
    READ = "read"
    """Read sessions, proxies, messages and events, but never a QR code or a secret."""
    OPERATE = "operate"
    """Link, start, stop and pause sessions; set limits; change proxies and opt-outs. No keys, people or webhooks."""
    ADMIN = "admin"
    """Everything."""


class Role(StrEnum):
    """What a person may do."""

    ADMINISTRATOR = "administrator"
    """May do everything, also with people, keys and the audit log."""
    OPERATOR = "operator"
    """Works with sessions, messages, proxies and limits, and sees QR codes."""
    VIEWER = "viewer"
    """Sees everything but QR codes and secrets; changes nothing."""


SCOPES: Final[Mapping[Role, frozenset[Scope]]] = {
    Role.ADMINISTRATOR: frozenset({Scope.ADMIN}),
    Role.OPERATOR: frozenset({Scope.SEND, Scope.READ, Scope.OPERATE}),
    Role.VIEWER: frozenset({Scope.READ}),
}


@dataclass(frozen=True, slots=True)
class Everything:
    """All sessions, and what belongs to no session."""

    def includes(self, _session_id: str, _labels: Collection[str]) -> bool:
        """Whether the session is reached: always."""
        return True


@dataclass(frozen=True, slots=True)
class Only:
    """The sessions with one of these ids or one of these labels. To its caller, the others do not exist."""

    sessions: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()

    def includes(self, session_id: str, labels: Collection[str]) -> bool:
        """Whether the session is reached. What belongs to no session ('') never is."""
        return bool(session_id) and (session_id in self.sessions or not self.labels.isdisjoint(labels))


Reach = Everything | Only
EVERYTHING: Final = Everything()


def reach_of(sessions: Iterable[str], labels: Iterable[str]) -> Reach:
    """Return the reach of a key, a person or a webhook; one that names neither sessions nor labels is not limited."""
    only = Only(frozenset(sessions), frozenset(labels))
    return EVERYTHING if only == Only() else only


def may_overrule(mine: Reach, theirs: Reach, session_id: str) -> bool:
    """Whether who reaches `mine` may undo what somebody who reaches `theirs` did to a session that both reach."""
    if isinstance(mine, Everything):
        return True
    if isinstance(theirs, Everything):
        return False
    return theirs.sessions <= mine.sessions | {session_id} and theirs.labels <= mine.labels


class RouteSpan(StrEnum):
    """What a route is about."""

    FLEET = "fleet"
    """More than single sessions: closed to callers that are limited to some. What every route is unless it says so."""
    SESSIONS = "sessions"
    """Single sessions: its handler shows and changes only those that the caller reaches."""


class AccessVerdict(StrEnum):
    """Whether a caller may use a route."""

    ALLOWED = "ALLOWED"
    SCOPE_MISSING = "SCOPE_MISSING"
    """The key, or the role of the person, does not include this."""
    LIMITED = "LIMITED"
    """The caller is limited to some sessions, and the route is about the whole fleet."""


def decide(scopes: Collection[Scope], reach: Reach, needed: Scope, span: RouteSpan) -> AccessVerdict:
    """Decide whether a caller with these scopes and this reach may use a route."""
    if needed not in scopes and Scope.ADMIN not in scopes:
        return AccessVerdict.SCOPE_MISSING
    return AccessVerdict.LIMITED if isinstance(reach, Only) and span is RouteSpan.FLEET else AccessVerdict.ALLOWED


def is_grantable(scopes: Collection[Scope], reach: Reach) -> bool:
    """Whether such a key or person may exist: administrators cannot be limited, because they could undo it."""
    return isinstance(reach, Everything) or Scope.ADMIN not in scopes
