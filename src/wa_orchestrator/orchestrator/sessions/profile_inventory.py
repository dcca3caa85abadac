"""The inventory of profiles: the list, the sessions that use each, free ones, and an alert when few are left."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import profile
from wa_orchestrator.domain.sessions.profile import NoneFree, Profile
from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.sessions import profiles


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A profile with the sessions that show as it."""

    profile: Profile
    origin: str
    """`settings`, `operator`, or `sessions` for one that is on no list any more and that sessions keep."""
    sessions: tuple[str, ...]
    free: int | None
    """How many more sessions may have it; None for any number."""


@dataclass(frozen=True, slots=True)
class ProfileInventory:
    rows: tuple[ProfileRow, ...]
    most: int
    """How many sessions may share a profile; 0 for any number."""

    @property
    def free(self) -> int | None:
        """How many more sessions can be made; None for any number."""
        return sum(row.free or 0 for row in self.rows) if self.most else None

    @property
    def free_profiles(self) -> int:
        """How many listed profiles have room."""
        return sum(row.origin != "sessions" and row.free != 0 for row in self.rows)

    def is_low(self, fewest: int) -> bool:
        """Whether fewer sessions than `fewest` can be made. Never where any number may share a profile."""
        return self.free is not None and self.free < fewest


@dataclass(frozen=True, slots=True)
class ChosenProfile:
    name: str
    seen_sessions: int | None
    """How many sessions there were, if the choice depends on that."""


async def read(settings: Settings, scripts: Scripts) -> ProfileInventory:
    """Return all profiles: those of the settings, those that were added, then those that only sessions have."""
    listed = await _listed(settings, scripts)
    of_session = await profiles.in_use(scripts)
    most = settings.profile_sessions
    origins = dict.fromkeys(settings.device_profiles, "settings")
    kept = sorted(set(of_session.values()) - set(listed))
    rows = []
    for name in [*listed, *kept]:
        sessions = tuple(session for session, profile_name in of_session.items() if profile_name == name)
        is_listed = name in listed
        free = (max(0, most - len(sessions)) if most else None) if is_listed else 0
        origin = origins.get(name, "operator") if is_listed else "sessions"
        rows.append(ProfileRow(_read_name(name), origin, sessions, free))
    return ProfileInventory(tuple(rows), most)


async def choose(context: Context, wanted: str) -> ChosenProfile:
    """Return the profile of a new session: the wanted one ('' = any), if it is listed and has room."""
    settings, scripts = context.settings, context.scripts
    listed, most = await _listed(settings, scripts), settings.profile_sessions
    if wanted:
        name = Profile.parse(wanted).name
        if name not in listed:
            text = f"The profile {name} is on no list. Known: {', '.join(listed[:10])}."
            raise Refused("NO_SUCH_PROFILE", text, 404)
        listed = [name]
    if len(listed) == 1 and not most:
        return ChosenProfile(listed[0], None)
    of_session = await profiles.in_use(scripts)
    match profile.choose(listed, Counter(of_session.values()), most):
        case NoneFree():
            text = f"Each profile may have {most} sessions (PROFILE_SESSIONS), and all are taken. Add a profile first."
            raise Refused("NO_PROFILE_FREE", text, 409)
        case name:
            return ChosenProfile(name, len(of_session) if most else None)


async def report_low(context: Context) -> None:
    """Tell people once when few profiles begin to be free."""
    if not context.settings.profile_sessions:
        return await profiles.report_low(context.scripts, "")
    found = await read(context.settings, context.scripts)
    low = found.is_low(context.settings.low_inventory_profiles)
    counts = {"free": found.free, "profiles": found.free_profiles}
    return await profiles.report_low(context.scripts, json.dumps(counts) if low else "")


async def _listed(settings: Settings, scripts: Scripts) -> Sequence[str]:
    return list(dict.fromkeys([*settings.device_profiles, *await profiles.added(scripts)]))


def _read_name(name: str) -> Profile:
    """Return a stored name as a profile; one that an older version wrote is shown as it stands."""
    try:
        return Profile.parse(name)
    except Refused:
        return Profile(name, browser="")
