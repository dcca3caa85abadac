"""A language that the product does not ship, made of one file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from wa_orchestrator.texts import catalogue

TEXTS = """
[language]
name = "tlhIngan Hol"
direction = "ltr"
[session_reason]
BANNED = "Heghpu'."
[alert]
session.failed = "luj"
[login]
title = "yI'el"
"""


@pytest.fixture
def klingon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The code of a third language that has some of the texts."""
    for path in catalogue.FOLDER.glob("*.toml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "tlh.toml").write_text(TEXTS, "utf-8")
    monkeypatch.setattr(catalogue, "FOLDER", tmp_path)
    catalogue.languages.cache_clear()
    yield "tlh"
    catalogue.languages.cache_clear()
