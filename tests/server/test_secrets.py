"""Generated secrets: once, complete, and for the owner only."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.settings.environment import load
from wa_orchestrator.errors import BadSettings
from wa_orchestrator.server import secrets
from wa_orchestrator.settings import GENERATED, Settings


def values(settings: Settings) -> dict[str, str]:
    return {name: getattr(settings, name).get_secret_value() for name in GENERATED}


def test_missing_secrets_are_generated_once_and_pass_validation(tmp_path: Path) -> None:
    first, made = secrets.ensure(Settings(data_dir=tmp_path / "new"))
    again, made_again = secrets.ensure(Settings(data_dir=tmp_path / "new"))
    assert made == GENERATED
    assert made_again == ()
    assert values(again) == values(first)
    assert len(set(values(first).values())) == len(GENERATED)
    load({name.upper(): value for name, value in values(first).items()})


def test_only_the_owner_can_read_them_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    secrets.ensure(Settings(data_dir=tmp_path / "new"))
    (file,) = (tmp_path / "new").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_secret_that_was_set_is_neither_replaced_nor_stored(tmp_path: Path) -> None:
    given = SecretStr("kZ8-vQ2_mN5xR7pL0wJ4")
    settings, made = secrets.ensure(Settings(data_dir=tmp_path, api_key=given))
    assert settings.api_key == given
    assert "api_key" not in made
    assert given.get_secret_value() not in (tmp_path / "secrets.json").read_text()

    # The operator stops giving it: one is made then, and the others stay.
    later, made_later = secrets.ensure(Settings(data_dir=tmp_path))
    assert made_later == ("api_key",)
    assert later.webhook_secret == settings.webhook_secret


def test_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: values(secrets.ensure(Settings(data_dir=tmp_path))[0]), range(16)))
    assert all(each == made[0] for each in made)


def test_a_damaged_file_is_refused_and_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text("{")
    with pytest.raises(BadSettings, match=r"secrets\.json"):
        secrets.ensure(Settings(data_dir=tmp_path))
    assert (tmp_path / "secrets.json").read_text() == "{"
