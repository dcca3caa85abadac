"""The states of a session: one total table of transitions, state by event, which support can read."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial


class State(StrEnum):
    """The state of a session. `Reason` says why; its sentence says what a person can do."""

    PENDING = "pending"
    """Created; its worker is starting or waiting for its turn, a proxy or a code. Wait, or read the reason."""
    QR_READY = "qr_ready"
    """A QR or a pairing code waits. Scan or enter it on the phone."""
    CONNECTED = "connected"
    """Linked and online, as its worker reported. Nothing to do."""
    DISCONNECTED = "disconnected"
    """Has credentials but no connection, and reconnects by itself. Add a proxy if it waits for one."""
    FAILED = "failed"
    """Gave up. A person is needed, the reason says for what; temporary bans and refused versions end by themselves."""
    STOPPED = "stopped"
    """Stopped by the operator, or for a backup or a restore. Press Start if it was the operator."""


class Reason(StrEnum):
    """Why a session has its state; its sentence is `session_reason.<code>` in `texts`.

    What changes (an end time, a count) is shown beside the sentence, not in it.
    """

    WAITING_FOR_TURN = "WAITING_FOR_TURN"
    STARTING = "STARTING"
    SCAN_THE_CODE = "SCAN_THE_CODE"
    SCAN_AGAIN = "SCAN_AGAIN"
    ENTER_THE_CODE = "ENTER_THE_CODE"
    SIGN_WITH_PASSKEY = "SIGN_WITH_PASSKEY"
    WAITING_FOR_PROXY = "WAITING_FOR_PROXY"
    PROXY_FAILOVER = "PROXY_FAILOVER"
    PROXY_RETRY = "PROXY_RETRY"
    GIVEN_PROXY_BAD = "GIVEN_PROXY_BAD"
    MOVING_TO_STICKY_PROXY = "MOVING_TO_STICKY_PROXY"
    RECONNECTING = "RECONNECTING"
    RESTARTING = "RESTARTING"
    WORKER_SILENT = "WORKER_SILENT"
    WORKER_CRASHED = "WORKER_CRASHED"
    SERVER_STOPPED = "SERVER_STOPPED"
    LOGGED_OUT = "LOGGED_OUT"
    REPLACED_ELSEWHERE = "REPLACED_ELSEWHERE"
    BANNED = "BANNED"
    TEMPORARY_BAN = "TEMPORARY_BAN"
    PASSKEY_REQUIRED = "PASSKEY_REQUIRED"
    CLIENT_OUTDATED = "CLIENT_OUTDATED"
    AUTH_FAILURE = "AUTH_FAILURE"
    PHONE_CHANGED = "PHONE_CHANGED"
    TOO_MANY_RESTARTS = "TOO_MANY_RESTARTS"
    QR_EXPIRED = "QR_EXPIRED"
    STOPPED_BY_OPERATOR = "STOPPED_BY_OPERATOR"
    BACKUP = "BACKUP"
    RESTORE = "RESTORE"


class Event(StrEnum):
    """What happened to a session: reported by its worker, found by the server, or requested by the operator."""

    # Reported by the worker. Such events repeat and arrive out of order.
    QR_SHOWN = "QR_SHOWN"
    QR_RENEWED = "QR_RENEWED"
    CODE_SHOWN = "CODE_SHOWN"
    PASSKEY_ASKED = "PASSKEY_ASKED"
    CONNECTED = "CONNECTED"
    CONNECTION_LOST = "CONNECTION_LOST"
    LOGGED_OUT = "LOGGED_OUT"
    REPLACED = "REPLACED"
    BANNED = "BANNED"
    TEMPORARILY_BANNED = "TEMPORARILY_BANNED"
    PASSKEY_DEMANDED = "PASSKEY_DEMANDED"
    CLIENT_REFUSED = "CLIENT_REFUSED"
    AUTH_BROKEN = "AUTH_BROKEN"
    QR_RAN_OUT = "QR_RAN_OUT"
    # Found by the server.
    PHONE_CHANGED = "PHONE_CHANGED"
    WORKER_STARTED = "WORKER_STARTED"
    PROXY_STRUCK = "PROXY_STRUCK"
    PROXY_LOST = "PROXY_LOST"
    GIVEN_PROXY_LOST = "GIVEN_PROXY_LOST"
    NO_CAPACITY = "NO_CAPACITY"
    FAILED_OVER = "FAILED_OVER"
    STICKY_PROXY_FOUND = "STICKY_PROXY_FOUND"
    GONE_SILENT = "GONE_SILENT"
    WORKER_DIED = "WORKER_DIED"
    RESTARTED_TOO_OFTEN = "RESTARTED_TOO_OFTEN"
    SERVER_STOPPED = "SERVER_STOPPED"
    BAN_ENDED = "BAN_ENDED"
    VERSION_RETRIED = "VERSION_RETRIED"
    # Requested by the operator or by the server's own routine.
    START_ASKED = "START_ASKED"
    RESTART_ASKED = "RESTART_ASKED"
    STOP_ASKED = "STOP_ASKED"
    LOGOUT_ASKED = "LOGOUT_ASKED"
    BACKUP_BEGAN = "BACKUP_BEGAN"
    RESTORE_BEGAN = "RESTORE_BEGAN"


@dataclass(frozen=True, slots=True)
class StateChange:
    """The session is in `state` now, because of `reason`; None where nothing needs explaining."""

    state: State
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Ignored:
    """The event does happen in this state, because events repeat and arrive out of order, and changes nothing."""


class IllegalTransition(Exception):  # noqa: N818 - named for what it is
    """The event cannot happen in this state: the server has contradicted itself."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"a session that is {state} cannot have {event}")
        self.state = state
        self.event = event


