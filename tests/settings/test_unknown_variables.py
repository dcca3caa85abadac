"""Unknown variables: reported with the setting that was meant; a shell's own variables are ignored; no value appears."""

from pathlib import Path

import pytest

from tests.settings.environment import read
from wa_orchestrator.settings import unknown_variables


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MAX_SESSION_PER_PROXY", "MAX_SESSIONS_PER_PROXY"),
        ("TELEGRAM_TOKEN", "TELEGRAM_BOT_TOKEN"),
        ("PROXY_URL", "PROXY_URL_1"),
        ("PROXY_URL1", "PROXY_URL_1"),
        ("REDIS_URI", "REDIS_URL"),
        ("API_KEYFILE", "API_KEY_FILE"),
        ("PROXY_URLS", "PROXY_URL_1"),
    ],
)
def test_a_misspelled_name_is_reported_in_the_file_and_in_the_environment(
    tmp_path: Path, name: str, meant: str
) -> None:
    (tmp_path / ".env").write_text(f"{name}=canary\n")
    for given in (read({}, tmp_path / ".env"), read({name: "canary"})):
        (found,) = given.unknown
        assert (found.name, found.meant) == (name, meant)
        assert "canary" not in found.text


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "PS1", "EDITOR", "XDG_DATA_DIRS", "TIME_STYLE", "DOCKER_HOST", "REDIS_HOST",
     "MAX_JOBS", "http_proxy", "NO_PROXY", "DATABASE_URL", "API_URL", "LOG_DIR", "WA_URL", "WA_API_KEY", "PORT"],
)  # fmt: skip
def test_variables_of_other_programs_are_ignored(name: str) -> None:
    assert read({name: "x"}).unknown == ()


def test_every_unknown_name_in_the_file_is_reported_except_those_of_compose(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SOMETHING_ELSE=1\nCOMPOSE_PROJECT_NAME=x\nWA_PREFIX=other\nQUEUE_LIMIT=3\n")
    (found,) = read({}, tmp_path / ".env").unknown
    assert (found.name, found.meant) == ("SOMETHING_ELSE", None)


@pytest.mark.parametrize(
    "line",
    [
        "wao_canary0123456789",
        "canary secret=1",
        "'canary-0'=x",
        "MfKQcanaryGKYqrTwjUPD8ILPZIo2LaLaSw=",
        "CANARY0123456789ABCDEF=",
    ],
)
def test_a_line_without_a_name_may_be_a_secret_and_is_not_repeated(tmp_path: Path, line: str) -> None:
    (tmp_path / ".env").write_text(f"{line}\n")
    for found in read({}, tmp_path / ".env").unknown:
        assert "canary" not in found.text.lower()


def test_a_line_without_a_value_is_reported_and_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("API_KEY\n")
    source = read({}, tmp_path / ".env")
    assert [each.name for each in source.unknown] == ["A line that is not NAME=value"]
    assert ("api_key" in source(), source.origin("api_key")) == (False, None)


def test_a_name_in_both_places_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("REDIS_URI=a\n")
    assert [each.where for each in read({"REDIS_URI": "b"}, tmp_path / ".env").unknown] == [str(tmp_path / ".env")]


@pytest.mark.parametrize("name", sorted(unknown_variables.NOT_IN_THIS_VERSION))
def test_a_setting_that_this_version_does_not_have_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / ".env").write_text(f"{name}=canary\n")
    for given in (read({}, tmp_path / ".env"), read({name: "canary"})):
        (found,) = given.unknown
        assert found.text.startswith(f"{name} (")
        assert "this version does not have this setting" in found.text
        assert "canary" not in found.text
