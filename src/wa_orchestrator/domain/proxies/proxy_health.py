"""When a proxy is bad: failed checks, strikes, our own outage; and when it is good again."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from itertools import chain

GOOD_CHECKS_TO_RECOVER = 3
_LONGEST_DOUBLING = 6


class ProxyStatus(StrEnum):
    """Whether sessions may be put on a proxy."""

    OK = "OK"
    """Healthy. Nothing to do."""
    BAD = "BAD"
    """Failed two checks or struck out. It comes back after good checks in a row; replace it if it does not."""


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
    """It failed two checks, and nothing came through it meanwhile."""
    STRUCK_OUT = "STRUCK_OUT"
    """It passed our check, but failed its sessions twice within five minutes, and nothing came through it meanwhile."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long evidence against a proxy must last, or may lie apart, before it counts."""

    confirm_ms: float = 10_000
    """A failed check is repeated after this time; only the second failure in a row counts."""
    traffic_due_ms: float = 60_000
    """A connected worker shows traffic within this time: WhatsApp's keep-alive (30 s), a ping (15 s), and some more."""
    incident_ms: float = 10_000
    """Complaints so close together are one incident: a worker waits for a dead proxy for 8 s before it complains."""
    strike_window_ms: float = 5 * 60_000
    """A second strike within this time means that the proxy is bad although it passes our check."""

    def scaled(self, time_scale: float) -> "Patience":
        """Return the same for a clock that runs `time_scale` times as fast."""
        return Patience(*(duration_ms / time_scale for duration_ms in astuple(self)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about one healthy proxy in a round in which all healthy proxies are checked at once."""

    passed: bool
    passed_at_ms: int = 0
    """Its last good check before this one."""
    failing_since_ms: int = 0
    """The first of the failed checks in a row before this one; 0 if the last one passed."""
    complaints_ms: Sequence[int] = ()
    """When workers complained about it; only what `weigh_complaint` calls a strike."""
    traffic_at_ms: int = 0
    """When WhatsApp was last heard through it."""
    has_connected: bool = False
    """Whether a session is connected through it, as far as we know."""


class Verdict(StrEnum):
    """What a round means for one proxy."""

    KEEP = "KEEP"
    """It stays as it is."""
    SUSPECT = "SUSPECT"
    """It failed this check, which proves nothing yet. It is checked again soon."""
    OUR_OUTAGE = "OUR_OUTAGE"
    """Most of the pool fails at once, so the fault is ours. Checks that failed meanwhile do not count."""
    FAILED_CHECK = "FAILED_CHECK"
    """Proven bad by two checks: all its sessions fail over."""
    STRUCK_OUT = "STRUCK_OUT"
    """Proven bad by its sessions: all of them fail over."""


#: Verdicts that make a proxy bad, and what is recorded as the cause.
CONDEMNED: Mapping[Verdict, ProxyFailure] = {
    Verdict.FAILED_CHECK: ProxyFailure.FAILED_CHECK,
    Verdict.STRUCK_OUT: ProxyFailure.STRUCK_OUT,
}


def judge(pool: Mapping[str, Evidence], now_ms: int, patience: Patience) -> dict[str, Verdict]:
    """Return a verdict for every healthy proxy.

    A proxy that passes now but failed a moment ago counts as failing when we ask whether the outage is ours: when a
    connection comes back, some checks of a round pass and others do not.
    """
    failing = {name for name, each in pool.items() if not each.passed or each.failing_since_ms}
    if is_our_outage(len(failing), len(pool)):
        return {name: Verdict.OUR_OUTAGE if name in failing else Verdict.KEEP for name in pool}
    return {name: _verdict(name, pool, now_ms, patience) for name in pool}


def is_our_outage(failing: int, healthy: int) -> bool:
    """Whether so many of the proxies that were healthy fail at once that the cause is on our side."""
    return 2 * failing > healthy


def _verdict(name: str, pool: Mapping[str, Evidence], now_ms: int, patience: Patience) -> Verdict:
    each = pool[name]
    if each.passed:
        return Verdict.STRUCK_OUT if len(strikes(name, pool, now_ms, patience)) > 1 else Verdict.KEEP
    if not each.failing_since_ms or now_ms - each.failing_since_ms < patience.confirm_ms:
        return Verdict.SUSPECT
    blamed_at = max((at_ms for at_ms in each.complaints_ms if at_ms > each.passed_at_ms), default=0)
    if each.traffic_at_ms > max(each.failing_since_ms, blamed_at):
        return Verdict.SUSPECT
    if each.has_connected and not blamed_at and now_ms - each.failing_since_ms < patience.traffic_due_ms:
        return Verdict.SUSPECT
    return Verdict.FAILED_CHECK


class Complaint(StrEnum):
    """What a worker's report of a failure says about its proxy."""

    LATE = "LATE"
    """Nothing: the proxy has passed a check since, or the server was away at that time."""
    DOUBTFUL = "DOUBTFUL"
    """Worth a check, and no strike: the worker may have begun to try while the server or its own line was away."""
    STRIKE = "STRIKE"
    """Worth a check, and a strike if that passes."""


def weigh_complaint(at_ms: int, *, passed_at_ms: int, present_since_ms: int, patience: Patience) -> Complaint:
    """Classify a worker's complaint. `at_ms` is when the worker gave up, not when the report arrived."""
    if at_ms <= max(passed_at_ms, present_since_ms):
        return Complaint.LATE
    return Complaint.DOUBTFUL if at_ms - patience.incident_ms <= present_since_ms else Complaint.STRIKE


def strikes(name: str, pool: Mapping[str, Evidence], now_ms: int, patience: Patience) -> list[int]:
    """Return the incidents that count against a proxy which passes our checks.

    Not those before anything came through it again, and not those in which another proxy was blamed too: then the
    fault was ours. Nor those in the future: the clock was set back since, and they may be older than the window.
    """
    own = pool[name]
    since_ms = max(now_ms - patience.strike_window_ms, own.traffic_at_ms)
    elsewhere = list(chain.from_iterable(each.complaints_ms for other, each in pool.items() if other != name))
    found: list[int] = []
    for at_ms in sorted(own.complaints_ms):
        shared = any(abs(at_ms - other) <= patience.incident_ms for other in elsewhere)
        again = found and at_ms - found[-1] <= patience.incident_ms
        if since_ms < at_ms <= now_ms and not shared and not again:
            found.append(at_ms)
    return found


@dataclass(frozen=True, slots=True)
class Health:
    """A proxy's status and how many checks in a row passed or failed."""

    status: ProxyStatus = ProxyStatus.OK
    good_in_a_row: int = 0
    bad_in_a_row: int = 0


def after_check(health: Health, *, passed: bool) -> Health:
    """Return the health after one more check: three passes in a row make a bad proxy good. `judge` makes it bad."""
    if not passed:
        return Health(health.status, 0, health.bad_in_a_row + 1)
    good = health.good_in_a_row + 1
    if health.status is ProxyStatus.BAD and good < GOOD_CHECKS_TO_RECOVER:
        return Health(ProxyStatus.BAD, good, 0)
    return Health(ProxyStatus.OK, good, 0)


def next_check_ms(consecutive_bad: int, base_ms: int) -> int:
    """Return the time to the next check: the usual interval, doubled for each failure in a row, up to 64 times."""
    return base_ms << min(max(consecutive_bad, 0), _LONGEST_DOUBLING)
