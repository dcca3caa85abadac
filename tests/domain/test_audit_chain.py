"""The chain of the audit log: what was changed, taken out or moved is found."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.access import audit_chain
from wa_orchestrator.domain.access.audit_chain import BEGINNING, BrokenChain, Damage, Intact, Link

ENTRIES: list[dict[str, object]] = [
    {"by": "k_1", "action": "session.stop", "target": f"w{n}", "details": {"שם": n}} for n in range(5)
]


def _log(entries: list[dict[str, object]]) -> list[str]:
    lines, last = [], Link()
    for entry in entries:
        line, last = audit_chain.line_of(last, entry)
        lines.append(line)
    return lines


def test_a_log_as_it_was_written_is_intact() -> None:
    lines = _log(ENTRIES)
    last = audit_chain.link_of(lines[-1])
    assert last is not None
    assert last.number == 5
    assert audit_chain.verify(lines) == Intact(last)
    assert audit_chain.verify([]) == Intact(Link(0, BEGINNING))


@given(st.integers(0, 4), st.sampled_from(["by", "action", "target", "details", "previous", "number"]))
def test_a_changed_field_is_found(at: int, field: str) -> None:
    lines = _log(ENTRIES)
    raw = json.loads(lines[at])
    lines[at] = json.dumps(raw | {field: 99})
    assert audit_chain.verify(lines) == BrokenChain(at + 1, Damage.CHANGED)


@given(st.integers(0, 3))
def test_a_line_that_was_taken_out_is_found(at: int) -> None:
    lines = _log(ENTRIES)
    del lines[at]
    assert audit_chain.verify(lines) == BrokenChain(at + 1, Damage.OUT_OF_ORDER)


def test_a_forged_line_with_a_hash_of_its_own_is_found() -> None:
    lines = _log(ENTRIES)
    lines[2] = audit_chain.line_of(Link(2, "f" * 64), {"by": "nobody"})[0]
    assert audit_chain.verify(lines) == BrokenChain(3, Damage.OUT_OF_ORDER)


@pytest.mark.parametrize("line", ["", "{", "[]", '{"number": "x"}', "null", '{"number": 1}'])
def test_what_is_no_entry_is_found(line: str) -> None:
    assert audit_chain.verify([line]) == BrokenChain(1, Damage.UNREADABLE)
