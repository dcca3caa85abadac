"""The page of codes says what the texts say."""

from pathlib import Path

from wa_orchestrator.texts import reference


def test_the_page_of_codes_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "codes.md"
    assert page.read_text("utf-8") == reference.render(), (
        "run: python -m wa_orchestrator.texts.reference > docs/codes.md"
    )
