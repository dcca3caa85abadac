"""A reply that is just a stop word is an opt-out; a word within a sentence is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.messages.opt_out import DEFAULT_WORDS, Extent, extent_of, is_opt_out


@pytest.mark.parametrize(
    "text",
    [
        "STOP",
        "stop",
        " Stop. ",
        "*STOP*",
        "STOP!!!",
        "🛑 stop",
        "\u200fהסר\u200f",
        "הָסֵר",
        "״הסר״",
        "הסירו!",
        "עצור",
        "unsubscribe\n",
        "ＳＴＯＰ",
    ],
)
def test_a_stop_word_counts_in_any_case_and_with_any_punctuation(text: str) -> None:
    assert is_opt_out(text)


@pytest.mark.parametrize(
    "text", ["", "   ", "!", "stop it", "please stop", "nonstop", "הסר אותי", "stopp", "האם להסיר?", "s t o p"]
)
def test_anything_else_is_an_ordinary_reply(text: str) -> None:
    assert not is_opt_out(text)


def test_an_operator_can_choose_the_words() -> None:
    words = {"Baja", "no más"}
    assert is_opt_out("baja", words)
    assert is_opt_out("NO  MÁS!", words)
    assert not is_opt_out("STOP", words)
    assert not is_opt_out("...", ["!"])


@quick
@given(
    st.sampled_from(sorted(DEFAULT_WORDS)),
    st.text(" .,!?*_~\"'-\u200e\u200f\u2066\u2069\u05b8", max_size=6),
    st.text("abcאבג", min_size=1, max_size=4),
)
def test_punctuation_never_hides_a_stop_word_and_letters_always_do(word: str, dress: str, letters: str) -> None:
    assert is_opt_out(dress + word + dress)
    assert not is_opt_out(f"{word} {letters}")


@pytest.mark.parametrize(
    ("has_written", "is_within_rate", "extent"),
    [
        (True, True, Extent.EVERY_PHONE),
        (True, False, Extent.EVERY_PHONE),  # that many people have the right to it
        (False, True, Extent.EVERY_PHONE),
        (False, False, Extent.THIS_PHONE),
    ],
)
def test_a_worker_is_believed_about_people_whom_its_phone_wrote_to_and_a_few_others(
    has_written: bool, is_within_rate: bool, extent: Extent
) -> None:
    assert extent_of(has_written=has_written, is_within_rate=is_within_rate) is extent