_E, _R = Event, Reason
_pend = partial(StateChange, State.PENDING)
_drop = partial(StateChange, State.DISCONNECTED)
_fail = partial(StateChange, State.FAILED)
_stop = partial(StateChange, State.STOPPED)
_ = Ignored()
#: Happens only if the server contradicts itself.
_X = None
_QR = StateChange(State.QR_READY, Reason.SCAN_THE_CODE)
_QR_AGAIN = StateChange(State.QR_READY, Reason.SCAN_AGAIN)
_PASSKEY = StateChange(State.QR_READY, Reason.SIGN_WITH_PASSKEY)
_CODE = StateChange(State.QR_READY, Reason.ENTER_THE_CODE)
_ON = StateChange(State.CONNECTED, None)

_Cell = StateChange | Ignored | None
_Row = tuple[_Cell, _Cell, _Cell, _Cell, _Cell, _Cell]


def _down(reason: Reason, *, failed: _Cell = _, stopped: _Cell = _) -> _Row:
    """Return the row of an event that ends the connection for now: linked sessions disconnect, others keep waiting."""
    return (_pend(reason), _pend(reason), _drop(reason), _drop(reason), failed, stopped)


def _alike(move: StateChange, *, failed: _Cell = _, stopped: _Cell = _) -> _Row:
    """Return the row of an event that means the same in every state that wants a worker."""
    return (move, move, move, move, failed, stopped)


def _give_up(reason: Reason, *, failed: _Cell = _, stopped: _Cell = _) -> _Row:
    """Return the row of an event after which a person is needed."""
    return _alike(_fail(reason), failed=failed, stopped=stopped)


def _stop_all(reason: Reason) -> _Row:
    """Return the row of an event that stops a session in any state."""
    return _alike(_stop(reason), failed=_stop(reason), stopped=_stop(reason))


