"""The run of troubles (`make trouble`) takes a picture of every page that there is."""

import re
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from tests.dashboard import trouble_pages
from wa_orchestrator.dashboard.app import PAGES


class Api:
    """An API with one conversation and one link."""

    def get(self, _path: str) -> Any:
        return SimpleNamespace(json=lambda: {"conversations": [{"sessionId": "s0", "conversationId": "c"}]})

    def post(self, _path: str) -> Any:
        return SimpleNamespace(is_success=True, json=lambda: {"link": "https://wa.example.com/l/token"})


def test_every_page_of_the_dashboard_is_looked_at_in_trouble() -> None:
    stage: Any = SimpleNamespace(
        others=[f"s{number}" for number in range(7)],
        on_dying_proxy=[f"s{number}" for number in range(7, 11)],
        groups={},
        opted_out="972501234567",
        campaign="c_1",
        product=SimpleNamespace(api=Api()),
    )
    taken = trouble_pages.pages(stage)
    addresses = [urlsplit(path).path for path in taken.values()]
    patterns = {path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in PAGES}
    assert [path for path, known in patterns.items() if not any(map(known.fullmatch, addresses))] == []
    assert taken.keys() >= trouble_pages.COMPLETE_LAST
