"""Campaigns: states, fields, files, and who is written to when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain import phone
from wa_orchestrator.domain.campaigns import campaign, plan, recipients, template
from wa_orchestrator.domain.campaigns.campaign import CampaignAction, CampaignState, PauseReason
from wa_orchestrator.domain.campaigns.plan import CampaignSender
from wa_orchestrator.domain.campaigns.recipients import BadFile, BadLine, FileProblem, LineProblem, Recipients

TEXT = "Hello {{name}}. To stop, answer STOP."


@pytest.mark.parametrize("state", CampaignState)
@pytest.mark.parametrize("action", CampaignAction)
def test_nothing_leads_out_of_an_ended_campaign_and_nobody_starts_twice(
    state: CampaignState, action: CampaignAction
) -> None:
    after = campaign.after(state, action)
    assert not (set(campaign.TRANSITIONS) & campaign.IGNORED)
    if state in campaign.ENDED:
        assert after in (None, state)
    if after is CampaignState.SENDING and state is not after:
        assert state in (CampaignState.DRAFT, CampaignState.PAUSED)


@pytest.mark.parametrize(
    ("written", "opted_out", "new_bans", "senders", "expected"),
    [
        (0, 0, 0, 1, None),
        (49, 20, 0, 1, None),
        (50, 1, 0, 1, None),
        (50, 2, 0, 1, PauseReason.OPT_OUTS),
        (1000, 30, 0, 1, None),
        (1000, 31, 0, 1, PauseReason.OPT_OUTS),
        (0, 0, 1, 1, PauseReason.BAN_SIGNAL),
        (0, 0, 0, 0, PauseReason.NO_SENDER),
    ],
)
def test_a_campaign_pauses_by_itself_before_it_does_harm(
    written: int, opted_out: int, new_bans: int, senders: int, expected: PauseReason | None
) -> None:
    found = campaign.pause_reason(written=written, opted_out=opted_out, new_bans=new_bans, senders=senders)
    assert found == expected


def test_every_attempt_at_every_recipient_has_an_id_of_its_own() -> None:
    made = {campaign.message_bytes(name, row, n) for name in ("c_1", "c_2") for row in range(50) for n in range(3)}
    assert len(made) == 300
    assert {len(each) for each in made} == {9}


def test_fields_are_found_in_any_case_and_filled_with_what_the_file_says() -> None:
    text = "Hi {{ First  Name }}, order {{ORDER}}, {{first name}}"
    assert template.fields_of(text) == ["first name", "order"]
    assert template.fill(text, {"first name": "Dana", "order": "{{order}}"}) == "Hi Dana, order {{order}}, Dana"


@pytest.mark.parametrize("text", ["Hi {{name", "Hi name}}", "Hi {{}}", "{{a{{b}}", "{{\n}}"])
def test_braces_that_are_no_field_are_noticed(text: str) -> None:
    assert template.has_stray_braces(text)
    assert not template.has_stray_braces("{one} {{two}} }")


def test_what_stands_in_single_braces_is_found_and_a_field_is_not() -> None:
    assert template.single_braced("Hi {name}, {{ name }} {first name}{name} {שם}") == ["name", "first name", "שם"]
    assert template.single_braced('{{one}} { } {1} {"a": 2} {} b{{c}}') == []


@pytest.mark.parametrize("text", [TEXT, "news. answer:stop", "חדש! להסרה השיבו הסר", "Unsubscribe: UNSUBSCRIBE!"])
def test_a_text_with_a_stop_word_tells_how_to_stop(text: str) -> None:
    assert template.tells_how_to_stop(text)


@pytest.mark.parametrize("text", ["Hello", "Our stopover in Rome", "{{stop}}", "נסיעה להסריון"])
def test_a_word_that_only_contains_a_stop_word_does_not_count(text: str) -> None:
    assert not template.tells_how_to_stop(text)


def _read(source: str, text: str = TEXT, most: int = 100) -> Recipients | BadFile:
    return recipients.read(source, text, phone.parse, most=most)


@pytest.mark.parametrize(
    "source",
    [
        "phone,name\n972501234567,Dana\n",
        "\ufeffName;Phone\nDana;+972 50-123-4567\n",
        'name\tטלפון\n"Dana"\t972501234567',
        "\n\nname|to\n\n Dana | 972501234567 \n\n",
    ],
)
def test_a_file_is_read_as_spreadsheets_write_it(source: str) -> None:
    read = _read(source)
    assert isinstance(read, Recipients)
    assert [(each.to, each.values) for each in read.found] == [("972501234567", {"name": "Dana"})]
    assert not read.problems


def test_a_number_that_comes_twice_is_written_to_once() -> None:
    read = _read("phone,name\n972501234567,Dana\n+972-50-1234567,Dan\n972501234568,Gil\n")
    assert isinstance(read, Recipients)
    assert [each.values["name"] for each in read.found] == ["Dana", "Gil"]
    assert read.doubles == 1


def test_every_line_with_a_problem_is_named_at_once() -> None:
    long = "x" * 1001
    source = f"phone,name\n,Dana\n0501234567,Gil\n9.7250E+11,Ben\n972501234567,\n972501234568,{long}\n972501234569"
    read = _read(source)
    assert isinstance(read, Recipients)
    assert list(read.problems) == [
        BadLine(2, LineProblem.NO_NUMBER),
        BadLine(3, LineProblem.BAD_NUMBER, "0501234567"),
        BadLine(4, LineProblem.SPREADSHEET_NUMBER, "9.7250E+11"),
        BadLine(5, LineProblem.FIELD_EMPTY, "name"),
        BadLine(6, LineProblem.TOO_LONG),
        BadLine(7, LineProblem.FIELD_EMPTY, "name"),
    ]
    assert not read.found


def test_a_text_that_gets_too_long_is_refused_with_its_line() -> None:
    read = _read("phone,name\n972501234567," + "x" * 900, text="{{name}}" * 5 + " STOP")
    assert isinstance(read, Recipients)
    assert list(read.problems) == [BadLine(2, LineProblem.TOO_LONG)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", BadFile(FileProblem.EMPTY)),
        (" \n\n", BadFile(FileProblem.EMPTY)),
        ("who,name\n1,2", BadFile(FileProblem.NO_PHONE_COLUMN, ("who", "name"))),
        ("phone,name,Name\n1,2,3", BadFile(FileProblem.COLUMN_TWICE, ("name",))),
        ("phone\n972501234567", BadFile(FileProblem.COLUMN_MISSING, ("name",))),
        ('phone,name\n972501234567,"Dana\n', BadFile(FileProblem.NOT_CSV)),
        ("phone,name\n972501234567,a\n972501234568,b\n972501234569,c", BadFile(FileProblem.TOO_MANY)),
    ],
)
def test_a_file_that_cannot_be_used_says_why(source: str, expected: BadFile) -> None:
    assert _read(source, most=2) == expected


@given(st.text(max_size=300))
def test_no_file_breaks_the_reader(source: str) -> None:
    read = _read("phone,name\n" + source)
    if isinstance(read, Recipients):
        assert len({each.to for each in read.found}) == len(read.found)
        assert all(template.fill(TEXT, each.values) for each in read.found)


def _sender(name: str, waits: int = 0, room: int = 100, per_day: int = 100) -> CampaignSender:
    return CampaignSender(name, waits, room, per_day)


def test_who_has_a_conversation_stays_with_its_session_and_waits_for_it() -> None:
    senders = [_sender("w1", waits=3), _sender("w2", waits=1)]
    given_ = plan.allot([(1, "w1"), (2, ""), (3, "w2"), (4, "gone"), (5, "")], senders)
    assert given_ == [(2, "w2"), (3, "w2")]
    assert plan.allot([(1, "")], []) == []


@given(st.lists(st.builds(_sender, st.sampled_from(["a", "b", "c"]), st.integers(0, 5), st.integers(-5, 100))))
def test_no_phone_gets_more_than_its_places(senders: list[CampaignSender]) -> None:
    by_name = {each.session: each for each in senders}
    taken = plan.allot([(row, "a" if row % 2 else "") for row in range(40)], list(by_name.values()))
    for name, sender in by_name.items():
        count = sum(session == name for _, session in taken)
        assert sender.waits + count <= max(plan.MOST_WAITING, sender.waits)
        assert count == 0 or sender.room_today - count >= 20  # a fifth of 100 a day is kept for replies


def times(queues: dict[str, plan.LeavesAt], bound: dict[str, int], free: int) -> list[int] | None:
    counts = plan.shares(queues, bound, free)
    return None if counts is None else plan.leave_times(queues, counts)


def test_a_campaign_ends_when_the_last_of_all_queues_does() -> None:
    queues: dict[str, plan.LeavesAt] = {"w1": lambda n: 100 + 10 * n, "w2": lambda n: 1000 + 10 * n}
    assert times(queues, {}, 3) == [100, 110, 120]
    assert times(queues, {"w2": 2}, 1) == [100, 1000, 1010]
    assert times(queues, {}, 0) == []
    assert plan.shares(queues, {"w2": 2}, 91) == {"w1": 91, "w2": 2}


def test_nobody_says_when_a_campaign_ends_whose_session_may_never_send() -> None:
    assert times({"w1": lambda _: None}, {}, 1) is None
    assert times({"w1": lambda _: None, "w2": lambda n: n}, {"w1": 1}, 1) is None
    assert times({}, {}, 1) is None
    assert times({"w1": lambda n: 5 if n == 0 else None}, {}, 2) is None
