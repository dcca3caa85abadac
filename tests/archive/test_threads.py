"""Incoming messages in the archive by conversation, by what they change, and by their words."""

from collections.abc import Sequence

from tests.archive.history import BEGIN_MS
from wa_orchestrator.archive.contract import Archive, Contact
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy


def copy(name: str, at: int = 0, session: str = "w1", **fields: str) -> IncomingCopy:
    known = {"kind": "text", "contact_phone": "97251", "contact_lid": "", "group": "", "text": "hello"}
    return IncomingCopy(session, name, known | fields, BEGIN_MS + at)


def names(copies: Sequence[IncomingCopy]) -> list[str]:
    return [each.whatsapp_id for each in copies]


async def test_a_conversation_is_read_from_its_end_page_by_page(archive: Archive) -> None:
    # Several within a millisecond: a page may end between them.
    written = [copy(f"A{number}", number // 3) for number in range(20)]
    await archive.put_incoming([*written, copy("B", 3, "w2"), copy("C", 3, contact_phone="97252")])
    found: list[IncomingCopy] = []
    after = None
    while page := await archive.incoming_page("w1", ["97251", "lid:7"], after=after, most=4):
        found += page
        after = (page[-1].id, page[-1].received_at)
    assert found == sorted(written, key=lambda each: (each.received_at, each.id), reverse=True)


async def test_a_group_is_a_conversation_of_its_own(archive: Archive) -> None:
    await archive.put_incoming([copy("A"), copy("B", 1, group="12@g.us")])
    assert names(await archive.incoming_page("w1", ["97251"], after=None, most=9)) == ["A"]
    assert names(await archive.incoming_page("w1", ["12@g.us"], after=None, most=9)) == ["B"]


async def test_a_reaction_is_found_by_its_target_and_is_no_message(archive: Archive) -> None:
    parts = '{"target": {"whatsappId": "A"}}'
    await archive.put_incoming([copy("A"), copy("B", 1, kind="reaction", text="👍", parts=parts)])
    assert names(await archive.incoming_page("w1", ["97251"], after=None, most=9)) == ["A"]
    assert names(await archive.changes_of("w1", ["A", "X"])) == ["B"]
    assert await archive.changes_of("w2", ["A"]) == []


async def test_what_people_wrote_is_found_by_its_words_until_it_is_erased(archive: Archive) -> None:
    await archive.put_incoming([copy("A", text="Où est ma Café?"), copy("B", 1, text="cafe bleu"), copy("C", 2)])
    assert names(await archive.search_incoming("CAFE", among=None, most=9)) == ["B", "A"]
    assert names(await archive.search_incoming("cafe ma", among=None, most=9)) == ["A"]
    assert await archive.search_incoming("cafe", among={"w2"}, most=9) == []
    assert await archive.search_incoming("?", among=None, most=9) == []
    await archive.erase_texts(BEGIN_MS, most=9)
    assert names(await archive.search_incoming("cafe", among=None, most=9)) == ["B"]
    while await archive.erase_contact(Contact("97251"), [], most=9):
        pass
    assert await archive.search_incoming("cafe", among=None, most=9) == []
