"""Lists of sessions as files."""

import pytest

from wa_orchestrator.domain.sessions import session_list
from wa_orchestrator.domain.sessions.session_list import ListedSession
from wa_orchestrator.errors import Refused


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_lines_are_read_as_spreadsheets_write_them(delimiter: str) -> None:
    rows = [["ID", " Phone ", "status", "tags"], ["north", "'+972501234567", "connected", "a| b"], [""], ["south", ""]]
    text = "\ufeff" + "\r\n".join(delimiter.join(row) for row in rows)
    assert session_list.read(text) == [
        ListedSession(2, {"sessionId": "north", "phone": "+972501234567", "tags": ["a", "b"]}),
        ListedSession(4, {"sessionId": "south"}),
    ]


def test_an_export_can_be_read_again() -> None:
    text = 'sessionId,label,tags,phone,status\nnorth,Haifa,"a,b",972501234567,connected\n'
    (found,) = session_list.read(text)
    assert found.fields == {"sessionId": "north", "label": "Haifa", "tags": ["a", "b"], "phone": "972501234567"}


@pytest.mark.parametrize(
    ("text", "code"), [("", "NO_HEADING"), ("north,Haifa\n", "NO_HEADING"), ("id\n" + "x\n" * 1001, "TOO_MANY_LINES")]
)
def test_what_is_no_list_is_refused(text: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        session_list.read(text)
    assert refused.value.code == code
