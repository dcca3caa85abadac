"""What is said of a restore before it: no proxy is overfilled, no phone, and nobody is left out without a reason."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.sessions.restore_outcome import RestoreOutcome, Returning, forecast, outcome_of

RESTORED, NO_ROOM, PHONE_FULL = RestoreOutcome


@pytest.mark.parametrize(
    ("session", "outcome"),
    [
        (Returning("w", "972501", "p1"), RESTORED),
        (Returning("w", "972501", "full"), NO_ROOM),
        (Returning("w", "972501", "gone"), NO_ROOM),
        (Returning("w", "972502", "p1"), PHONE_FULL),
        (Returning("w", "", "p1"), RESTORED),
        (Returning("w", "972501", ""), RESTORED),  # it had no proxy
    ],
)
def test_a_session_returns_to_its_proxy_without_one_or_not_at_all(session: Returning, outcome: RestoreOutcome) -> None:
    there = {"p1": 3, "full": 4}
    found = forecast([session], of_phone={"972502": 4}, on_proxy=there, sticky={}, per_phone=4, per_proxy=4)
    assert found == {"w": outcome}


def test_all_sessions_of_a_phone_are_counted_on_the_proxy_that_the_phone_has_or_gets() -> None:
    two = [Returning("w1", "972501", "p1"), Returning("w2", "972501", "p2")]
    there = {"p1": 0, "p2": 4}
    assert forecast(two, of_phone={}, on_proxy=there, sticky={}, per_phone=4, per_proxy=4)["w2"] is RESTORED
    found = forecast(two, of_phone={}, on_proxy=there, sticky={"972501": "p2"}, per_phone=4, per_proxy=4)
    assert found == {"w1": NO_ROOM, "w2": NO_ROOM}


@pytest.mark.parametrize(
    ("saved", "now", "outcome"),
    [("p1", "p1", RESTORED), ("p1", "p2", RESTORED), ("p1", "", NO_ROOM), ("", "", RESTORED)],
)
def test_only_a_session_that_had_a_proxy_and_has_none_lacks_room(saved: str, now: str, outcome: RestoreOutcome) -> None:
    assert outcome_of(saved_proxy=saved, proxy=now) is outcome


def returning() -> st.SearchStrategy[list[Returning]]:
    each = st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["", "p", "q"]))
    numbered = st.lists(each, max_size=9).map(enumerate)
    return numbered.map(lambda all_: [Returning(f"w{n}", *pair) for n, pair in all_])


@given(returning(), st.integers(0, 3), st.integers(0, 3))
def test_what_is_promised_fits(sessions: list[Returning], there: int, limit: int) -> None:
    proxies = {"p": there, "q": 0}
    found = forecast(sessions, of_phone={"a": there}, on_proxy=proxies, sticky={}, per_phone=limit, per_proxy=limit)
    back = [each for each in sessions if found[each.id] is not PHONE_FULL]
    phones = Counter({"a": there}) + Counter(each.phone for each in back if each.phone)
    # Of sessions without a phone each is on its own proxy.
    alone = [each.proxy for each in back if each.proxy and not each.phone and found[each.id] is RESTORED]
    slots = Counter(proxies) + Counter(alone)
    assert list(found) == [each.id for each in sessions]
    assert all(count <= max(limit, there) for count in phones.values())
    assert all(count <= max(limit, there) for count in slots.values())
