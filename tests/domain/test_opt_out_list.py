"""Lists of people who want no more messages, as files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain import phone
from wa_orchestrator.domain.messages import opt_out_list


@pytest.mark.parametrize(
    ("source", "phones"),
    [
        ("972501234567\n\n+972 50-123-4568\n", ["972501234567", "972501234568"]),
        ("\ufeffname;Phone\nDana;972501234567\n", ["972501234567"]),
        ("phone,lid,at\n972501234567,,2026-01-01\n972501234567,,\n", ["972501234567"]),
        ("972501234567,Dana\n'+972501234568,Gil", ["972501234567", "972501234568"]),
        ("", []),
    ],
)
def test_numbers_are_read_from_lines_or_from_their_column(source: str, phones: list[str]) -> None:
    found, refused = opt_out_list.read(source, phone.parse)
    assert (list(found), refused) == (phones, [])


def test_a_line_without_a_number_is_named_and_the_others_are_taken() -> None:
    found, refused = opt_out_list.read("name,phone\nDana,972501234567\nGil\nBen,0501234567\n", phone.parse)
    assert found == {"972501234567": 2}
    assert [each.line for each in refused] == [3, 4]


@given(st.text(max_size=200))
def test_no_list_breaks_the_reader(source: str) -> None:
    found, _ = opt_out_list.read(source, phone.parse)
    assert all(each.isdigit() for each in found)
