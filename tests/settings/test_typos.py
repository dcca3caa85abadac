"""Misspelled settings: told with the name that was meant; a shell's own variables are left alone; no value is told."""

from pathlib import Path

import pytest

from wa_orchestrator.settings import read


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
def test_a_misspelled_name_is_told_wherever_it_stands(tmp_path: Path, name: str, meant: str) -> None:
    (tmp_path / ".env").write_text(f"{name}=canary\n")
    for given in (read({}, tmp_path / ".env"), read({name: "canary"}, None)):
        (told,) = given.unread
        assert (told.name, told.meant) == (name, meant)
        assert "canary" not in told.text


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "PS1", "EDITOR", "XDG_DATA_DIRS", "TIME_STYLE", "DOCKER_HOST", "REDIS_HOST",
     "MAX_JOBS", "http_proxy", "NO_PROXY", "DATABASE_URL", "API_URL", "LOG_DIR", "WA_URL", "WA_API_KEY", "PORT"],
)  # fmt: skip
def test_a_shells_own_variables_are_left_alone(name: str) -> None:
    assert read({name: "x"}, None).unread == ()


def test_in_env_also_what_looks_like_nothing_is_told_but_compose_may_have_its_own(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SOMETHING_ELSE=1\nCOMPOSE_PROJECT_NAME=x\nWA_DATA_DIR=/srv/wa\nMAX_BACKUPS=3\n")
    (told,) = read({}, tmp_path / ".env").unread
    assert (told.name, told.meant) == ("SOMETHING_ELSE", None)


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
    for told in read({}, tmp_path / ".env").unread:
        assert "canary" not in told.text.lower()


def test_what_env_says_too_is_told_once(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("REDIS_URI=a\n")
    assert [each.where for each in read({"REDIS_URI": "b"}, tmp_path / ".env").unread] == [str(tmp_path / ".env")]
