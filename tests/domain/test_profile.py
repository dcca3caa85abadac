"""Profiles: real systems and browsers, chosen once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.sessions.profile import BadProfile, NoneFree, Profile, choose

NAMES = ["Ubuntu", "Windows/Edge/120.0", "Mac OS/Safari"]


@pytest.mark.parametrize(
    ("text", "name", "shown"),
    [
        ("Ubuntu", "Ubuntu", "Chrome (Ubuntu)"),
        (" ubuntu / chrome ", "Ubuntu", "Chrome (Ubuntu)"),
        ("windows/EDGE/120.0", "Windows/Edge/120.0", "Edge (Windows)"),
        ("macOS/safari", "Mac OS/Safari", "Safari (Mac OS)"),
        ("Windows/Chrome/120.0", "Windows/Chrome/120.0", "Chrome (Windows)"),
    ],
)
def test_a_profile_is_written_in_one_way(text: str, name: str, shown: str) -> None:
    found = Profile.parse(text)
    assert (found.name, found.shown) == (name, shown)
    assert Profile.parse(found.name) == found


@pytest.mark.parametrize(
    "text", ["", "/", "Acme Ltd", "Chrome", "Ubuntu/Acme", "Ubuntu/Safari", "Windows/Edge/new", "a/b/c/d", "Ubuntu/"]
)
def test_what_is_no_real_system_and_browser_is_refused(text: str) -> None:
    with pytest.raises(BadProfile) as refused:
        Profile.parse(text)
    assert refused.value.code == "BAD_PROFILE"


@pytest.mark.parametrize(
    ("taken", "most", "chosen"),
    [
        ({}, 0, "Ubuntu"),
        ({"Ubuntu": 1}, 0, "Windows/Edge/120.0"),
        ({"Ubuntu": 2, "Windows/Edge/120.0": 1, "Mac OS/Safari": 1}, 2, "Windows/Edge/120.0"),
        ({"Ubuntu": 2, "Windows/Edge/120.0": 2, "Mac OS/Safari": 1}, 2, "Mac OS/Safari"),
        (dict.fromkeys(NAMES, 2), 2, NoneFree()),
        (dict.fromkeys(NAMES, 9), 0, "Ubuntu"),
    ],
)
def test_a_new_session_gets_the_profile_that_the_fewest_have(
    taken: dict[str, int], most: int, chosen: str | NoneFree
) -> None:
    assert choose(NAMES, taken, most) == chosen


@quick
@given(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5)), st.integers(1, 5))
def test_no_profile_ever_gets_more_sessions_than_it_may_have(taken: dict[str, int], most: int) -> None:
    chosen = choose(NAMES, taken, most)
    if isinstance(chosen, str):
        assert taken.get(chosen, 0) < most
    else:
        assert all(taken.get(name, 0) >= most for name in NAMES)
