"""Every kind of message, in both directions: our worker with a simulated phone, and with whatsmeow, a client of others.

The cells are what was seen in this run, and `docs/kinds.md` is made of them: `WRITE_KINDS=1` writes it.
"""

import base64
import importlib.util
import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.simulator.whatsmeow.process import Whatsmeow, whatsmeow
from tests.worker import test_incoming_kinds, test_outgoing_kinds
from tests.worker.harness import Rig, Session, new_phone
from tests.worker.test_acts import act
from wa_orchestrator.messages.conversion import ogg_opus
from wa_orchestrator.simulator.phones import content

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(importlib.util.find_spec("neonize") is None, reason="there is no neonize for this system"),
]
PAGE: Final = Path(__file__).parents[2] / "docs" / "kinds.md"
HEAD: Final = """# Kinds of messages

What each kind arrives as, in both directions, between the product's worker (Baileys), simulated phones, and whatsmeow, a client
that shares no code with either. The table is made by `tests/worker/test_kinds_table.py` of what it saw arrive; `—` is a kind that
nobody sends in that direction. For whatsmeow it names the field of WhatsApp's protobuf.

| kind | phone → worker | worker → phone | whatsmeow → worker | worker → whatsmeow |
| --- | --- | --- | --- | --- |
"""
COLUMNS: Final = ("phone in", "phone out", "whatsmeow in", "whatsmeow out")
Cells = dict[tuple[str, str], str]


async def from_phone(rig: Rig, linked: Session, cells: Cells) -> None:
    for name, (send, _) in test_incoming_kinds.KINDS.items():
        message = await send(rig.world.whatsapp, new_phone(), linked.phone)
        reported = (await linked.event("MESSAGE_RECEIVED", whatsappId=message))["data"]
        cells[name, "phone in"] = _told(reported)


async def to_phone(rig: Rig, linked: Session, cells: Cells) -> None:
    friend = new_phone()
    for name, given in _outgoing(rig).items():
        message = await rig.server.send(linked.id, friend, **given)
        await rig.server.acked(message)
        seen = await test_outgoing_kinds.shown(rig, friend, message["whatsappId"])
        marks = [", view-once"] if seen.get("view_once") else [", quotes"] if seen.get("quote") else []
        cells[name, "phone out"] = "".join([str(seen["kind"]), *marks])
    message = await linked.say(friend, "Draft")
    await rig.server.acked(message)
    named = {"to": friend, "whatsappId": message["whatsappId"], "fromMe": "yes"}
    for name, kind, text, mark in (
        ("reaction", "react", "👍", "reactions"), ("edit", "edit", "Better", "edited"), ("deletion", "delete", "", "deleted"),
    ):  # fmt: skip
        assert await act(rig, linked, kind, **named, text=text) == {"ok": True}
        seen = next(each for each in rig.world.whatsapp.inbox(friend) if each["id"] == message["whatsappId"])
        assert seen[mark]
        cells[name, "phone out"] = name


async def from_whatsmeow(rig: Rig, linked: Session, client: Whatsmeow, cells: Cells) -> None:
    to, ours = linked.phone, await _received(linked, client)
    poll = await rig.server.send(linked.id, client.phone, **test_outgoing_kinds.KINDS["poll"][0])
    await client.until("message", id=poll["whatsappId"])
    for name, what in _contents(ours).items():
        chat = content.Chat(
            f"{to}@s.whatsapp.net", client.phone, lambda phone: f"{phone}@s.whatsapp.net", lambda _: None
        )
        data = base64.b64encode(content.encode(what, chat, 1)).decode()
        await _sees(linked, await client.do("protobuf", to=to, data=data), name, cells)
    for name, (kind, facts) in _FILES.items():
        sent = await client.do("file", to=to, kind=kind, facts=facts, data=base64.b64encode(b"12345").decode())
        await _sees(linked, sent, name, cells)
    first = await client.do("send", to=to, text="Draft")
    acts: dict[str, tuple[str, dict[str, Any]]] = {
        "text": ("send", {"to": to, "text": "Hello"}),
        "poll": ("poll", {"to": to, "question": "When?", "options": ["Monday", "Sunday"]}),
        "vote": ("vote", {"id": poll["whatsappId"], "options": ["Sunday"]}),
        "reaction": ("react", {"id": ours, "emoji": "👍"}),
        "edit": ("edit", {"to": to, "id": first["id"], "text": "Better"}),
        "deletion": ("revoke", {"to": to, "id": first["id"]}),
    }
    for name, (do, fields) in acts.items():
        await _sees(linked, await client.do(do, **fields), name, cells)


