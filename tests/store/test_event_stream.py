"""Scripts and Python emit only events of the catalogue, with fields of their payloads."""

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

import wa_orchestrator
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.stream_events import AlertTest, EventType, ProxyReason, SessionChanged, fields_of, find
from wa_orchestrator.errors import Broken
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import FILES, Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import Entry

_CALL = re.compile(r"(?<!function )\bemit(?:_and_keep)?\(")
_LITERAL = re.compile(r"'([^']*)'")
#: Statuses that complete a type in the scripts, by what stands before them.
_COMPLETED = {"session.": "SessionChanged", "message.": "MessageChanged", "proxy.": "ProxyPoolChanged"}

#: Types that Python chooses, by the variable of the script that has them.
_CHOSEN = {
    "incoming_type": {"MessageReceived"},
    "call_type": {"CallReported"},
    "inventory_type": {"LowInventory", "LowProfiles"},
}


def _arguments(text: str, start: int) -> list[str]:
    """Split the arguments of a call at the commas between them."""
    parts, depth, begin = [], 1, start
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0 or (depth == 1 and text[at] == ","):
            parts.append(text[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return parts
    raise AssertionError(f"no end of the call at {start}")


def _calls() -> Iterator[tuple[str, str, list[str]]]:
    """Every call of the writers in the scripts: file, type, field names."""
    for path in FILES.values():
        text = path.read_text("utf-8")
        for found in _CALL.finditer(text):
            parts = _arguments(text, found.end())
            streams = 2 if "keep" in found[0] else 1
            if parts[streams] != "kind":  # the helper that calls the other
                fields = parts[streams + 2 :]
                if fields[-1].startswith("unpack(ARGV"):  # Python wrote these, from a payload object
                    fields.pop()
                yield path.stem, parts[streams], [part.strip("'") for part in fields[::2]]


def _types(expression: str) -> list[EventType]:
    found = [each for each in EventType if each.payload.__name__ in _CHOSEN.get(expression, ())]
    for literal in _LITERAL.findall(expression):
        if literal in _COMPLETED:
            found += [
                each for each in EventType if each.startswith(literal) and each.payload.__name__ == _COMPLETED[literal]
            ]
        else:
            known = find(literal)
            assert known is not None, f"{literal} is not in the catalogue"
            found.append(known)
    return found


def test_scripts_emit_only_types_and_fields_of_the_catalogue() -> None:
    calls = list(_calls())
    wrong = [
        (script, kind, set(names) - set(fields_of(kind.payload)))
        for script, expression, names in calls
        for kind in _types(expression)
        if not set(names) <= set(fields_of(kind.payload))
    ]
    assert wrong == []
    assert all(_types(expression) for _, expression, _ in calls)


def test_every_type_of_the_catalogue_is_emitted() -> None:
    by_scripts = {kind for _, expression, _ in _calls() for kind in _types(expression)}
    source = Path(wa_orchestrator.__file__).parent
    text = "".join(path.read_text("utf-8") for path in source.rglob("*.py") if path.name != "stream_events.py")
    by_python = {EventType[name] for name in re.findall(r"emit(?:_in)?\([^)]*?EventType\.([A-Z_]+)", text)}
    by_python |= {EventType[name] for name in re.findall(r"FoundTrouble\(\s*EventType\.([A-Z_]+)", text)}
    for either in re.findall(r"kind = EventType\.([A-Z_]+) if \w+ else EventType\.([A-Z_]+)\n", text):
        by_python |= {EventType[name] for name in either}
    by_python |= {EventType[name] for name in re.findall(r"kind = EventType\.([A-Z_]+)\n", text)}
    assert by_scripts | by_python == set(EventType)


def test_only_the_writers_append_to_streams() -> None:
    source = Path(wa_orchestrator.__file__).parent
    lua = {path.stem for path in FILES.values() if "'XADD'" in path.read_text("utf-8")}
    # Two scripts keep the history of a phone's proxies, which nobody is notified of.
    python = {path.stem for path in source.rglob("*.py") if ".xadd(" in path.read_text("utf-8")}
    histories = {name for name in lua if name != "_event" and _appends_only_proxy_history(name)}
    assert lua - histories == {"_event"}
    # A restore writes the entries that a backup has read.
    assert python - {"audit", "state_dump"} == {"event_stream"}


def _appends_only_proxy_history(script: str) -> bool:
    lines = [line for line in FILES[script].read_text("utf-8").splitlines() if "'XADD'" in line]
    return all("'MAXLEN', '~', 100, '*', 'from'" in line for line in lines)


def test_reasons_for_a_proxy_in_the_scripts_are_of_the_catalogue() -> None:
    text = FILES["bind_phone"].read_text("utf-8")
    words = set(re.findall(r"how = '(\w+)'", text)) | set(re.findall(r"'session.moved'.*'reason', '(\w+)'", text))
    assert words - {"same"} <= set(ProxyReason)
    assert len(words) > 4


def test_scripts_and_python_keep_the_same_number_of_events() -> None:
    text = FILES["_event"].read_text("utf-8")
    kept = [int(number) for each in re.findall(r"MAX_SESSION_EVENTS = (\d+), (\d+)", text) for number in each]
    assert kept == [event_stream.MAX_EVENTS, event_stream.MAX_SESSION_EVENTS]


async def test_an_event_goes_to_the_stream_and_to_the_session_history(redis: Redis, scripts: Scripts) -> None:
    payload = SessionChanged(SessionId("worker_1"), "PHONE_FULL", phone=Phone("972501234567"))
    await event_stream.emit(scripts, EventType.SESSION_TURNED_AWAY, payload, history="worker_1")
    for stream in (keys.EVENTS, keys.session_events("worker_1")):
        [(_, fields)] = await redis.xrange(stream)
        assert fields.pop("at").isdigit()
        assert fields == {
            "type": "session.turned_away", "session": "worker_1", "reason": "PHONE_FULL", "phone": "972501234567",
        }  # fmt: skip


async def test_a_payload_of_another_type_is_refused(scripts: Scripts) -> None:
    with pytest.raises(Broken, match="SessionChanged"):
        await event_stream.emit(scripts, EventType.SESSION_TURNED_AWAY, AlertTest("admin"))


async def test_each_event_is_consumed_once_by_several_processes(redis: Redis, scripts: Scripts) -> None:
    def count(pipe: Pipeline, entries: list[Entry]) -> None:
        pipe.incrby("counted", len(entries))

    for number in range(30):
        await event_stream.emit(scripts, EventType.ALERT_TEST, AlertTest(str(number)))
    consume = partial(event_stream.consume, scripts, "cursor", count, most=4, start="0")
    batches = [await asyncio.gather(*(consume() for _ in range(3))) for _ in range(10)]
    assert sum(len(entries) for batch in batches for entries in batch) == 30
    assert await redis.get("counted") == "30"
