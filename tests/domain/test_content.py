"""What a message may contain: all problems at once, and a content survives encoding."""

import pytest

from wa_orchestrator.domain import content
from wa_orchestrator.domain.content import Location, Media, MediaKind, Text

PICTURE = Media(MediaKind.IMAGE, "image/png", url="https://files.example.com/a.png")
PLACE = Location(32.08, 34.78, name="Tel Aviv")


@pytest.mark.parametrize(
    ("sent", "paths"),
    [
        (Text("x"), []),
        (Text("x" * 4096), []),
        (Text(""), ["message"]),
        (Text(" \n"), ["message"]),
        (Text("x" * 4097), ["message"]),
        (PICTURE, []),
        (Media(MediaKind.DOCUMENT, "application/pdf", upload="u1", filename="a.pdf", caption="hi"), []),
        (Media(MediaKind.IMAGE, "image/png"), ["media"]),
        (Media(MediaKind.IMAGE, "image/png", url="https://a.example.com", upload="u1"), ["media"]),
        (
            Media(MediaKind.AUDIO, "png", filename="", caption="x" * 1025),
            ["media", "media.mimetype", "media.filename", "media.caption"],
        ),
        (PLACE, []),
        (Location(91, -181, name="x" * 256), ["location.latitude", "location.longitude", "location.name"]),
    ],
)
def test_all_problems_of_a_content_are_told_at_once(sent: content.Content, paths: list[str]) -> None:
    assert [problem.path for problem in content.problems(sent)] == paths


@pytest.mark.parametrize(
    "sent", [Text("שלום"), PICTURE, PLACE, Media(MediaKind.VIDEO, "video/mp4", upload="u", caption="c")]
)
def test_a_content_survives_being_written_and_read(sent: content.Content) -> None:
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
def test_what_is_no_content_is_not_read_as_one(raw: dict[str, object]) -> None:
    with pytest.raises(content.BadContent):
        content.decode(raw)
