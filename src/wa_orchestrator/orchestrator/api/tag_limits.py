"""Routes of limits by tag. They lower what the preset allows; to raise it, the risk must be acknowledged."""

from collections import Counter
from typing import Annotated, Literal, Self

from fastapi import Query
from pydantic import Field, model_validator

from wa_orchestrator.context import Context
from wa_orchestrator.domain.pacing.limits import Override, Trust, overlap
from wa_orchestrator.domain.pacing.tag_limits import TagLimit, under_tags
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages.session_pace import decode_tag_limit, encode_tag_limit
from wa_orchestrator.orchestrator.api.holds import LimitsView, limits_view
from wa_orchestrator.orchestrator.api.sessions.limits import API_NAMES, LimitsBody, OwnLimits, own_limits
from wa_orchestrator.store import records
from wa_orchestrator.store.sessions import tag_limits
from wa_orchestrator.web.auth import OperateCaller, ReadCaller
from wa_orchestrator.web.models import ResponseModel, TagName
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_TagQuery = Annotated[TagName, Query(alias="tag", description="The tag.", examples=["vip"])]


class TagLimitsBody(LimitsBody):
    """Limits for all sessions with a tag. What is missing comes from the preset; a session's own limits beat them."""

    tag: TagName
    acknowledge_risk: bool = Field(
        False, description="Let them raise sessions above the preset. Else they only lower what it allows."
    )

    @model_validator(mode="after")
    def _sets_something(self) -> Self:
        if (self.opens is None) != (self.closes is None):
            raise ValueError("Give both opens and closes, or neither.")
        if self.override() == Override():
            raise ValueError("Give at least one limit, such as perDay. DELETE removes the limits of a tag.")
        return self


class TagLimitsView(ResponseModel):
    """The limits of a tag."""

    tag: str
    limits: OwnLimits
    raises: bool = Field(description="They were acknowledged: sessions may send more than the preset says.")
    in_force: dict[Trust, LimitsView] = Field(description="What sessions with this tag and no other get, by trust.")
    sessions: int = Field(description="How many sessions have the tag.")


class TagLimitsResponse(ResponseModel):
    """The limits of all tags that have some."""

    tags: list[TagLimitsView]


class TagLimitsDeleted(ResponseModel):
    """The tag has no limits now."""

    deleted: Literal[True] = True
    sessions: int = Field(description="How many sessions got other limits by that.")


class TagLimitRoutes(RouteGroup):
    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/anti-ban/tag-limits", "anti-ban")
        refusals = responses(NO_SUCH_TAG=404, RISK=409, HOURS_NEVER_OPEN=422)
        self.get("", response_model_exclude_none=True)(self.list_tag_limits)
        self.put("", responses=refusals, response_model_exclude_none=True)(self.set_tag_limits)
        self.delete("", responses=responses(NO_SUCH_TAG=404))(self.delete_tag_limits)

    async def list_tag_limits(self, _caller: ReadCaller) -> TagLimitsResponse:
        """List the limits of tags."""
        found = await tag_limits.read(self._scripts)
        counts = await self._counts()
        return TagLimitsResponse(tags=[self._view(decode_tag_limit(found[tag]), counts[tag]) for tag in found])

    async def set_tag_limits(self, body: TagLimitsBody, caller: OperateCaller) -> TagLimitsView:
        """Set the limits of a tag. They replace those it had, for all its sessions at once."""
        counts = await self._counts()
        if body.tag not in counts:
            known = ", ".join(sorted(counts)[:10]) or "none yet"
            raise Refused("NO_SUCH_TAG", f"No session has the tag {body.tag}. Known: {known}.", 404)
        limit = self._checked(body)
        await tag_limits.put(self._scripts, body.tag, encode_tag_limit(limit))
        wanted = body.model_dump(exclude_none=True, exclude={"acknowledge_risk", "tag"})
        above = {name for trust in Trust for name in self._riskier(limit.override, trust)} if limit.raises else set()
        await self._audit(caller, "tag_limits.set", body.tag, limits=wanted, raises=limit.raises, riskier=sorted(above))
        return self._view(limit, counts[body.tag])

    async def delete_tag_limits(self, tag: _TagQuery, caller: OperateCaller) -> TagLimitsDeleted:
        """Delete the limits of a tag: the preset is in force again for its sessions."""
        if tag not in await tag_limits.read(self._scripts):
            text = f"The tag {tag} has no limits. GET /api/anti-ban/tag-limits lists those that have."
            raise Refused("NO_SUCH_TAG", text, 404)
        done = await tag_limits.remove(self._scripts, tag)
        await self._audit(caller, "tag_limits.delete", tag)
        return TagLimitsDeleted(sessions=done.sessions)

    def _checked(self, body: TagLimitsBody) -> TagLimit:
        """Return the limits to store. Refuse those that would have no effect, or would stop sending for good."""
        override = body.override()
        riskier = {trust: self._riskier(override, trust) for trust in Trust}
        if body.acknowledge_risk:
            return TagLimit(body.tag, override, raises=any(riskier.values()))
        everywhere = [name for name in riskier[Trust.HOT] if all(name in names for names in riskier.values())]
        if everywhere:
            text = (
                "These limits are above the preset for every session and risk a ban. "
                "Send acknowledgeRisk: true to accept that."
            )
            raise Refused("RISK", text, 409, riskier=everywhere)
        for trust in Trust:
            pace = self._settings.pace(trust)
            hours = (override.opens or pace.opens, override.closes or pace.closes)
            if overlap((pace.opens, pace.closes), hours) is None:
                text = f"These hours and those of {trust} sessions never overlap: they would send nothing. Change them."
                raise Refused("HOURS_NEVER_OPEN", text, 422)
        return TagLimit(body.tag, override)

    def _riskier(self, override: Override, trust: Trust) -> list[str]:
        names = override.raises_above(self._settings.pace(trust))
        return [each for name in names for each in API_NAMES[name]]

    async def _counts(self) -> Counter[str]:
        found = await records.sessions(self._scripts)
        return Counter(tag for session in found if not session.removing for tag in session.tags)

    def _view(self, limit: TagLimit, sessions: int) -> TagLimitsView:
        in_force = {trust: limits_view(under_tags(self._settings.pace(trust), [limit])) for trust in Trust}
        return TagLimitsView.of(limit, limits=own_limits(limit.override), in_force=in_force, sessions=sessions)
