"""Conversations: what a person sees of those of others, on the page, in its live stream and by its buttons."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from tests.security.fleet import LABELS, MINE, PHONES, THEIRS, TwoCustomers, two_customers
from tests.security.streams import opened_stream
from tests.security.visitor import ORIGIN, Visitor, person
from tests.waiting import PATIENCE_S
from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.access.permissions import Role
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import contacts

PEOPLE = {MINE: "972533333330", THEIRS: "972533333331"}
HERE = {name: conversation.id_of(name, contact) for name, contact in PEOPLE.items()}


@pytest.fixture
async def fleet(redis: Redis, tmp_path: Path) -> AsyncIterator[TwoCustomers]:
    """Two customers; somebody wrote to each."""
    made = await two_customers(redis, tmp_path)
    for name, contact in PEOPLE.items():
        text = {"text": f"blue of {name}"}
        said = contacts.Incoming(name, PHONES[name], "3A05", "text", contact, name=f"Dana of {name}", fields=text)
        await contacts.receive(made.context.scripts, said, keep_ms=60_000)
    yield made
    await made.client.aclose()


async def _logged_in(fleet: TwoCustomers, name: str) -> Visitor:
    visitor = Visitor(fleet)
    await visitor.log_in(name)
    return visitor


async def _first_parts(fleet: TwoCustomers, visitor: Visitor, query: str) -> str:
    """Return the first parts that an open page gets."""
    cookies = "; ".join(f"{name}={value}" for name, value in visitor.client.cookies.items())
    async with (
        asyncio.timeout(PATIENCE_S),
        opened_stream(fleet.app, "/events/ui", query, {"Cookie": cookies}) as (status, chunks),
    ):
        assert status == 200
        async for chunk in chunks:
            if b"event: parts" in chunk:
                return chunk.decode()
    raise AssertionError


async def test_who_watches_what_is_assigned_to_them_sees_nothing_of_colleagues(fleet: TwoCustomers) -> None:
    own = {}
    for name, session in (("Dana", MINE), ("Noa", THEIRS)):
        account = await person(fleet, name, Role.OPERATOR)
        await fleet.context.redis.hset(keys.conversation(session, PEOPLE[session]), "assigned", account)
        own[name] = session
    for name, session in own.items():  # one right after the other, as pages that share a rendering are
        shown = await _first_parts(fleet, await _logged_in(fleet, name), "page=inbox&show=mine")
        assert [each for each in PEOPLE if HERE[each] in shown] == [session], name


async def test_a_person_with_labels_has_no_conversation_of_others_on_any_page(fleet: TwoCustomers) -> None:
    await person(fleet, "Oren", Role.OPERATOR, LABELS[MINE])
    oren = await _logged_in(fleet, "Oren")
    whole = ("/inbox", "/inbox?q=dana", "/inbox?q=blue", f"/inbox?session={THEIRS}", f"/inbox?c={HERE[THEIRS]}")
    for path in whole:
        page = await oren.client.get(path)
        assert page.status_code == 200, path
        assert not [each for each in (f"of {THEIRS}", PEOPLE[THEIRS]) if each in page.text], path
        parts = await _first_parts(fleet, oren, "page=inbox" + path.removeprefix("/inbox").replace("?", "&"))
        assert f"of {THEIRS}" not in parts, path
    assert f"of {MINE}" in (await oren.client.get("/inbox?q=blue")).text
    for file in ("media", "thumbnail"):
        assert (await oren.client.get(f"/inbox/{file}/{fleet.received[THEIRS]}")).status_code == 404
        assert (await oren.client.get(f"/inbox/{file}/{fleet.received[MINE]}")).status_code == 200


async def _press(visitor: Visitor, action: str, **form: str) -> str:
    headers = {"Origin": ORIGIN, "X-CSRF-Token": await visitor.token()}
    answer = await visitor.client.post(f"/do/{action}", headers=headers, data=form)
    return str(answer.json()["state"])


#: Every button of the inbox, with somebody else's conversation.
BUTTONS: dict[str, dict[str, str]] = {
    "conversation-facts": {"id": HERE[THEIRS], "notes": "x", "tags": "x"},
    "conversation-close": {"id": HERE[THEIRS]},
    "conversation-open": {"id": HERE[THEIRS]},
    "conversation-read": {"id": HERE[THEIRS], "tell": "1"},
    "conversation-unread": {"id": HERE[THEIRS]},
    "reply": {"to": PEOPLE[THEIRS], "session": THEIRS, "message": "hello"},
    "message-react": {"id": incoming.id_of(THEIRS, "3A05"), "emoji": "👍"},
    "message-edit": {"id": incoming.id_of(THEIRS, "3A05"), "text": "x"},
    "message-delete": {"id": incoming.id_of(THEIRS, "3A05")},
}


@pytest.mark.parametrize("button", BUTTONS)
async def test_no_button_changes_a_conversation_of_others(fleet: TwoCustomers, button: str) -> None:
    await person(fleet, "Oren", Role.OPERATOR, LABELS[MINE])
    await person(fleet, "Vera", Role.VIEWER)
    name = keys.conversation(THEIRS, PEOPLE[THEIRS])
    before = await fleet.context.redis.hgetall(name)
    for who in ("Oren", "Vera"):
        visitor = await _logged_in(fleet, who)
        assert await _press(visitor, button, **BUTTONS[button]) == "error", who
        assert await fleet.context.redis.hgetall(name) == before


@pytest.mark.parametrize(("linked_to", "status"), [(MINE, 200), (THEIRS, 404)])
async def test_who_reaches_one_device_of_an_account_writes_drafts_in_the_conversations_of_all(
    fleet: TwoCustomers, linked_to: str, status: int
) -> None:
    await fleet.context.redis.hset(keys.session(THEIRS), "phone", PHONES[linked_to])
    await person(fleet, "Oren", Role.OPERATOR, LABELS[MINE])
    oren = await _logged_in(fleet, "Oren")
    headers = {"Origin": ORIGIN, "X-CSRF-Token": await oren.token()}
    told = {"conversation": HERE[THEIRS], "draft": "I will look"}
    assert (await oren.client.post("/inbox/here", headers=headers, json=told)).status_code == status
    assert ("I will look" in (await oren.client.get(f"/inbox?c={HERE[THEIRS]}")).text) is (status == 200)


async def test_a_viewer_stores_no_file(fleet: TwoCustomers) -> None:
    await person(fleet, "Vera", Role.VIEWER)
    vera = await _logged_in(fleet, "Vera")
    headers = {"Origin": ORIGIN, "X-CSRF-Token": await vera.token(), "Content-Type": "image/png"}
    answer = await vera.client.post("/inbox/upload", headers=headers, content=b"x")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "VIEWERS_ONLY_LOOK")
    assert not list((fleet.context.settings.data_dir / "uploads").glob("*"))


async def test_a_file_is_stored_only_from_our_own_page(fleet: TwoCustomers) -> None:
    await person(fleet, "Dana", Role.OPERATOR)
    dana = await _logged_in(fleet, "Dana")
    token = await dana.token()

    async def upload(**headers: str) -> httpx.Response:
        return await dana.client.post("/inbox/upload", headers=headers | {"Content-Type": "image/png"}, content=b"x")

    forged = [
        await upload(Origin="https://evil.example", **{"X-CSRF-Token": token}),
        await upload(Origin=ORIGIN),
        await upload(Origin=ORIGIN, **{"X-CSRF-Token": "00" * 32}),
    ]
    assert [each.status_code for each in forged] == [403, 403, 403]
    assert (await upload(Origin=ORIGIN, **{"X-CSRF-Token": token})).status_code == 200
