"""Pages of a search across Redis and the archive: no gap and no repeat, whatever moves between two pages."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.archive.history import BEGIN_MS, body_of, ended_message, found_ids, move, newest_first, put_into_redis
from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.archive.factory import archive_for
from wa_orchestrator.messages import message_search
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import ended_messages
from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages.message_filters import ENDED_STATUSES, Filters

STATUSES = sorted(ENDED_STATUSES)
TEXTS = ("hello Dana", "שלום דנה", "HÉLLO world", "", 'AND "quoted" near', "order 4711")
#: Few instants, so that many messages share one; ids whose first bits are equal, and others.
INSTANTS = st.integers(BEGIN_MS, BEGIN_MS + 3)
NUMBERS = st.one_of(st.integers(1, 60), st.integers(1, 60).map(lambda n: n << 60))


@dataclass(frozen=True)
class Stored:
    """A message, and where it is: `redis`, `archive`, or `both`, where the archive has an earlier state of it."""

    message: MessageCopy
    where: str


@st.composite
def stored_messages(draw: st.DrawFn) -> list[Stored]:
    numbers = draw(st.lists(NUMBERS, unique=True, max_size=30))
    found = []
    for number in numbers:
        message = ended_message(
            number,
            accepted_at=draw(INSTANTS),
            ended_at=BEGIN_MS + 10,
            session=draw(st.sampled_from(("w1", "w2"))),
            to=draw(st.sampled_from(("97251", "97252"))),
            status=draw(st.sampled_from(STATUSES)),
            reference=draw(st.sampled_from(("", "r1", "r2"))),
            batch=draw(st.sampled_from(("", "b1"))),
            body=body_of(draw(st.sampled_from(TEXTS))),
        )
        found.append(Stored(message, draw(st.sampled_from(("redis", "archive", "both")))))
    return found


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "to": st.sampled_from(("97251", "97259")),
        "session_id": st.sampled_from(("w1", "w3")),
        "statuses": st.lists(st.sampled_from(STATUSES), unique=True, max_size=3),
        "reference": st.just("r1"),
        "batch_id": st.just("b1"),
        "text": st.sampled_from(("hello", "דנה", "hello world", "quoted and", "4711", "!", "hell")),
        "since": INSTANTS,
        "until": INSTANTS,
    },
)


@asynccontextmanager
async def two_places(redis_url: str, database: dict[str, Any]) -> AsyncIterator[tuple[Scripts, Archive]]:
    redis = LineClient.from_url(redis_url, decode_responses=True)
    if database:  # one for all examples: making a database takes longer than an example
        with psycopg.connect(database["archive_url"]) as connection:
            connection.execute("DROP SCHEMA IF EXISTS wa_archive CASCADE")
    with tempfile.TemporaryDirectory() as home:
        archive = archive_for(Settings(data_dir=Path(home), **database))
        try:
            await redis.flushall()
            await archive.create()
            yield Scripts(redis), archive
        finally:
            await archive.close()
            await redis.aclose()


@given(stored_messages(), FILTERS, st.integers(1, 7), st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_across_the_border_have_no_gap_and_no_repeat(
    redis_url: str,
    database: dict[str, Any],
    stored: list[Stored],
    filters: dict[str, Any],
    limit: int,
    data: st.DataObject,
) -> None:
    asyncio.run(_page_through(redis_url, database, stored, filters, limit, data))


async def _page_through(
    redis_url: str,
    database: dict[str, Any],
    stored: list[Stored],
    asked: dict[str, Any],
    limit: int,
    data: st.DataObject,
) -> None:
    filters = Filters(**asked)
    messages = {each.message.id: each.message for each in stored}
    expected = [name for name in newest_first(messages) if filters.match(messages[name].record)]
    async with two_places(redis_url, database) as (scripts, archive):
        await put_into_redis(scripts, [each.message for each in stored if each.where != "archive"])
        await archive.put_messages([each.message for each in stored if each.where == "archive"])
        await archive.put_messages([_earlier(each.message) for each in stored if each.where == "both"])
        found, last = await message_search.search(scripts, archive, filters, limit=limit)
        pages = [found]
        while last is not None:
            # Between two pages some are archived and some brought back; none is in neither place.
            some = data.draw(st.lists(st.sampled_from(stored), max_size=3)) if stored else []
            await move(scripts, archive, [each.message for each in some])
            for name in data.draw(st.lists(st.sampled_from(sorted(messages)), max_size=2)) if messages else []:
                if copy := (await archive.messages([name])).get(name):
                    await ended_messages.restore(scripts, copy)
            found, last = await message_search.search(scripts, archive, filters, after=last, limit=limit)
            pages.append(found)
    assert [each.id for page in pages for each in page] == expected
    assert all(len(page) <= limit for page in pages)


def _earlier(message: MessageCopy) -> MessageCopy:
    """What the archive has of a message that a late receipt brought back to Redis: it has changed there since."""
    return replace(message, fields={**message.fields, "status": "unknown"}, ended_at=message.ended_at - 5)


async def test_a_thousand_messages_of_one_millisecond_are_paged_in_order(scripts: Scripts, archive: Archive) -> None:
    messages = {each.id: each for each in (ended_message(number << 40) for number in range(1, 1001))}
    await archive.put_messages(list(messages.values()))
    assert await found_ids(scripts, archive, limit=70) == newest_first(messages)
    assert await found_ids(scripts, archive, limit=70, text="hello") == newest_first(messages)


async def test_words_are_found_whatever_their_case_and_accents_in_both_places(
    scripts: Scripts, archive: Archive
) -> None:
    fresh, old = ended_message(1, body=body_of("Café in Straße 7")), ended_message(2, body=body_of("CAFE, strasse"))
    await put_into_redis(scripts, [fresh])
    await archive.put_messages([old])
    assert await found_ids(scripts, archive, text="café STRASSE") == [old.id, fresh.id]
    assert await found_ids(scripts, archive, text="caf") == []
