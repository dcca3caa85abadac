"""Tags of a session."""

import pytest

from wa_orchestrator.domain.sessions.tags import normalized


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([], ()),
        (["haifa", "vip"], ("haifa", "vip")),
        ([" haifa ", "haifa", "", "  "], ("haifa",)),
        (["tel   aviv"], ("tel aviv",)),
    ],
)
def test_a_tag_is_kept_once_and_without_spaces_around_it(given: list[str], kept: tuple[str, ...]) -> None:
    assert normalized(given) == kept
