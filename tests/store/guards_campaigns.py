"""The cases of the guards around campaigns. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import Scene
from wa_orchestrator.domain.campaigns.campaign import CampaignState
from wa_orchestrator.domain.campaigns.recipients import Recipient
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.store.campaigns import campaign_records, campaign_rows
from wa_orchestrator.store.campaigns.campaign_records import Campaign, OtherState, StateChanged
from wa_orchestrator.store.campaigns.campaign_rows import RowOutcome

ID = "c_1"


async def _draft(scene: Scene) -> Campaign:
    await campaign_records.stage(
        scene.scripts, ID, [Recipient(2, Phone("97251"), {}), Recipient(3, Phone("97252"), {})]
    )
    assert await campaign_records.create(scene.scripts, ID, 2, {"name": "one"})
    found = await campaign_records.find(scene.scripts, ID)
    assert found is not None
    return found


async def _queued(scene: Scene) -> None:
    await _draft(scene)
    assert await campaign_rows.record(scene.scripts, ID, 1, status="queued", message_id="m_1", session="w1")


@case("campaign_staged")
async def _(scene: Scene) -> None:
    await campaign_records.stage(scene.scripts, ID, [Recipient(2, Phone("97251"), {})])
    assert not await campaign_records.create(scene.scripts, ID, 2, {"name": "one"})
    assert await campaign_records.find(scene.scripts, ID) is None


@case("campaign_seen")
async def _(scene: Scene) -> None:
    draft = await _draft(scene)
    assert await campaign_records.change(scene.scripts, draft, CampaignState.CANCELLED) == StateChanged()
    started = await campaign_records.change(scene.scripts, draft, CampaignState.SENDING)
    assert started == OtherState(CampaignState.CANCELLED)


@case("campaign_row_once")
async def _(scene: Scene) -> None:
    await _queued(scene)
    again = await campaign_rows.record(scene.scripts, ID, 1, status="queued", message_id="m_1", session="w1")
    assert not again
    tally = await campaign_rows.tally(scene.scripts, ID)
    assert (tally.waiting, tally.by_status) == (1, {"queued": 1})


@case("campaign_message")
async def _(scene: Scene) -> None:
    await _queued(scene)
    late = RowOutcome(1, "cancelled", "m_0", "w1", 5)  # of the message that was taken back before
    assert not await campaign_rows.settle(scene.scripts, ID, late, "final")
    assert await campaign_rows.queued(scene.scripts, ID) == [1]


@case("campaign_counted_once")
async def _(scene: Scene) -> None:
    await _queued(scene)
    for _ in range(2):
        await campaign_rows.settle(scene.scripts, ID, RowOutcome(1, "sent", "m_1", "w1", 5), "open")
    first = await campaign_rows.outcomes(scene.scripts, ID, [1])
    await campaign_rows.settle(scene.scripts, ID, RowOutcome(1, "sent", "m_1", "w1", 9), "open")
    assert await campaign_rows.outcomes(scene.scripts, ID, [1]) == first
    assert (await campaign_rows.tally(scene.scripts, ID)).by_status == {"sent": 1}


@case("campaign_taken_back")
async def _(scene: Scene) -> None:
    await _queued(scene)
    assert not await campaign_rows.take_back(scene.scripts, ID, 1, "m_0")
    assert await campaign_rows.waiting(scene.scripts, ID, most=5) == [2]
    assert await campaign_rows.take_back(scene.scripts, ID, 1, "m_1")
    assert await campaign_rows.waiting(scene.scripts, ID, most=5) == [1, 2]
    assert (await campaign_rows.tally(scene.scripts, ID)).by_status == {}
