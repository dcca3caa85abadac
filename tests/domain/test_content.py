"""A content survives encoding, and an unknown or incomplete one is not decoded."""

import pytest

from wa_orchestrator.domain import content
from wa_orchestrator.domain.content import Location, Media, MediaKind, Text

PICTURE = Media(MediaKind.IMAGE, "image/png", url="https://files.example.com/a.png")
PLACE = Location(32.08, 34.78, name="Tel Aviv")


@pytest.mark.parametrize(
    "sent", [Text("שלום"), PICTURE, PLACE, Media(MediaKind.VIDEO, "video/mp4", upload="u", caption="c")]
)
def test_a_content_survives_encoding(sent: content.Content) -> None:
    assert content.decode(content.encode(sent)) == sent


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"kind": "text"},
        {"kind": "sticker", "media": {"mimetype": "a/b"}},
        {"kind": "image"},
        {"kind": "image", "media": None},
        {"kind": "location", "location": {"latitude": "x", "longitude": 1}},
    ],
)
def test_an_unknown_or_incomplete_content_is_not_decoded(raw: dict[str, object]) -> None:
    with pytest.raises(content.BadContent):
        content.decode(raw)
