"""The page of conformance: complete, up to date, and it names nothing that does not exist."""

from pathlib import Path

import pytest

from scripts import conformance


def test_the_page_of_conformance_is_up_to_date() -> None:
    assert conformance.PAGE.read_text("utf-8") == conformance.render(), "run: python -m scripts.conformance"


def test_every_line_of_the_documents_is_there_once_and_names_only_what_exists() -> None:
    assert list(conformance.problems(conformance.lines()[1])) == []


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"where": ("store/nowhere.lua",)}, "there is no store/nowhere.lua"),
        ({"where": ("NO_SUCH_SETTING",)}, "there is no NO_SUCH_SETTING"),
        ({"tests": ("tests/e2e/test_docs.py::test_of_nothing",)}, "there is no test tests/e2e/test_docs.py::test_of_nothing"),
        ({"tests": ("tests/e2e/test_docs.py::PAGES",)}, "there is no test tests/e2e/test_docs.py::PAGES"),
        ({"tests": ("worker/test/settings.test.ts::no such",)}, "there is no test worker/test/settings.test.ts::no such"),
        ({"where": ()}, "does not say where"),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_named(entry: dict[str, tuple[str, ...]], problem: str) -> None:
    line = conformance.Line("O-001", "something", entry.get("where", ("store/keys.py",)), entry.get("tests", ()))
    assert f"O-001: {problem}" in list(conformance.problems([line]))


def test_a_line_that_is_missing_or_there_twice_is_noticed(tmp_path: Path) -> None:
    _, found = conformance.lines()
    (problem,) = conformance.problems([line for line in found if line.id != "O-100"])
    assert "O-100" in problem
    twice = tmp_path / "twice.toml"
    twice.write_text(conformance.INVENTORY.read_text("utf-8") + '\n[O-100]\nasks = "again"\n', "utf-8")
    with pytest.raises(ValueError, match="O-100"):
        conformance.lines(twice)