# A column per state: pending, qr_ready, connected, disconnected, failed, stopped.
# `_` changes nothing on purpose; `_X` is illegal. There is no fourth kind.
_TABLE: Mapping[Event, _Row] = {
    # The code changes about every 20 s. The worker of a stopped or failed session may still report for a moment.
    _E.QR_SHOWN: (_QR, _QR, _, _QR, _, _),
    # WhatsApp answered a scan by retiring the secret in the code: that scan is lost.
    _E.QR_RENEWED: (_QR_AGAIN, _QR_AGAIN, _, _QR_AGAIN, _, _),
    _E.CODE_SHOWN: (_CODE, _CODE, _, _CODE, _, _),
    # The phone has scanned, and WhatsApp wants the owner's passkey before it links.
    _E.PASSKEY_ASKED: (_PASSKEY, _PASSKEY, _, _PASSKEY, _, _),
    # Evidence wins: a session that had failed is connected if its worker reports so. Only a stop stands.
    _E.CONNECTED: (_ON, _ON, _, _ON, _ON, _),
    # The worker reconnects by itself. Before the link there is nothing to lose: 515 follows every scan.
    _E.CONNECTION_LOST: (_, _, _drop(_R.RECONNECTING), _, _, _),
    _E.LOGGED_OUT: _alike(_pend(_R.LOGGED_OUT)),
    _E.REPLACED: _give_up(_R.REPLACED_ELSEWHERE),
    # A ban is recorded in every state.
    _E.BANNED: _give_up(_R.BANNED, failed=_fail(_R.BANNED), stopped=_fail(_R.BANNED)),
    _E.TEMPORARILY_BANNED: _give_up(_R.TEMPORARY_BAN, stopped=_fail(_R.TEMPORARY_BAN)),
    # Demanded at linking only; in a linked session it is an old report.
    _E.PASSKEY_DEMANDED: (_fail(_R.PASSKEY_REQUIRED), _fail(_R.PASSKEY_REQUIRED), _, _, _, _),
    _E.CLIENT_REFUSED: _give_up(_R.CLIENT_OUTDATED),
    _E.AUTH_BROKEN: _give_up(_R.AUTH_FAILURE),
    # A session that does not run, or has failed anyway, needs a person already.
    _E.PHONE_CHANGED: _give_up(_R.PHONE_CHANGED),
    _E.QR_RAN_OUT: (_fail(_R.QR_EXPIRED), _fail(_R.QR_EXPIRED), _, _, _, _),
    # A linked session reconnects from here on: why its last worker ended says nothing about this one, and that its last
    # worker was connected is no evidence that this one is.
    _E.WORKER_STARTED: (_pend(_R.STARTING), _, _drop(_R.RECONNECTING), _drop(_R.RECONNECTING), _X, _X),
    _E.PROXY_STRUCK: _down(_R.PROXY_RETRY),
    _E.PROXY_LOST: _down(_R.PROXY_FAILOVER),
    # The operator chose the proxy, and nobody has scanned yet: it waits for that one.
    _E.GIVEN_PROXY_LOST: _down(_R.GIVEN_PROXY_BAD),
    _E.NO_CAPACITY: _down(_R.WAITING_FOR_PROXY),
    _E.FAILED_OVER: _down(_R.PROXY_FAILOVER),
    _E.STICKY_PROXY_FOUND: _down(_R.MOVING_TO_STICKY_PROXY),
    # The watchdog checks only sessions that want a worker.
    _E.GONE_SILENT: _down(_R.WORKER_SILENT, failed=_X, stopped=_X),
    _E.WORKER_DIED: _down(_R.WORKER_CRASHED),
    _E.RESTARTED_TOO_OFTEN: _give_up(_R.TOO_MANY_RESTARTS),
    # A session that waits for a proxy or a scan still waits for that.
    _E.SERVER_STOPPED: (_, _pend(_R.SERVER_STOPPED), _drop(_R.SERVER_STOPPED), _, _, _),
    # A stop during the ban stands.
    _E.BAN_ENDED: (_, _, _, _, _pend(_R.WAITING_FOR_TURN), _),
    _E.VERSION_RETRIED: (_, _, _, _, _pend(_R.WAITING_FOR_TURN), _),
    _E.START_ASKED: (_, _, _, _, _pend(_R.WAITING_FOR_TURN), _pend(_R.WAITING_FOR_TURN)),
    _E.RESTART_ASKED: _down(_R.RESTARTING, failed=_pend(_R.WAITING_FOR_TURN), stopped=_pend(_R.WAITING_FOR_TURN)),
    # An operator's stop outlasts the backup during which it was requested.
    _E.STOP_ASKED: _stop_all(_R.STOPPED_BY_OPERATOR),
    # Also when it has failed: with unreadable credentials this is how a person gets a new code. A stop stands.
    _E.LOGOUT_ASKED: _alike(_pend(_R.LOGGED_OUT), failed=_pend(_R.LOGGED_OUT)),
    # A session that does not run need not be stopped, and must not be started afterwards.
    _E.BACKUP_BEGAN: _alike(_stop(_R.BACKUP)),
    _E.RESTORE_BEGAN: _stop_all(_R.RESTORE),
}

