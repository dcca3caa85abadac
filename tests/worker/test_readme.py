"""The worker's page has every setting, exit code, command and refusal of its source: another worker is written by it."""

import re
from pathlib import Path

import pytest

WORKER = Path(__file__).parents[2] / "worker"


def found(pattern: str, files: str) -> list[str]:
    """What a pattern finds in files of the worker's source."""
    texts = [path.read_text("utf-8") for path in (WORKER / "src").glob(files)]
    return sorted({name for text in texts for name in re.findall(pattern, text)})


@pytest.mark.parametrize(
    ("what", "files", "pattern"),
    [
        ("settings", "settings.ts", r"\(env, '([A-Z_\d]+)'"),
        ("exit codes", "exit-codes.ts", r"\n  ([A-Z_]+): \d+,"),
        ("commands", "**/*.ts", r"command\.kind === '([a-z_]+)'"),
        ("commands of groups", "messages/groups.ts", r"\n    ([a-z_]+): async "),
        ("refusals", "**/*.ts", r"new (?:Command|Act|Media)Error\('([A-Z_]+)'\)"),
    ],
)
def test_the_page_of_the_worker_names_each(what: str, files: str, pattern: str) -> None:
    names, page = found(pattern, files), (WORKER / "README.md").read_text("utf-8")
    assert len(names) > 10, f"the source has its {what} in another form now"
    assert [name for name in names if f"`{name}" not in page] == []
