"""What pages say on the first day, when nothing has happened yet: no more than is known."""

import re
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.dashboard.sample_fleet import FleetBuilder
from tests.dashboard.test_attention import page_of
from wa_orchestrator import dashboard
from wa_orchestrator.dashboard.pages import anti_ban, backups, messages, radar
from wa_orchestrator.store.engine.scripts import Scripts


@pytest.mark.parametrize(
    ("page", "said", "unsaid"),
    [
        (radar, "No unknown protocol parts on record", "for 30 days</h2>"),  # it may run since a minute
        (backups, "No backup yet;", "0 backups"),
        (backups, "<code>BACKUP_COPY_DIR</code> or <code>BACKUP_S3_URL</code>.", "Encrypted for"),
        (anti_ban, "Nobody has opted out.", '<ul class="list"></ul>'),
        (messages, "message id or text", "reference or message id"),
    ],
)
async def test_a_page_without_anything_to_show_says_only_what_is_known(
    redis: Redis, scripts: Scripts, page: Any, said: str, unsaid: str
) -> None:
    builder = FleetBuilder(scripts)
    await builder.connected("w1", "Clinic", "972500000001", [await builder.proxy(1)])
    html = await page_of(redis, page, {})
    assert said in html
    assert unsaid not in html


def test_every_custom_property_that_a_style_sheet_uses_is_defined() -> None:
    """A property that is not defined makes its whole declaration void: the inbox had no small type."""
    room = Path(dashboard.__file__).parent
    sheets = " ".join(each.read_text("utf-8") for each in (room / "static").glob("*.css"))
    inline = " ".join(each.read_text("utf-8") for each in (room / "templates").glob("*.html"))
    used, defined = set(re.findall(r"var\((--[\w-]+)", sheets)), set(re.findall(r"(--[\w-]+)\s*:", sheets + inline))
    assert used - defined == set()


def test_the_newest_quarter_of_an_hour_is_not_under_a_gap_of_its_strip() -> None:
    """In a narrow strip a quarter of an hour is as wide as the gap: it is at the beginning of a beat, not at its end."""
    css = (Path(dashboard.__file__).parent / "static" / "app.css").read_text("utf-8")
    [mask] = re.findall(r"\.strip \{[^}]*mask: repeating-linear-gradient\(90deg, ([^;]*)\);", css)
    assert mask.startswith("#0000 0 1px, #000 0")
