"""Sessions: create, advance, update, register a worker, remove. Their slots are in `slots`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio.client import Pipeline

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.messages import phone_queues
from wa_orchestrator.store.messages.message_keys import Place, counted_in, head, layout
from wa_orchestrator.store.outcomes import Fenced, Removed, Unknown, Written
from wa_orchestrator.store.record_codec import flat
from wa_orchestrator.store.records import SessionChanges

CONTROL_LEASE = "control"


@dataclass(frozen=True, slots=True)
class Created:
    """It exists, `pending`, with a slot on this proxy ('' only without any proxy)."""

    proxy: str


@dataclass(frozen=True, slots=True)
class Exists:
    """A session with this id exists already."""


@dataclass(frozen=True, slots=True)
class PhoneFull:
    """The phone has reached its limit of sessions."""

    count: int


@dataclass(frozen=True, slots=True)
class NoRoom:
    """None of the candidate proxies has a free slot."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A worker may be started with this epoch; all older ones are fenced."""

    epoch: int


@dataclass(frozen=True, slots=True)
class NotLeader:
    """Another orchestrator holds the control lease."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """A message is in its outbox; reclaim it first."""

    message: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to be recorded; `candidates` are proxy ids, the preferred first; `direct` asks for no proxy at all."""

    id: str
    phone: str = ""
    siblings: int = 0
    """How many sessions the phone had when the candidates were chosen."""
    candidates: Sequence[str] = ()
    direct: str = ""
    fields: SessionChanges = field(default_factory=SessionChanges)
    seen_sessions: int | None = None
    """How many sessions there were when its profile was chosen, if that choice depends on them."""


def slot_keys(candidates: Sequence[str]) -> list[str]:
    """Return the keys of candidate proxies as scripts take them: hash and sessions of each in turn."""
    return [name for proxy in candidates for name in (keys.proxy(proxy), keys.sessions_of_proxy(proxy))]


async def present(scripts: Scripts) -> list[str]:
    """Return the ids of all sessions that are not being removed, sorted; nothing else of them is read."""
    found: Any = sorted(await scripts.redis.smembers(keys.SESSIONS_ALL))
    removing = await scripts.each(lambda pipe, key: pipe.hget(key, "removing"), map(keys.session, found))
    return [name for name, removed in zip(found, removing, strict=True) if not removed]


async def connected_sessions(scripts: Scripts) -> set[str]:
    found: Any = await scripts.redis.smembers(keys.SESSIONS_ACTIVE)
    return set(found)


async def sessions_of_phones(scripts: Scripts, phones: Sequence[str]) -> list[set[str]]:
    """Return for each phone the ids of its sessions, in one round trip."""
    return await scripts.each(Pipeline.smembers, map(keys.sessions_of_phone, phones))


async def create(
    scripts: Scripts, session: NewSession, *, per_proxy: int, per_phone: int
) -> Created | Exists | PhoneFull | Changed | NoRoom:
    """Record a session and take its slot in one step."""
    names = [
        keys.session(session.id), keys.SESSIONS_ALL, keys.temporary_binding(session.id),
        keys.sessions_of_phone(session.phone), keys.PROVISIONING, keys.session_events(session.id), keys.EVENTS,
        keys.EPOCH_FLOOR, keys.TAG_LIMITS, *slot_keys(session.candidates),
    ]  # fmt: skip
    args: list[Argument] = [session.id, per_proxy, per_phone, session.phone, session.direct, session.siblings]
    args += [
        "" if session.seen_sessions is None else session.seen_sessions,
        len(session.candidates),
        *session.candidates,
        *flat(session.fields),
    ]
    return await scripts.ask(
        "create_session",
        names,
        args,
        created=Created,
        exists=Exists,
        phone_full=PhoneFull,
        changed=Changed,
        no_room=NoRoom,
    )


