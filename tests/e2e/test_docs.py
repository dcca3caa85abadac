"""The documents name files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "wa_orchestrator"
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), ROOT / "worker" / "README.md"])
_FILE = re.compile(r"`([\w./-]+\.(?:py|ts|mjs|lua|toml|md))`")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_HOMES = (
    ROOT,
    PACKAGE,
    PACKAGE / "store",
    PACKAGE / "store" / "lua",
    ROOT / "worker",
    ROOT / "worker" / "src",
    ROOT / "worker" / "test",
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {name for name in _FILE.findall(text) if not any((home / name).exists() for home in (*_HOMES, page.parent))}
    linked = {name for name in _LINK.findall(text) if not (page.parent / name).exists()}
    assert (named, linked) == (set(), set())
