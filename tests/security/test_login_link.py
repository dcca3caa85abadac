"""The one-time link of a start: printed to a terminal only, because files and journals have other readers."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from redis.asyncio import Redis

from wa_orchestrator.context import Context
from wa_orchestrator.server import bootstrap
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.scripts import Scripts


class _Output(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
async def test_a_start_prints_a_login_link_to_a_terminal_and_into_nothing_else(
    redis: Redis, scripts: Scripts, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    shown = _Output(terminal)
    monkeypatch.setattr("sys.stdout", shown)
    server: Any = SimpleNamespace(context=Context(Settings(), redis, scripts))
    await bootstrap._print_banner(server, "")
    assert ("/enter#" in shown.getvalue()) is terminal
    assert bool(await redis.keys("*link*")) is terminal