@dataclass(frozen=True, slots=True)
class Transition:
    """A decided transition of a session. `epoch` None means that the server, not a worker, reports it."""

    version: int
    status: str
    reason: str
    what: str
    epoch: int | None = None
    fields: SessionChanges = field(default_factory=SessionChanges)


async def advance(scripts: Scripts, session_id: str, step: Transition) -> Written | Changed | Fenced | Unknown:
    """Write a session's next state, if the session did not change since the decision."""
    names = [keys.session(session_id), keys.session_events(session_id), keys.EVENTS, keys.SESSIONS_ACTIVE, keys.DUE]
    epoch = "" if step.epoch is None else step.epoch
    args = [session_id, step.version, epoch, step.status, step.reason, step.what, *flat(step.fields)]
    return await scripts.ask(
        "advance_session", names, args, advanced=Written, changed=Changed, fenced=Fenced, unknown=Unknown
    )


async def update(scripts: Scripts, session_id: str, fields: SessionChanges) -> bool:
    """Write fields that change no state: a mark, a name. False if the session is removed, and stays so."""
    names = [keys.session(session_id), keys.SESSIONS_CHANGED]
    return await scripts.whether("update_session", names, flat(fields), noted=True, unknown=False)


async def change(scripts: Scripts, session_id: str, fields: SessionChanges) -> bool:
    """Write what an operator chose, and wake the phone; '' deletes a field. False if the session is removed."""
    names = [keys.session(session_id), keys.DUE, keys.SESSIONS_CHANGED, keys.TAG_LIMITS]
    return await scripts.whether("change_session", names, flat(fields), set=True, unknown=False)


async def next_number(scripts: Scripts) -> int:
    """Return a number that no session was named with before."""
    return int(await scripts.redis.incr(keys.SESSION_NUMBER))


async def last_proxy(scripts: Scripts, session_id: str) -> str:
    """Return the proxy that a deleted session of this id had; '' if there is none."""
    return str(await scripts.redis.get(keys.last_proxy(session_id)) or "")


async def register(
    scripts: Scripts,
    session_id: str,
    *,
    phone: str,
    lease: str,
    day: str,
    above: int = 0,
    most_crashes: int | None = None,
) -> Registered | NotLeader | Changed | Unknown:
    """Raise the epoch for a worker that is about to start; what the old one held returns to the queue.

    `above` is the highest epoch that the session's directory has seen. With `most_crashes` the old worker has died: the
    message it held fails after so many deaths.
    """
    place = Place(await phone_queues.in_flight(scripts, phone), phone, session_id)
    names = [*layout(place), keys.lease(CONTROL_LEASE), *counted_in(session_id, day), keys.UNCONFIRMED]
    args = [*head(place), lease, above, most_crashes or ""]
    return await scripts.ask(
        "register_worker", names, args, registered=Registered, not_leader=NotLeader, changed=Changed, unknown=Unknown
    )


async def remove(
    scripts: Scripts, session_id: str, *, proxy: str, phone: str, forget: str = ""
) -> Removed | Unknown | Changed | InFlight:
    """Remove a session and free its slot; `forget="forget"` drops the phone's sticky proxy too."""
    names = [
        keys.session(session_id), keys.SESSIONS_ALL, keys.SESSIONS_ACTIVE, keys.temporary_binding(session_id),
        keys.sessions_of_phone(phone), keys.sessions_of_proxy(proxy), keys.qr(session_id),
        keys.session_events(session_id), keys.EVENTS, keys.commands(session_id), keys.PROVISIONING,
        keys.sticky(phone), keys.outbox(session_id), keys.EPOCH_FLOOR, keys.HOLDS, keys.last_proxy(session_id),
        keys.credentials(session_id),
    ]  # fmt: skip
    args = [session_id, forget, proxy, phone]
    return await scripts.ask(
        "remove_session", names, args, removed=Removed, unknown=Unknown, changed=Changed, in_flight=InFlight
    )
