"""Records list every field once: what is written is what is read, and scripts write nothing else."""

import dataclasses
import re
from typing import get_type_hints

import pytest

from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.domain.messages.sender_policy import Pin
from wa_orchestrator.domain.proxies.proxy_health import ProxyStatus
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.store.conversations.conversation_records import ConversationChanges, StoredConversation
from wa_orchestrator.store.engine.scripts import FILES
from wa_orchestrator.store.record_codec import decode, encode
from wa_orchestrator.store.records import (
    Message,
    MessageChanges,
    Proxy,
    ProxyChanges,
    Session,
    SessionChanges,
)

#: Values that scripts write, beside names of fields.
_VALUES = {str(each) for each in (*State, *MessageStatus)}


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (Session, SessionChanges),
        (Proxy, ProxyChanges),
        (Message, MessageChanges),
        (StoredConversation, ConversationChanges),
    ],
)
def test_changes_have_the_fields_and_types_of_their_record(record: type, changes: type) -> None:
    fields = get_type_hints(record)
    assert {name: fields.get(name) for name in get_type_hints(changes)} == get_type_hints(changes)


@pytest.mark.parametrize(
    ("key", "record"),
    [("SESSION", Session), ("PROXY", Proxy), ("MESSAGE", Message), ("CONVERSATION", StoredConversation)],
)
def test_scripts_write_only_fields_of_the_record(key: str, record: type) -> None:
    text = "".join(path.read_text("utf-8") for path in FILES.values())
    calls = re.findall(rf"redis\.call\('(?:HSET|HINCRBY|HDEL)', {key}, ([^\n]*(?:\n  '[^\n]*)*)", text)
    written = {name for call in calls for name in re.findall(r"'([a-z_]+)'", call)} - _VALUES
    assert written
    assert written <= {field.name for field in dataclasses.fields(record)}


def test_a_record_is_read_by_the_types_of_its_fields() -> None:
    session = decode(Session, {"id": "w1", "status": "connected", "reason": "", "epoch": "3", "discard": "1"})
    assert (session.status, session.reason, session.epoch, session.discard) == (State.CONNECTED, None, 3, True)
    assert (session.restart_epoch, session.started_at, session.label) == (None, 0, "")
    message = decode(Message, {"id": "m_1", "status": "sending", "pinned": "phone", "due_at": "1.75e+12"})
    assert (message.pinned, message.due_at) == (Pin.PHONE, 1_750_000_000_000)


def test_a_reason_that_only_a_newer_version_knows_reads_as_none() -> None:
    assert decode(Session, {"status": "failed", "reason": "OF_A_NEWER_VERSION"}).reason is None


def test_a_record_reads_the_same_whether_an_empty_field_is_stored_or_missing() -> None:
    stored = {"id": "m1", "status": "queued"}
    empty = {name: "" for name in get_type_hints(Message) if name not in stored}
    assert decode(Message, stored) == decode(Message, stored | empty) == decode(Message, stored | {"of_tomorrow": "1"})


def test_a_record_without_the_status_that_it_must_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="MessageStatus"):
        decode(Message, {"id": "m1"})


def test_changes_are_read_as_they_were_written() -> None:
    changed = SessionChanges(reason=Reason.BANNED, discard=False, restart_epoch=None, missed_at=7, label="x")
    stored = {name: str(value) for name, value in encode(changed).items()}
    session = decode(Session, stored | {"status": "failed"})
    assert {name: getattr(session, name) for name in changed} == changed
    proxy_changes = ProxyChanges(strikes=(1, 2), draining=True, latency_ms=None)
    stored = {name: str(value) for name, value in encode(proxy_changes).items()}
    proxy = decode(Proxy, stored | {"status": ProxyStatus.OK}, sessions=frozenset())
    assert (proxy.strikes, proxy.draining, proxy.latency_ms) == ((1, 2), True, None)
