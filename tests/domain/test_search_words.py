"""What counts as a word of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.messages.search_words import words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, hello WORLD!", ("hello", "world")),
        ("Café in Straße", ("cafe", "in", "strasse")),
        ("שָׁלוֹם דנה", ("שלום", "דנה")),
        ("snake_case №7", ("snake", "case", "no7")),
        ("…", ()),
    ],
)
def test_words_have_no_case_no_accents_and_no_repeats(text: str, words: tuple[str, ...]) -> None:
    assert words_of(text) == words


@given(st.text())
def test_the_words_of_words_are_the_words(text: str) -> None:
    assert set(words_of(" ".join(words_of(text)))) == set(words_of(text))
