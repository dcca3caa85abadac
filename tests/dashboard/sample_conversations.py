"""A few conversations of a sample fleet, with every look that a message can have."""

import json
from typing import Any

from tests.dashboard.sample_fleet import FleetBuilder
from wa_orchestrator.domain import conversation
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import quick_replies
from wa_orchestrator.store.messages import contacts

SESSION, DANA = "worker_2", "972525550200"
HERE = conversation.id_of(SESSION, DANA)


async def says(on: FleetBuilder, name: str, text: str, kind: str = "text", phone: str = DANA, **fields: Any) -> None:
    parts = fields.get("parts", {})
    stored = {"text": text, "push_name": "Dana", "at": 1} | {part: json.dumps(each) for part, each in fields.items()}
    ours = str(await on.redis.hget(keys.session(SESSION), "phone"))
    message = contacts.Incoming(
        SESSION, ours, name, kind, phone, fields=stored, name="דנה Sample" if phone == DANA else "<b>Gil</b>",
        target=parts.get("target", {}).get("whatsappId", ""),
    )  # fmt: skip
    await contacts.receive(on.scripts, message, keep_ms=10**9)


async def answer(on: FleetBuilder, number: int, text: str, until: str) -> str:
    """An answer to Dana that has come so far."""
    ours = str(await on.redis.hget(keys.session(SESSION), "phone"))
    return await on.message(number, SESSION, ours, DANA, text, until=until)


async def fill(on: FleetBuilder) -> None:
    await quick_replies.put(on.scripts, "hours", "We are open from 9 to 17.")
    await says(on, "3A01", "Good morning <img src=x onerror=alert(1)>", phone="972525550100")
    await says(on, "3A02", "12 Example Street, ההזמנה היא 20714")
    await says(on, "3A03", "👍", "reaction", parts={"target": {"whatsappId": "3A02"}})
    await says(on, "3A04", "", "voice", media={"seconds": 24, "mimetype": "audio/ogg"})
    await says(on, "3A05", "Which day?", "poll", parts={"poll": {"options": ["Monday", "Tuesday"], "selectable": 1}})
    await says(on, "3A06", "ok", parts={"replyTo": {"whatsappId": "3A02", "text": "12 Example Street"}})
    await says(on, "3A07", "", "document", media={"filename": "contract.pdf", "size": 212_000})
