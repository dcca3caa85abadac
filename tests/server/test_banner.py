"""The banner: a link that can be followed, commands that can be typed, no secrets."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from wa_orchestrator.server import banner
from wa_orchestrator.settings import Settings


@pytest.mark.parametrize(
    ("program", "directory", "line"),
    [
        (".venv/bin/wa-orchestrator", "data", ".venv/bin/wa-orchestrator secrets"),
        (".venv/bin/wa-orchestrator", ".cache/demo", ".venv/bin/wa-orchestrator secrets --data-dir .cache/demo"),
        ("/usr/local/bin/wa-orchestrator", "data", "wa-orchestrator secrets"),
        ("wa-orchestrator", "/srv/two words", "wa-orchestrator secrets --data-dir '/srv/two words'"),
        ("-c", "data", "wa-orchestrator secrets"),
    ],
)
def test_a_command_can_be_typed_where_the_server_was_started(program: str, directory: str, line: str) -> None:
    here = Path("/home/dana/wa")
    assert banner.command_line("secrets", here / directory, program, here) == line


def test_the_banner_has_the_link_on_a_line_of_its_own_and_no_secret() -> None:
    settings = Settings(api_key=SecretStr("canary-kZ8-vQ2_mN5xR7p"), bind_host="0.0.0.0")
    shown = banner.render(settings, "http://127.0.0.1:3001/enter#x", world={"control": "http://127.0.0.1:9"})
    assert "http://127.0.0.1:3001/enter#x" in [line.strip() for line in shown.splitlines()]
    assert "is ready: http://127.0.0.1:3001\n" in shown
    assert "canary" not in shown


def test_where_the_output_is_kept_the_banner_names_the_command_instead_of_a_link() -> None:
    shown = banner.render(Settings(data_dir=Path.cwd() / "data"), None)
    assert "wa-orchestrator login-link" in [line.strip() for line in shown.splitlines()]
    assert "/enter" not in shown
