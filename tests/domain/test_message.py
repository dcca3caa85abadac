"""A message climbs and never descends, and success is never taken back."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain import content, message, message_failures
from wa_orchestrator.domain.message import (
    Failure,
    GiveUp,
    Location,
    Media,
    MediaKind,
    Remedy,
    Retry,
    Status,
    StopSession,
    Text,
    after_failure,
    join,
    may_move,
)

statuses = st.sampled_from(list(Status))


@quick
@given(statuses, statuses, statuses)
def test_reports_about_a_message_join_the_same_in_every_order(a: Status, b: Status, c: Status) -> None:
    assert join(a, b) == join(b, a)
    assert join(a, a) == a
    assert join(a, join(b, c)) == join(join(a, b), c)
    assert join(a, join(a, b)) == join(a, b)


@pytest.mark.parametrize(
    ("had", "given_up"), list(product(sorted(message.SUCCEEDED), [Status.FAILED, Status.EXPIRED, Status.CANCELLED]))
)
def test_success_beats_every_way_of_giving_up(had: Status, given_up: Status) -> None:
    assert join(given_up, had) == had
    assert may_move(given_up, had)
    assert not may_move(had, given_up)


def test_a_message_steps_back_only_where_that_is_named() -> None:
    for before, after in product(Status, Status):
        if may_move(before, after) and (before, after) not in message.STEPS_BACK:
            assert join(before, after) == after != before


def test_the_named_steps_back_all_lead_to_the_queue() -> None:
    assert all(may_move(*step) and step[1] is Status.QUEUED for step in message.STEPS_BACK)
    assert not may_move(Status.SENT, Status.QUEUED)
    assert not may_move(Status.CANCELLED, Status.QUEUED)


def test_what_a_worker_holds_can_neither_be_cancelled_nor_expire() -> None:
    assert not may_move(Status.SENDING, Status.CANCELLED)
    assert not may_move(Status.SENDING, Status.EXPIRED)


def test_waiting_sending_and_ended_are_all_there_is() -> None:
    assert message.WAITING | {Status.SENDING} | message.ENDED == set(Status)
    assert not message.WAITING & message.ENDED


@quick
@given(st.lists(statuses, max_size=8), st.data())
def test_receipts_in_any_order_end_the_same(told: list[Status], data: st.DataObject) -> None:
    def ended(reports: list[Status]) -> Status:
        status = Status.SENT
        for report in reports:
            status = join(status, report)
        return status

    assert ended(data.draw(st.permutations(told + told))) == ended(told)


@pytest.mark.parametrize(
    ("code", "failure", "remedy"),
    [
        ("463", Failure.REACHOUT_LOCKED, Remedy.NEVER),
        (463, Failure.REACHOUT_LOCKED, Remedy.NEVER),
        ("not_on_whatsapp", Failure.NOT_ON_WHATSAPP, Remedy.NEVER),
        (479, Failure.STALE_DEVICES, Remedy.REFRESH_THEN_RETRY),
        (401, Failure.LOGGED_OUT, Remedy.STOP_SESSION),
        (403, Failure.BANNED, Remedy.STOP_SESSION),
        (440, Failure.REPLACED_ELSEWHERE, Remedy.STOP_SESSION),
        ("NO_ACK", Failure.NO_ACK, Remedy.RETRY_SAME_ID),
        (408, Failure.NO_ACK, Remedy.RETRY_SAME_ID),
        (" handed_back ", Failure.HANDED_BACK, Remedy.HAND_BACK),
        ("whatever", Failure.UNKNOWN, Remedy.RETRY_SAME_ID),
    ],
)
def test_a_code_has_its_remedy(code: str | int, failure: Failure, remedy: Remedy) -> None:
    assert message.failure_of(code) is failure
    assert message.REMEDIES[failure] is remedy


def test_an_unknown_code_is_not_retried_when_the_worker_says_that_it_is_no_use() -> None:
    assert message.failure_of("whatever", retryable=False) is Failure.REFUSED
    assert message.failure_of(479, retryable=False) is Failure.STALE_DEVICES


@pytest.mark.parametrize(
    ("attempts", "failure", "answer"),
    [
        (1, Failure.NO_ACK, Retry(5_000, Remedy.RETRY_SAME_ID)),
        (2, Failure.NO_ACK, Retry(10_000, Remedy.RETRY_SAME_ID)),
        (3, Failure.NO_ACK, GiveUp(Failure.NO_ACK)),
        (1, Failure.STALE_DEVICES, Retry(5_000, Remedy.REFRESH_THEN_RETRY)),
        (1, Failure.NOT_ON_WHATSAPP, GiveUp(Failure.NOT_ON_WHATSAPP)),
        (1, Failure.REACHOUT_LOCKED, GiveUp(Failure.REACHOUT_LOCKED)),
        (1, Failure.BANNED, StopSession(Failure.BANNED)),
        (7, Failure.LEASE_EXPIRED, Retry(0, Remedy.HAND_BACK)),
    ],
)
def test_a_failure_is_answered_by_its_kind_and_the_number_of_attempts(
    attempts: int, failure: Failure, answer: Retry | GiveUp | StopSession
) -> None:
    assert after_failure(attempts, failure) == answer


@quick
@given(st.integers(1, 100), st.floats(0, 1, exclude_max=True))
def test_a_backoff_stays_within_a_quarter_of_its_mean_and_below_its_cap(attempts: int, dice: float) -> None:
    mean = min(5_000 * 2 ** (attempts - 1), 300_000)
    assert 0.75 * mean - 1 <= message.backoff_ms(attempts, dice) <= 1.25 * mean


@quick
@given(st.sampled_from(list(Failure)))
def test_no_failure_is_retried_for_ever_unless_it_is_not_the_messages_fault(failure: Failure) -> None:
    if isinstance(after_failure(message.MAX_ATTEMPTS, failure), Retry):
        assert message.REMEDIES[failure] is Remedy.HAND_BACK


@pytest.mark.parametrize("failure", Failure)
def test_every_failure_has_a_sentence_in_both_languages(failure: Failure) -> None:
    assert message.sentence(failure, "en").isascii()
    assert not message.sentence(failure, "he").isascii()
    assert set(message_failures.REMEDIES) == set(message_failures.SENTENCES) == set(Failure)


@quick
@given(st.binary(min_size=9, max_size=9))
def test_a_whatsapp_id_has_the_shape_that_baileys_makes(dice: bytes) -> None:
    made = message.whatsapp_id(dice)
    assert made.startswith("3EB0")
    assert len(made) == 22
    assert message.is_whatsapp_id(made)


@pytest.mark.parametrize(
    "text", ["", "3EB0", "3EB0" + "a" * 18, "3EB0" + "G" * 18, "4EB0" + "A" * 18, "3EB0" + "A" * 19]
)
def test_another_shape_is_no_whatsapp_id(text: str) -> None:
    assert not message.is_whatsapp_id(text)


def test_too_few_dice_are_refused() -> None:
    with pytest.raises(ValueError, match="9 random bytes"):
        message.whatsapp_id(b"short")


PICTURE = Media(MediaKind.IMAGE, "image/png", url="https://files.example.com/a.png")
PLACE = Location(32.08, 34.78, name="Tel Aviv")


@pytest.mark.parametrize(
    ("sent", "paths"),
    [
        (Text("x"), []),
        (Text("x" * 4096), []),
        (Text(""), ["message"]),
        (Text(" \n"), ["message"]),
        (Text("x" * 4097), ["message"]),
        (PICTURE, []),
        (Media(MediaKind.DOCUMENT, "application/pdf", upload="u1", filename="a.pdf", caption="hi"), []),
        (Media(MediaKind.IMAGE, "image/png"), ["media"]),
        (Media(MediaKind.IMAGE, "image/png", url="https://a.example.com", upload="u1"), ["media"]),
        (
            Media(MediaKind.AUDIO, "png", filename="", caption="x" * 1025),
            ["media", "media.mimetype", "media.filename", "media.caption"],
        ),
        (PLACE, []),
        (Location(91, -181, name="x" * 256), ["location.latitude", "location.longitude", "location.name"]),
    ],
)
def test_all_problems_of_a_content_are_told_at_once(sent: message.Content, paths: list[str]) -> None:
    assert [problem.path for problem in message.problems(sent)] == paths


@pytest.mark.parametrize(
    "sent", [Text("שלום"), PICTURE, PLACE, Media(MediaKind.VIDEO, "video/mp4", upload="u", caption="c")]
)
def test_a_content_survives_being_written_and_read(sent: message.Content) -> None:
    assert content.decode(content.encode(sent)) == sent


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"kind": "text"},
        {"kind": "sticker", "media": {"mimetype": "a/b"}},
        {"kind": "image"},
        {"kind": "image", "media": None},
        {"kind": "location", "location": {"latitude": "x", "longitude": 1}},
    ],
)
def test_what_is_no_content_is_not_read_as_one(raw: dict[str, object]) -> None:
    with pytest.raises(message.BadContent):
        content.decode(raw)
