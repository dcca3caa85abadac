"""The picture of the pace shows the limits that are in force."""

from xml.etree import ElementTree

from scripts import pace_picture
from wa_orchestrator.domain.pacing.limits import MINUTE_MS, PRESETS, Preset, Trust


def test_the_picture_of_the_pace_is_up_to_date() -> None:
    assert pace_picture.PICTURE.read_text("utf-8") == pace_picture.render(), "run: python -m scripts.pace_picture"


def test_it_shows_every_message_of_the_queue_and_no_minute_with_too_many() -> None:
    drawn = [each.get("class") for each in ElementTree.fromstring(pace_picture.render())]  # our own
    for trust, pace in PRESETS[Preset.STANDARD].items():
        leave_ms = pace_picture.leave_ms(pace)
        assert drawn.count(trust) == len(leave_ms)
        for number, at_ms in enumerate(leave_ms[pace.per_minute :]):
            assert at_ms - leave_ms[number] >= MINUTE_MS
    assert drawn.count(Trust.COLD) == PRESETS[Preset.STANDARD][Trust.COLD].per_day