_CELLS = {(state, event): cell for event, row in _TABLE.items() for state, cell in zip(State, row, strict=True)}

#: Pairs that change the session.
TRANSITIONS: Mapping[tuple[State, Event], StateChange] = {
    pair: cell for pair, cell in _CELLS.items() if isinstance(cell, StateChange)
}
#: Pairs that happen and change nothing.
IGNORED: frozenset[tuple[State, Event]] = frozenset(p for p, cell in _CELLS.items() if isinstance(cell, Ignored))
#: Pairs that cannot happen unless the server contradicts itself.
ILLEGAL: frozenset[tuple[State, Event]] = frozenset(pair for pair, cell in _CELLS.items() if cell is _X)

#: A worker should be running for a session in these states.
WANTS_WORKER = frozenset({State.PENDING, State.QR_READY, State.CONNECTED, State.DISCONNECTED})
#: Messages may be released to a session in these states.
CAN_SEND = frozenset({State.CONNECTED})
#: Nothing continues in these states until a person acts.
NEEDS_PERSON = frozenset({State.QR_READY, State.FAILED})
#: Reasons on the way to a code. A session that its phone unlinked keeps LOGGED_OUT instead, until it is linked again.
BEFORE_THE_LINK = frozenset(
    {
        Reason.WAITING_FOR_TURN,
        Reason.STARTING,
        Reason.SCAN_THE_CODE,
        Reason.SCAN_AGAIN,
        Reason.ENTER_THE_CODE,
        Reason.LOGGED_OUT,
    }
)
#: Reasons that call for a person although the state alone does not.
NEEDS_PERSON_BECAUSE = frozenset({Reason.WAITING_FOR_PROXY, Reason.GIVEN_PROXY_BAD, Reason.LOGGED_OUT})
#: Reasons of a state without a worker that the server itself ends.
RESTS_FOR_A_WHILE = frozenset({Reason.BACKUP, Reason.RESTORE, Reason.TEMPORARY_BAN, Reason.CLIENT_OUTDATED})


def advance(state: State, event: Event) -> StateChange | Ignored:
    """Return the change that `event` makes to a session in `state`; raise `IllegalTransition` if it cannot happen."""
    pair = (state, event)
    if pair in ILLEGAL:
        raise IllegalTransition(state, event)
    return TRANSITIONS.get(pair, _)


def needs_person(state: State, reason: Reason | None) -> bool:
    """Whether a person has to act before this session continues."""
    return (state in NEEDS_PERSON and reason not in RESTS_FOR_A_WHILE) or reason in NEEDS_PERSON_BECAUSE


def comes_back(state: State, reason: Reason | None) -> bool:
    """Whether a session that is not connected will be, without a person."""
    return (state in WANTS_WORKER or reason in RESTS_FOR_A_WHILE) and not needs_person(state, reason)