async def to_whatsmeow(rig: Rig, linked: Session, client: Whatsmeow, cells: Cells) -> None:
    for name, given in _outgoing(rig).items():
        message = await rig.server.send(linked.id, client.phone, **given)
        got = await client.until("message", id=message["whatsappId"])
        marks = [", view-once"] if got["viewOnce"] else [", quotes"] if got["quotes"] else []
        cells[name, "whatsmeow out"] = ", ".join(f"`{field}`" for field in got["fields"]) + "".join(marks)
    message = await linked.say(client.phone, "Draft")
    await client.until("message", id=message["whatsappId"])
    await rig.server.acked(message)
    named = {"to": client.phone, "whatsappId": message["whatsappId"], "fromMe": "yes"}
    for name, kind, text, field in (
        ("reaction", "react", "👍", "reactionMessage"),
        ("edit", "edit", "Better", "protocolMessage"),
        ("deletion", "delete", "", "protocolMessage"),
    ):
        before = len(client.events)
        assert await act(rig, linked, kind, **named, text=text) == {"ok": True}
        await client.until("message", after=before, fields=[field])
        cells[name, "whatsmeow out"] = f"`{field}`"


async def _received(linked: Session, client: Whatsmeow) -> str:
    """Return the id of a message of ours that whatsmeow has."""
    message = await linked.say(client.phone, "Hello")
    await client.until("message", id=message["whatsappId"])
    return str(message["whatsappId"])


async def _sees(linked: Session, sent: dict[str, Any], name: str, cells: Cells) -> None:
    cells[name, "whatsmeow in"] = _told((await linked.event("MESSAGE_RECEIVED", whatsappId=sent["id"]))["data"])


def _told(reported: dict[str, Any]) -> str:
    marks = {"viewOnce": "view-once", "forwarded": "forwarded", "replyTo": "quotes", "album": "album"}
    return ", ".join([str(reported["kind"]), *(word for name, word in marks.items() if reported.get(name))])


def _contents(ours: str) -> dict[str, content.Content]:
    return {
        "reply": content.Words("text", "Yes", quotes=ours, quoted_text="Hello"),
        "forwarded": content.Words("text", "See", forwarded=True),
        "location": content.Place("location", 32.5, 34.75, "Office"),
        "live location": content.Place("live_location", 32.5, 34.75),
        "contacts": content.Cards("contacts", {"Dana": "972501234567"}),
        "button": content.Answer("button_answer", "Stop", "b1"),
        "list": content.Answer("list_answer", "Row 2", "r2"),
    }


_FILES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "image": ("image", {"mimetype": "image/jpeg", "caption": "Look"}),
    "view-once": ("image", {"mimetype": "image/jpeg", "viewOnce": True}),
    "video": ("video", {"mimetype": "video/mp4"}),
    "voice": ("audio", {"mimetype": "audio/ogg; codecs=opus", "PTT": True, "seconds": 3}),
    "audio": ("audio", {"mimetype": "audio/mpeg"}),
    "document": ("document", {"mimetype": "application/pdf", "fileName": "a.pdf"}),
    "sticker": ("sticker", {"mimetype": "image/webp"}),
}


def _outgoing(rig: Rig) -> dict[str, dict[str, Any]]:
    """Return what the server hands out, by the row of the table."""
    plain = {name: test_outgoing_kinds.KINDS[name][0] for name in ("text", "location", "poll")}
    plain["contacts"] = test_outgoing_kinds.KINDS["cards"][0]
    voice = ogg_opus.write([b"\x48" + bytes([at] * 9) for at in range(7)], 2000, 312)
    for name in ("image", "view-once", "video", "voice", "audio", "document", "sticker"):
        kind, described, _ = test_outgoing_kinds.FILES[name]
        url = rig.server.publish(voice if name == "voice" else b"12345")
        plain[name] = {"kind": kind, "media": {"url": url, **described}}
    plain["reply"] = {"text": "Yes", "replyTo": {"whatsappId": "3EB0AA", "kind": "text", "text": "Ready?"}}
    return plain


def rendered(cells: Cells) -> str:
    rows = dict.fromkeys([*test_incoming_kinds.KINDS, *(name for name, _ in cells)])
    lines = [f"| {row} | {' | '.join(cells.get((row, column), '—') for column in COLUMNS)} |" for row in rows]
    return HEAD + "\n".join(lines) + "\n"


async def test_the_page_of_kinds_is_what_arrives_in_both_directions(rig: Rig, linked: Session, tmp_path: Path) -> None:
    cells: Cells = {}
    async with whatsmeow(rig.world, new_phone(), tmp_path) as client:
        await from_phone(rig, linked, cells)
        await to_phone(rig, linked, cells)
        await from_whatsmeow(rig, linked, client, cells)
        await to_whatsmeow(rig, linked, client, cells)
        assert [event for event in client.events if event["kind"] == "undecryptable"] == []
    if os.environ.get("WRITE_KINDS"):
        PAGE.write_text(rendered(cells), "utf-8")
    assert PAGE.read_text("utf-8") == rendered(cells), "run: WRITE_KINDS=1 pytest tests/worker/test_kinds_table.py"
