"""The fault campaign names tests that exist and leaves no invariant out; its report counts what failed."""

from pathlib import Path

from tests import chaos

REPORT = """<testsuites><testsuite>
<testcase classname="tests.e2e.test_ledger" name="a"><properties><property name="kills" value="24"/></properties></testcase>
<testcase classname="tests.messages.test_ledger" name="b"><properties><property name="kills" value="7"/></properties>
<failure message="lost"/></testcase>
<testcase classname="tests.worker.test_units" name="c"/>
</testsuite></testsuites>"""


def test_every_invariant_is_tried_by_a_test_that_exists() -> None:
    assert [part.test for part in chaos.CAMPAIGN if not (chaos.ROOT / part.test).is_file()] == []
    judged = {invariant for part in chaos.CAMPAIGN for invariant in part.judges}
    assert judged == set(range(1, chaos.INVARIANTS + 1))


def test_kills_are_added_up_and_a_failed_test_violates_its_invariants(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT, "utf-8")
    found = chaos.tallies(report, chaos.CAMPAIGN)
    assert (found[1].failed, found[1].tests, found[1].figures) == (1, 2, {"kills": 31})
    assert (found[10].failed, found[10].figures) == (1, {"kills": 7})
    assert 17 not in found
    assert next(chaos.lines(found)) == "I1   1 violated   2 tests   31 kills"
