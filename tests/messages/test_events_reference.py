"""`docs/events.md` and the alert texts follow the catalogue of events."""

from pathlib import Path

from wa_orchestrator.domain.stream_events import ALERTS
from wa_orchestrator.orchestrator.api.events import reference
from wa_orchestrator.orchestrator.notifications import alert_texts
from wa_orchestrator.orchestrator.notifications.alert_texts import Alert
from wa_orchestrator.texts.catalogue import languages


def test_the_page_of_events_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "events.md"
    assert page.read_text("utf-8") == reference.render(), (
        "run: python -m wa_orchestrator.orchestrator.api.events.reference > docs/events.md"
    )


def test_every_alert_has_a_title_in_every_language() -> None:
    for kind in ALERTS:
        lines = {alert_texts.text_of([Alert(kind, "", "", 0)], language) for language in languages()}
        assert len(lines) == len(languages())
        assert all(line.startswith(f"{kind.alert_emoji} ") for line in lines)


def test_an_alert_that_another_version_queued_is_delivered() -> None:
    assert alert_texts.text_of([Alert("moon.rose", "", "", 0)], "en") == "moon.rose"
