"""A content survives encoding, and an unknown or incomplete one is not decoded."""

import pytest

from wa_orchestrator.domain.messages import content
from wa_orchestrator.domain.messages.content import (
    Accompaniment,
    ContactCards,
    LinkPreview,
    Location,
    Media,
    MediaKind,
    PollQuestion,
    Text,
)
from wa_orchestrator.domain.messages.incoming import Card, Mention, Poll, Quote

PICTURE = Media(MediaKind.IMAGE, "image/png", url="https://files.example.com/a.png")
PLACE = Location(32.08, 34.78, name="Tel Aviv")


@pytest.mark.parametrize(
    "sent",
    [
        Text("שלום"),
        Text("See https://example.com", LinkPreview("https://example.com", "Spring", "What is new", "/9j/")),
        Text("See https://example.com", LinkPreview("https://example.com", "Spring")),
        PICTURE,
        PLACE,
        Media(MediaKind.VIDEO, "video/mp4", upload="u", caption="c"),
        Media(MediaKind.VOICE, "audio/ogg", upload="u", view_once=True),
        ContactCards((Card("Dana", ("972501234567",)), Card("Avi"))),
        PollQuestion("When?", Poll(("Monday", "Sunday"), 1)),
    ],
)
def test_a_content_survives_encoding(sent: content.Content) -> None:
    assert content.decode(content.encode(sent)) == sent


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"kind": "text"},
        {"kind": "hologram", "media": {"mimetype": "a/b"}},
        {"kind": "image"},
        {"kind": "image", "media": None},
        {"kind": "contacts", "contacts": ["Dana"]},
        {"kind": "poll", "text": "When?"},
        {"kind": "location", "location": {"latitude": "x", "longitude": 1}},
    ],
)
def test_an_unknown_or_incomplete_content_is_not_decoded(raw: dict[str, object]) -> None:
    with pytest.raises(content.BadContent):
        content.decode(raw)


@pytest.mark.parametrize(
    "beside",
    [
        Accompaniment(),
        Accompaniment(Quote("3EB0AA", from_me=True)),
        Accompaniment(
            Quote("3A", None, "972501234567", "123456", "text", "Ready?"), (Mention("972501"), Mention(lid="1"))
        ),
    ],
)
def test_what_accompanies_a_content_survives_encoding(beside: Accompaniment) -> None:
    encoded = content.encode(Text("x"), beside)
    assert content.decode_accompaniment(encoded) == beside
    assert content.decode(encoded) == Text("x")


@pytest.mark.parametrize("raw", [{"replyTo": {"text": "no id"}}, {"replyTo": "3EB0"}, {"mentions": [1]}])
def test_an_incomplete_reply_or_mention_is_not_decoded(raw: dict[str, object]) -> None:
    with pytest.raises(content.BadContent):
        content.decode_accompaniment(raw)
