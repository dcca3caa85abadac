"""The workers of two sessions: one has a message that waits, the other was taken over."""

import httpx
import pytest

from tests.messages.conftest import Worker
from tests.orchestrator.fakes import Teller, drive
from tests.orchestrator.session_steps import OTHER, PHONE, linked, now
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store.messages import admission, queues
from wa_orchestrator.store.messages.message_keys import Place

VICTIM, THIEF = "victim", "thief"
MESSAGE, WHATSAPP_ID = "m_00000000000000000a", "3EB000000000000000000A"


@pytest.fixture
async def workers(
    control: Orchestrator, api: httpx.AsyncClient, client: httpx.AsyncClient, teller: Teller
) -> dict[str, Worker]:
    """The victim's worker and the thief's; a message waits for the victim."""
    await linked(control, api, teller, VICTIM, OTHER)
    await linked(control, api, teller, THIEF, PHONE)
    scripts = control.context.scripts
    message = admission.NewMessage(MESSAGE, WHATSAPP_ID, OTHER, VICTIM, "97251")
    assert isinstance(await admission.accept(scripts, message, admission.Room(9, 9, 0)), admission.Accepted)
    assert await queues.route(scripts, Place(MESSAGE, OTHER, VICTIM), to="97251") == queues.Queued()
    await drive(control)
    return {
        name: Worker(client, control.context.settings, name, (await now(control.context, name)).epoch)
        for name in (VICTIM, THIEF)
    }
