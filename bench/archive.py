"""Cost of searching and sending with 5 million archived messages against 50,000; Redis' memory over a month.

`python -m bench.archive` fills two archives, with 50,000 messages and with five million, and asks both the
same in turns through the HTTP API: nothing may take more than twice as long with five million. Then it lets thirty days
pass, each with messages that end and are archived a day later, and compares Redis' memory. The result goes to
`bench/results/archive.json`. `MESSAGES=500000` uses fewer, where five million (about 5 GB on disk) take too long.
"""

import asyncio
import contextlib
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from tests.archive.history import ended_message
from tests.conftest import HELD_CLOCK
from tests.dashboard.serving import API_KEY, settings

from bench import _results
from bench.stored_messages import HERE, MOST_TIMES, Question, Store, add_sessions, ask, compare, search
from wa_orchestrator.archive import sqlite_schema
from wa_orchestrator.archive.archiver import BATCH, DAY_MS, Archiver
from wa_orchestrator.archive.places import SPREAD, number_of_id
from wa_orchestrator.archive.sqlite_writes import transaction
from wa_orchestrator.context import make_context
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.domain.messages.search_words import words_of
from wa_orchestrator.domain.stream_events import AlertTest, EventType
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.logs import configure
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.history import archive_marks, ended_messages
from wa_orchestrator.store.history.ended_messages import MessageCopy

FEW = 50_000
MANY = int(os.environ.get("MESSAGES", "5000000"))
PER_COMMIT = 100_000
#: Of twenty messages two fail, one is cancelled, one expires; three are sent, six delivered, seven read.
STATUSES = ["failed"] * 2 + ["cancelled", "expired"] + ["sent"] * 3 + ["delivered"] * 6 + ["read"] * 7
DAYS, PER_DAY, RECIPIENTS = 30, int(os.environ.get("PER_DAY", "3000")), 1_000
FLAT = 1.1


#: Messages from :first on, before :last. Made by SQLite itself, because Python takes ten times as long for a row.
#: An id has two halves, of which the first is spread evenly and the second counts; a place takes its first 21 bits.
_NUMBERS = """
WITH RECURSIVE numbers (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :last),
made AS (
  SELECT n, n * 2654435761 % 68719476736 AS spread, CAST(:begin_ms + n * :step_ms AS INTEGER) AS at,
    json_extract(:statuses, '$[' || (n % 20) || ']') AS status
  FROM numbers
)"""
_ROWS = f"""INSERT INTO message {_NUMBERS}
SELECT (at << {SPREAD}) + (spread >> 15), printf('m_%09x%09x', spread, n), 'w' || (n % 40),
  printf('97252%07d', n % 20000), status, 'order-' || (n / 10), printf('b_%018x', n / 100), at,
  replace(replace(:record, :accepted_at, at), :whatsapp_id, printf('3EB0%018X', n)),
  json_object('kind', 'text', 'text', printf(:text, n / 10, n % 1000, n % 7)),
  printf('%d scheduled %s%d sending %s%d %s ', at, char(10), at, char(10), at, status)
FROM made"""
_WORDS = f"""INSERT INTO message_text (rowid, words) {_NUMBERS}
SELECT (at << {SPREAD}) + (spread >> 15), printf(:words, n / 10, n % 1000, n % 7) FROM made"""
#: The first words are in all, one is in a thousandth, one in ten.
TEXT = "Hello, your order %d of customer c%d is ready at counter %d. Thank you and see you soon!"
WORDS = "hello your order %d of customer c%d is ready at counter %d thank you and see soon"


def fill(path: Path, messages: int) -> None:
    """Write an archive in bulk: rows first, then the indexes, as the product would have them."""
    connection = sqlite_schema.open_writer(path)
    connection.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -500000;")
    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
    for (name,) in named:
        connection.execute(f"DROP INDEX {name}")
    example = ended_message(1, attempts="1", api_key="k_bench", why="MOST_ROOM", claim_epoch="1", pause_ms="3000")
    columns = {"id", "session", "to", "status", "reference", "batch", "body"}
    given = {
        "begin_ms": int(time.time() * 1000) - 89 * DAY_MS,
        "step_ms": 87 * DAY_MS / messages,
        "statuses": json.dumps(STATUSES),
        "record": json.dumps({name: value for name, value in example.fields.items() if name not in columns}),
        "accepted_at": example.fields["accepted_at"],
        "whatsapp_id": example.fields["whatsapp_id"],
        "text": TEXT,
        "words": WORDS,
    }
    for first in range(0, messages, PER_COMMIT):
        span = {"first": first, "last": min(first + PER_COMMIT, messages)}
        with transaction(connection):
            connection.execute(_ROWS, given | span)
            connection.execute(_WORDS, given | span)
    _check(connection)
    connection.close()
    sqlite_schema.open_writer(path).close()


