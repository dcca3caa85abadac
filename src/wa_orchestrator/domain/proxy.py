"""Which proxy a session gets, and when a proxy is bad or good again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

#: A second strike within this time means that the proxy is bad although it passes our check.
STRIKE_WINDOW_MS = 5 * 60_000
GOOD_CHECKS_TO_RECOVER = 3
_LONGEST_DOUBLING = 6


class ProxyStatus(StrEnum):
    """Whether sessions may be put on a proxy."""

    OK = "OK"
    """Healthy. Nothing to do."""
    BAD = "BAD"
    """Failed our check or struck out. It comes back after good checks in a row; replace it if it does not."""


class ProxyFailure(StrEnum):
    """Why a proxy is bad. Stored as `CODE` or `CODE:detail`; its sentence is `proxy_failure.<code>` in `texts`."""

    NO_ANSWER = "NO_ANSWER"
    """The detail is how long the check waited, in seconds."""
    CLOSED = "CLOSED"
    UNREACHABLE = "UNREACHABLE"
    """The detail is the operating system's message."""
    CONNECT_REFUSED = "CONNECT_REFUSED"
    """The detail is the reply code of RFC 1928."""
    NOT_SOCKS5 = "NOT_SOCKS5"
    OTHER_LOGIN = "OTHER_LOGIN"
    LOGIN_REFUSED = "LOGIN_REFUSED"
    FAILED_CHECK = "FAILED_CHECK"
    """A worker reported it, and our check failed as well."""
    STRUCK_OUT = "STRUCK_OUT"
    """It passed our check, but failed its sessions twice within `STRIKE_WINDOW_MS`."""


@dataclass(frozen=True, slots=True)
class Load:
    """A proxy with the number of its sessions."""

    proxy_id: str
    sessions: int
    healthy: bool = True


def ranked(candidates: Iterable[Load], max_per_proxy: int) -> list[str]:
    """Return the healthy proxies with room, the least loaded first; ties go to the first id."""
    with_room = [load for load in candidates if load.healthy and load.sessions < max_per_proxy]
    return [load.proxy_id for load in sorted(with_room, key=lambda load: (load.sessions, load.proxy_id))]


@dataclass(frozen=True, slots=True)
class MarkBad:
    """The proxy is bad: all its sessions fail over."""

    why: ProxyFailure


@dataclass(frozen=True, slots=True)
class Strike:
    """The proxy keeps its sessions, and the strike is recorded; the worker restarts on the same proxy."""

    strikes_at_ms: tuple[int, ...]


def judge(*, check_passed: bool, strikes_at_ms: Sequence[int], now_ms: int) -> MarkBad | Strike:
    """Decide about a proxy that a worker reported, after the server has checked it by itself."""
    if not check_passed:
        return MarkBad(ProxyFailure.FAILED_CHECK)
    recent = tuple(at_ms for at_ms in strikes_at_ms if at_ms > now_ms - STRIKE_WINDOW_MS)
    if recent:
        return MarkBad(ProxyFailure.STRUCK_OUT)
    return Strike((now_ms,))


@dataclass(frozen=True, slots=True)
class Health:
    """A proxy's status and how many checks in a row passed or failed."""

    status: ProxyStatus = ProxyStatus.OK
    good_in_a_row: int = 0
    bad_in_a_row: int = 0


def after_check(health: Health, *, passed: bool) -> Health:
    """Return the health after one more check: one failure makes a proxy bad, three passes in a row make it good."""
    if not passed:
        return Health(ProxyStatus.BAD, 0, health.bad_in_a_row + 1)
    good = health.good_in_a_row + 1
    if health.status is ProxyStatus.BAD and good < GOOD_CHECKS_TO_RECOVER:
        return Health(ProxyStatus.BAD, good, 0)
    return Health(ProxyStatus.OK, good, 0)


def next_check_ms(consecutive_bad: int, base_ms: int) -> int:
    """Return the time to the next check: the usual interval, doubled for each failure in a row, up to 64 times."""
    return base_ms << min(max(consecutive_bad, 0), _LONGEST_DOUBLING)
