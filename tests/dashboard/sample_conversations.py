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


async def says(
    on: FleetBuilder, name: str, text: str, kind: str = "text", phone: str = DANA, called: str = "", **fields: Any
) -> None:
    called = called or ("דנה Sample" if phone == DANA else "<b>Gil</b>")
    parts = fields.get("parts", {})
    stored = {"text": text, "push_name": "Dana", "at": 1} | {part: json.dumps(each) for part, each in fields.items()}
    ours = str(await on.redis.hget(keys.session(SESSION), "phone"))
    message = contacts.Incoming(
        SESSION, ours, name, kind, phone, fields=stored, name=called,
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


#: Who wrote today, and what they wrote last.
CALLERS = {
    "972525550101": ("Noa Levi", "Do you have the blue frame in size 52?"),
    "972525550102": ("Amir Haddad", "תודה רבה, מגיע היום אחרי חמש"),
    "972525550103": ("Maya Cohen", "Can I move my appointment to Thursday?"),
    "972525550104": ("Yossi Mizrahi", "מה שעות הפתיחה ביום שישי?"),
    "972525550105": ("Lior Katz", "Thanks, that was quick!"),
}


async def fill_for_documents(on: FleetBuilder) -> None:
    """Everyday conversations, for the pictures of the documentation."""
    for number, (phone, (called, text)) in enumerate(CALLERS.items()):
        await says(on, f"3B0{number}", text, phone=phone, called=called)
    dana = {"phone": DANA, "called": "Dana Bar"}
    await says(on, "3B10", "Good morning, is order 20714 ready?", **dana)
    await answer(on, 90_001, "Good morning Dana! It is ready. We are open until seven.", until="read")
    await says(on, "3B11", "", "voice", media={"seconds": 24, "mimetype": "audio/ogg"}, **dana)
    await says(on, "3B12", "", "document", media={"filename": "prescription.pdf", "size": 212_000}, **dana)
    await answer(on, 90_002, "Thank you, both arrived. Your new glasses will take three days.", until="delivered")
    quoted = {"replyTo": {"whatsappId": "3B10", "text": "Good morning, is order 20714 ready?"}}
    await says(on, "3B13", "Can my brother collect it?", parts=quoted, **dana)
