"""Which driver the settings choose, and what is refused before one is opened."""

import uuid
from pathlib import Path

import pytest
from pydantic import SecretStr

from wa_orchestrator.errors import BadSettings
from wa_orchestrator.runner.factory import runner_for
from wa_orchestrator.settings import Settings


def settings(home: Path, **changes: object) -> Settings:
    secrets = {
        "api_key": SecretStr(uuid.uuid4().hex),
        "webhook_secret": SecretStr("whsec_" + "A" * 43 + "="),
    }
    whole = {"data_dir": home, "dashboard_password": SecretStr(uuid.uuid4().hex), **secrets, **changes}
    return Settings.model_validate(whole)


@pytest.mark.parametrize("runner", ["swarm", "kubernetes"])
async def test_workers_without_a_disk_need_a_server_that_keeps_their_credentials(runner: str, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="CREDENTIALS=server"):
        async with runner_for(settings(tmp_path, runner=runner)):
            pytest.fail("it was opened")


@pytest.mark.parametrize("runner", ["docker", "swarm", "kubernetes"])
async def test_workers_in_containers_never_connect_directly(runner: str, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="ALLOW_DIRECT"):
        async with runner_for(settings(tmp_path, runner=runner, allow_direct=True)):
            pytest.fail("it was opened")
