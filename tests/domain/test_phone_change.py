"""A session gets another phone only where the server knows more than its worker's word."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.sessions.phone_change import LinkFacts, PhoneVerdict, judge

OWN, OTHER = "972501234567", "972507654321"
NEW = LinkFacts(
    phone="", is_linked=False, has_code=False, named_phone="", awaits_person=False, others=0, bound_elsewhere=False
)
SCANNED = replace(NEW, has_code=True)
LINKED = replace(NEW, phone=OWN, is_linked=True)


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        (SCANNED, PhoneVerdict.ACCEPTED),
        (replace(SCANNED, bound_elsewhere=True), PhoneVerdict.ACCEPTED),
        (replace(SCANNED, phone=OWN), PhoneVerdict.ACCEPTED),  # logged out, and linked to another phone
        (replace(SCANNED, others=1), PhoneVerdict.CHANGED),
        (replace(SCANNED, others=1, phone=OTHER), PhoneVerdict.ACCEPTED),  # provisioned for it
        (replace(SCANNED, others=1, named_phone=OTHER), PhoneVerdict.ACCEPTED),  # a person said so
        (NEW, PhoneVerdict.ACCEPTED),  # imported credentials
        (replace(NEW, bound_elsewhere=True), PhoneVerdict.CHANGED),
        (replace(NEW, others=1), PhoneVerdict.CHANGED),
        (replace(NEW, phone=OWN), PhoneVerdict.CHANGED),  # logged out, and nobody saw a code
        (LINKED, PhoneVerdict.CHANGED),
        (replace(LINKED, has_code=True), PhoneVerdict.CHANGED),
        (replace(LINKED, phone=OTHER), PhoneVerdict.ACCEPTED),  # the same as before
        (replace(LINKED, named_phone=OTHER), PhoneVerdict.ACCEPTED),
        (replace(LINKED, phone=OTHER, awaits_person=True), PhoneVerdict.IGNORED),
    ],
)
def test_the_verdict(facts: LinkFacts, verdict: PhoneVerdict) -> None:
    assert judge(OTHER, facts) is verdict


phones = st.sampled_from(["", OWN, OTHER])
facts_of = st.builds(
    LinkFacts, phones, st.booleans(), st.booleans(), phones, st.booleans(), st.integers(0, 3), st.booleans()
)


@given(facts_of)
def test_nobody_gets_the_phone_of_another_session_that_a_person_did_not_name(facts: LinkFacts) -> None:
    if facts.others and OTHER not in (facts.phone, facts.named_phone):
        assert judge(OTHER, facts) is not PhoneVerdict.ACCEPTED


@given(facts_of)
def test_no_linked_session_changes_its_phone_by_itself(facts: LinkFacts) -> None:
    if facts.is_linked and judge(OTHER, facts) is PhoneVerdict.ACCEPTED:
        assert OTHER in (facts.phone, facts.named_phone)