def _check(connection: sqlite3.Connection) -> None:
    """Compare some rows with what the product would have written."""
    found = connection.execute(
        "SELECT place, id, body, words FROM message JOIN message_text ON message_text.rowid = place LIMIT 1000"
    )
    for n, (place, name, body, words) in enumerate(found):
        text = TEXT % (n // 10, n % 1000, n % 7)
        assert place % (1 << SPREAD) == number_of_id(name), name
        assert json.loads(body) == {"kind": "text", "text": text}, body
        assert set(words.split()) == set(words_of(text)), words


@contextlib.asynccontextmanager
async def open_store(home: Path, messages: int) -> AsyncIterator[Store]:
    """Start a durable Redis and a gateway beside an archive with this many messages."""
    begun = time.perf_counter()
    await asyncio.to_thread(fill, home / "archive.sqlite", messages)
    print(f"{messages:,} messages were written in {time.perf_counter() - begun:.0f} s", flush=True)
    async with EmbeddedRedis(home) as server, contextlib.AsyncExitStack() as stack:
        redis = LineClient.from_url(server.url, decode_responses=True)
        stack.push_async_callback(redis.aclose)
        await add_sessions(redis)
        chosen = settings(3001, data_dir=home, gateway_hot_path=False, hot_per_day=10**6, rate_limit_per_minute=10**6,
                          queue_limit=10**6)  # fmt: skip
        context = make_context(chosen, redis)
        stack.push_async_callback(context.archive.close)
        await archive_marks.claim(context.scripts, await context.archive.identity())
        gateway = Gateway(context)
        api = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=gateway.app()), base_url=HERE, headers={"X-API-Key": API_KEY}, timeout=120
        )
        await stack.enter_async_context(api)
        yield Store(redis, context.scripts, Router(context.scripts, chosen), api, api, messages)


async def send(store: Store) -> httpx.Response:
    response = await store.api.post("/api/v1/send", json={"to": "972530000001", "message": "hello"})
    return httpx.Response(200 if response.status_code == 202 else response.status_code, text=response.text)


QUESTIONS: dict[str, Question] = {
    "send": send,
    "first page": search(),
    "by status": search(status="failed"),
    "by session": search(sessionId="w7"),
    "by session and status": search(sessionId="w0", status="failed"),
    "by reference": search(reference=lambda store: f"order-{store.middle // 10}"),
    "by recipient": search(to=lambda store: f"97252{store.middle % 20_000:07d}", limit=2),
    "by batch": search(batchId=lambda store: f"b_{store.middle // 100:018x}"),
    "text: a word of all": search(text="hello"),
    "text: a word of one in a thousand": search(text="c77"),
    "text: common words and a number": search(text=lambda store: f"your order {store.middle // 10}", limit=10),
    "an old page by status": search(status="read", until=lambda _: int(time.time() * 1000) - 60 * DAY_MS),
}


async def month(home: Path) -> dict[str, Any]:
    """Let thirty days pass, and return Redis' memory at the end of each."""
    async with EmbeddedRedis(home) as server:
        redis = LineClient.from_url(server.url, decode_responses=True)
        await redis.config_set("appendfsync", "no")  # it is memory that is measured
        context = make_context(settings(3001, data_dir=home), redis)
        context.scripts = Scripts(redis, clock=HELD_CLOCK)
        archiver = Archiver(context.settings, context.scripts, context.archive)
        now_ms, used = 1_750_000_000_000, []
        for day in range(DAYS):
            await redis.set("test:clock", now_ms)
            await add_day(context.scripts, day, now_ms)
            now_ms += DAY_MS
            await redis.set("test:clock", now_ms - 1)
            while await archiver.step() < 1:
                pass
            used.append(round((await redis.info("memory"))["used_memory"] / 1e6, 2))
            print(f"day {day + 1}: {used[-1]} MB", flush=True)
        await context.archive.close()
        await redis.aclose()
    return {"messages_per_day": PER_DAY, "used_memory_mb_by_day": used, "last_to_third": round(used[-1] / used[2], 3)}


async def add_day(scripts: Scripts, day: int, now_ms: int) -> None:
    """Store a day's messages as they are when they have ended, and an event of each."""
    pipelined = scripts
    numbers = range(day * PER_DAY, (day + 1) * PER_DAY)
    for first in range(numbers.start, numbers.stop, BATCH):
        await asyncio.gather(
            *(ended_messages.restore(pipelined, ended(n, now_ms)) for n in range(first, first + BATCH))
        )
        for n in range(first, first + BATCH, 10):
            await event_stream.emit(scripts, EventType.ALERT_TEST, AlertTest(str(n)))


def ended(n: int, now_ms: int) -> MessageCopy:
    fields = {
        "to": f"97252{n % RECIPIENTS:07d}",
        "reference": f"order-{n}",
        "status": STATUSES[n % 20],
        "session": f"w{n % 40}",
    }
    return ended_message(n + 1, accepted_at=now_ms, ended_at=now_ms, **fields)


async def main() -> int:
    """Fill, measure, write the result, and fail where a target is missed."""
    configure("warning")
    with tempfile.TemporaryDirectory() as home:
        memory = await month(Path(home) / "month")
        async with open_store(Path(home) / "few", FEW) as few, open_store(Path(home) / "many", MANY) as many:
            measured = {
                name: await compare(partial(ask_any, question), few, many) for name, question in QUESTIONS.items()
            }
            size = sum(path.stat().st_size for path in (Path(home) / "many").glob("archive.sqlite*"))
    broken = [name for name, each in measured.items() if each["times"] > MOST_TIMES]
    broken += ["memory over a month"] if memory["last_to_third"] > FLAT else []
    result = {
        "what": f"{MANY:,} archived messages against {FEW:,}: medians in turns; Redis' memory over {DAYS} days",
        "command": f"MESSAGES={MANY} PER_DAY={PER_DAY} python -m bench.archive",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "sqlite": sqlite3.sqlite_version,
        "archive_bytes_per_message": round(size / MANY),
        "measured": measured,
        "month": memory,
        "target": f"each within {MOST_TIMES:g} times the time of {FEW:,}; memory within {FLAT:g} times the third day's",
        "broken": broken,
    }
    _results.keep("archive", result)
    print(json.dumps(result, indent=2))
    return len(broken)


async def ask_any(question: Question, store: Store) -> float:
    """Return how long an answer takes; that of a send lists nothing."""
    if question is not send:
        return await ask(question, store)
    begun = time.perf_counter()
    response = await question(store)
    assert response.status_code == 200, response.text
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
