"""Route of the radar: parts of WhatsApp's protocol that workers met and do not know."""

from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.store import sessions
from wa_orchestrator.store.events import drift
from wa_orchestrator.store.events.drift import DriftRecord
from wa_orchestrator.texts import catalogue
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import ReadCaller
from wa_orchestrator.web.models import ResponseModel, Timestamp
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup


class UnknownShape(ResponseModel):
    """One unknown part of the protocol. It names the part; contents are never kept."""

    shape: str = Field(examples=["ack.error:479"])
    kind: str = Field(examples=["ack.error"])
    name: str = Field(examples=["479"])
    since: Timestamp
    last_at: Timestamp
    count: int
    sessions: int = Field(description="How many sessions met it.", examples=[3])
    all_sessions: int = Field(description="How many sessions there are.", examples=[200])
    text: str = Field(examples=["unknown error 479 in the answer to a message"])


class Radar(ResponseModel):
    """What WhatsApp sent in the last 30 days that no worker knows, the newest first."""

    shapes: list[UnknownShape]


def view(record: DriftRecord, all_sessions: int) -> UnknownShape:
    kind, name = record.shape.kind, record.shape.name
    return UnknownShape.of(
        record,
        shape=str(record.shape),
        kind=str(kind),
        name=name,
        since=iso(record.first_at_ms),
        last_at=iso(record.last_at_ms),
        sessions=len(record.sessions),
        all_sessions=max(all_sessions, len(record.sessions)),
        text=catalogue.text(catalogue.DEFAULT, f"drift.{kind}").format(name=name),
    )


class RadarRoutes(RouteGroup):
    """Route `/api/v1/radar`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/radar", "radar")
        self.get("", responses=responses())(self.show_radar)

    async def show_radar(self, _caller: ReadCaller) -> Radar:
        """List parts of WhatsApp's protocol that no worker knows: since when, and how many sessions received them."""
        count = len(await sessions.present(self._scripts))
        return Radar(shapes=[view(each, count) for each in await drift.everything(self._scripts)])
