"""Routes of the inventory: free slots, and the profiles that sessions show as."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.profile import Profile
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.api.proxies import Inventory
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.sessions import profile_inventory
from wa_orchestrator.orchestrator.sessions.profile_inventory import ProfileRow
from wa_orchestrator.store import proxies
from wa_orchestrator.store.sessions import profiles
from wa_orchestrator.web.auth import OperateCaller, ReadCaller
from wa_orchestrator.web.models import OptionalText, RequestModel, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_NAME = "`System`, `System/Browser` or `System/Browser/Version`."
_ProfileName = Annotated[str, Field(min_length=1, max_length=60, description=_NAME, examples=["Windows/Edge/120.0"])]


class ProfileBody(RequestModel):
    """A profile to add to the list."""

    name: _ProfileName


class ProfileView(ResponseModel):
    """A profile: what sessions show as under "linked devices"."""

    name: str = Field(examples=["Windows/Edge/120.0"])
    system: str
    browser: str
    version: OptionalText
    origin: str = Field(description="`settings`, `operator`, or `sessions`: on no list any more, but kept by these.")
    sessions: list[str] = Field(description="The sessions that show as it, for their whole life.")
    free: int | None = Field(description="How many more sessions may have it; null for any number.")


class InventoryResponse(ResponseModel):
    """Free slots and profiles for new sessions."""

    slots: Inventory
    low_slots: bool = Field(description="Fewer slots than `LOW_INVENTORY_SLOTS` are free, or sessions wait.")
    profiles: list[ProfileView]
    free_profiles: int = Field(description="Listed profiles that a new session may get.")
    sessions_per_profile: int | None = Field(description="`PROFILE_SESSIONS`; null for any number.")
    low_profiles: bool = Field(description="Fewer sessions than `LOW_INVENTORY_PROFILES` can still get a profile.")


class ProfileRemoved(ResponseModel):
    """New sessions do not get it. Sessions that have it keep it."""

    removed: Literal[True] = True


class InventoryRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/inventory", "inventory")
        self.get("")(self.get_inventory)
        self.post("/profiles", status_code=201, responses=responses(PROFILE_KNOWN=409, BAD_PROFILE=422))(
            self.add_profile
        )
        self.delete("/profiles", responses=responses(NO_SUCH_PROFILE=404, PROFILE_OF_SETTINGS=409))(self.remove_profile)

    async def get_inventory(self, _caller: ReadCaller) -> InventoryResponse:
        """Get the free slots, and the profiles with the sessions that show as them."""
        found = await profile_inventory.read(self._settings, self._scripts)
        return InventoryResponse(
            slots=Inventory(**await placement.inventory(self._context)),
            low_slots=await proxies.is_inventory_low(self._scripts),
            profiles=[_view(row) for row in found.rows],
            free_profiles=found.free_profiles,
            sessions_per_profile=found.most or None,
            low_profiles=found.is_low(self._settings.low_inventory_profiles),
        )

    async def add_profile(self, body: ProfileBody, caller: OperateCaller) -> ProfileView:
        """Add a profile that new sessions may get. It must be a real system with a real browser."""
        name = Profile.parse(body.name).name
        if name in self._settings.device_profiles or not await profiles.add(self._scripts, name):
            raise Refused("PROFILE_KNOWN", f"The profile {name} is on the list already.", 409)
        await self._audit(caller, "profile.add", name)
        return next(
            _view(row)
            for row in (await profile_inventory.read(self._settings, self._scripts)).rows
            if row.profile.name == name
        )

    async def remove_profile(
        self, name: Annotated[str, Query(max_length=60, description=_NAME)], caller: OperateCaller
    ) -> ProfileRemoved:
        """Remove a profile from the list. Sessions that have it keep it."""
        if name in self._settings.device_profiles:
            text = f"{name} comes from the setting DEVICE_PROFILES. Change it there, and restart the server."
            raise Refused("PROFILE_OF_SETTINGS", text, 409)
        if not await profiles.remove(self._scripts, name):
            raise Refused(
                "NO_SUCH_PROFILE", f"The profile {name} is on no list. GET /api/v1/inventory lists them.", 404
            )
        await self._audit(caller, "profile.remove", name)
        return ProfileRemoved()


def _view(row: ProfileRow) -> ProfileView:
    return ProfileView.of(row.profile, origin=row.origin, sessions=list(row.sessions), free=row.free)
