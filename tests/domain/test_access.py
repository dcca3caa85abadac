"""What callers reach, and which routes are open to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.access import permissions
from wa_orchestrator.domain.access.permissions import (
    EVERYTHING,
    SCOPES,
    AccessVerdict,
    Only,
    Role,
    RouteSpan,
    Scope,
    may_overrule,
    reach_of,
)

NAMES = st.frozensets(st.sampled_from(["a", "b", "c", ""]))


def test_a_reach_without_names_is_not_limited() -> None:
    assert reach_of([], []) == EVERYTHING
    assert EVERYTHING.includes("", ())


@pytest.mark.parametrize(
    ("session", "labels", "included"),
    [("w1", ["x"], True), ("w2", ["support"], True), ("w2", ["x", "support"], True), ("w2", ["x"], False),
     ("", ["support"], False), ("", [], False)],
)  # fmt: skip
def test_a_limited_reach_includes_its_sessions_and_labels(session: str, labels: list[str], included: bool) -> None:
    assert reach_of(["w1"], ["support"]).includes(session, labels) is included


@given(sessions=NAMES, labels=NAMES, session=st.sampled_from(["a", "d", ""]), has=NAMES)
def test_a_limited_reach_never_includes_what_it_does_not_name(
    sessions: frozenset[str], labels: frozenset[str], session: str, has: frozenset[str]
) -> None:
    if Only(sessions, labels).includes(session, has):
        assert session
        assert session in sessions or labels & has


@pytest.mark.parametrize("needed", Scope)
@pytest.mark.parametrize("span", RouteSpan)
def test_admin_includes_every_scope(needed: Scope, span: RouteSpan) -> None:
    assert permissions.decide({Scope.ADMIN}, EVERYTHING, needed, span) is AccessVerdict.ALLOWED


@given(scopes=st.frozensets(st.sampled_from(Scope)), needed=st.sampled_from(Scope), span=st.sampled_from(RouteSpan))
def test_a_limited_caller_never_uses_a_route_about_the_fleet(
    scopes: frozenset[Scope], needed: Scope, span: RouteSpan
) -> None:
    verdict = permissions.decide(scopes, Only(frozenset({"w1"})), needed, span)
    if verdict is AccessVerdict.ALLOWED:
        assert span is RouteSpan.SESSIONS
        assert needed in scopes or Scope.ADMIN in scopes
    assert (verdict is AccessVerdict.SCOPE_MISSING) is (needed not in scopes and Scope.ADMIN not in scopes)


def test_an_administrator_cannot_be_limited() -> None:
    assert permissions.is_grantable([Scope.ADMIN], EVERYTHING)
    assert permissions.is_grantable([Scope.OPERATE], Only(frozenset({"w1"})))
    assert not permissions.is_grantable([Scope.SEND, Scope.ADMIN], Only(frozenset({"w1"})))


def test_a_viewer_only_reads() -> None:
    assert SCOPES[Role.VIEWER] == {Scope.READ}
    assert Scope.ADMIN not in SCOPES[Role.OPERATOR]


@given(sessions=NAMES, labels=NAMES, mine=NAMES, ours=NAMES, other=st.sampled_from(["a", "b", "d"]), has=NAMES)
def test_who_overrules_somebody_reaches_whatever_they_reach(
    sessions: frozenset[str],
    labels: frozenset[str],
    mine: frozenset[str],
    ours: frozenset[str],
    other: str,
    has: frozenset[str],
) -> None:
    me, they = Only(mine, ours), Only(sessions, labels)
    if may_overrule(me, they, "held") and they.includes(other, has):
        assert me.includes(other, has)
    assert may_overrule(EVERYTHING, they, "held")
    assert not may_overrule(me, EVERYTHING, "held")
    assert may_overrule(me, Only(frozenset({"held"})), "held")
