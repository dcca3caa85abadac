"""Settings: their sources, and the messages about wrong ones."""

import re
from datetime import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import wa_orchestrator
from tests.settings.environment import load
from wa_orchestrator import settings as settings_package
from wa_orchestrator.domain.pacing.limits import PRESETS, Preset, Trust
from wa_orchestrator.errors import BadSettings
from wa_orchestrator.settings import Settings, reference, types

GOOD_SECRET = "kZ8-vQ2_mN5xR7pL0wJ4"


def problems(**variables: str) -> tuple[str, ...]:
    with pytest.raises(BadSettings) as bad:
        load(variables)
    return bad.value.problems


def test_nothing_set_is_a_working_installation_for_this_machine_only() -> None:
    settings = load({})
    assert settings.bind_host == "127.0.0.1"
    assert (settings.orch_port, settings.gateway_port) == (3001, 3002)
    assert settings.data_dir == Path.cwd() / "data"
    assert not settings.allow_direct


def test_settings_made_in_code_read_neither_the_environment_nor_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORCH_PORT", "4001")
    (tmp_path / ".env").write_text("GATEWAY_PORT=4002\n")
    monkeypatch.chdir(tmp_path)
    assert (Settings().orch_port, Settings().gateway_port) == (3001, 3002)
    theirs = settings_package.build(settings_package.read())
    assert (theirs.orch_port, theirs.gateway_port) == (4001, 4002)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("ORCH_PORT=1001\nMAX_ATTEMPTS=3\nQUEUE_LIMIT=10\n")
    settings = load({"ORCH_PORT": "2001", "MAX_ATTEMPTS": "4"}, file, orch_port=3004)
    assert (settings.orch_port, settings.max_attempts, settings.queue_limit) == (3004, 4, 10)


@pytest.mark.parametrize(
    "secret",
    [
        "<random-32-chars>",
        "<random-32>",
        "your-secret-api-key-here",
        "changeme",
        "change_me_please_change_me",
        "CHANGE-THIS-TO-A-LONG-RANDOM-STRING",
        "replace-with-32-random-characters",
        "${WEBHOOK_SECRET}",
        "[insert your key here]",
    ],
)
@pytest.mark.parametrize("name", ["API_KEY", "WEBHOOK_SECRET", "DASHBOARD_PASSWORD"])
def test_a_secret_that_nobody_filled_in_stops_the_start_and_says_what_to_do(name: str, secret: str) -> None:
    with pytest.raises(BadSettings) as problem:
        load({name: secret})
    line = str(problem.value)
    assert line.startswith(f"{name}: is a placeholder")
    assert "openssl rand" in line
    assert "remove the line" in line
    assert secret not in line


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("API_KEY", "", "is empty"),
        ("API_KEY", "short", "too short"),
        ("API_KEY", "changeme-changeme-123", "placeholder"),
        ("API_KEY", "aaaaaaaaaaaaaaaaaaaaaaaa", "easy to guess"),
        ("API_KEY", types.EXAMPLE_API_KEY, "easy to guess"),
        ("PROXY_URL_1", "http://user:hunter2hunter2@proxy.example.com:80", "DNS leak"),
        ("PROXY_URL_7", "socks5://proxy.example.com:1080", "DNS leak"),
        ("MAX_SESSIONS_PER_PROXY", "0", "1 or more"),
        ("MAX_SESSIONS_PER_PROXY", "5", "4 or less"),
        ("ORCH_PORT", "http", "a whole number"),
        ("GATEWAY_PORT", "3001", "must differ from ORCH_PORT"),
        ("TIMEZONE", "Mars/Olympus", "unknown time zone"),
        ("TIMEZONE", "", "unknown time zone"),
        ("LANGUAGE", "fr", "'en' or 'he'"),
        ("RUNNER", "podman", "'process', 'docker', 'remote', 'swarm' or 'kubernetes'"),
        ("CLUSTER_NAME", "My Cluster", "lower-case letters"),
        ("REDIS_URL", "http://localhost", "redis://"),
        ("ARCHIVE_URL", "mysql://db.example.com/wa", "postgresql://"),
        ("ARCHIVE_URL", "postgresql://wa@db.example.com", "names no database"),
        ("ARCHIVE_URL", "postgresql://wa:canary%pass@db.example.com/wa", "%25"),
        ("LEASE_MS", "75000", "longer than ACK_TIMEOUT_MS"),
        ("COLD_HOURS", "9-21", "HH:MM-HH:MM"),
        ("HOT_PAUSE_MAX_MS", "1000", "shortest pause"),
        ("TELEGRAM_BOT_TOKEN", "nonsense", "BotFather"),
        ("DATA_DIR", "", "is empty"),
        ("TIME_SCALE", "0", "more than 0"),
    ],
)
def test_a_wrong_value_is_reported_in_one_line_with_its_name_and_an_example(
    variable: str, value: str, problem: str
) -> None:
    (line,) = problems(**{variable: value})
    assert line.startswith(f"{variable}: ")
    assert problem in line
    assert f"Example: {variable}=" in line
    assert "\n" not in line
    assert "hunter2" not in line


def test_all_problems_are_reported_at_once() -> None:
    lines = problems(API_KEY="", PROXY_URL_1="http://x", MAX_SESSIONS_PER_PROXY="0")
    assert [line.split(":")[0] for line in lines] == ["API_KEY", "PROXY_URL_1", "MAX_SESSIONS_PER_PROXY"]


def test_an_incomplete_telegram_configuration_names_the_missing_setting() -> None:
    (line,) = problems(TELEGRAM_CHAT_ID="-100")
    assert line.startswith("TELEGRAM_BOT_TOKEN: is missing")


@pytest.mark.parametrize("chat", ["<chat-id>", "your-chat-id", "@", "12 34"])
def test_a_chat_that_nobody_filled_in_is_refused(chat: str) -> None:
    (line,) = problems(TELEGRAM_BOT_TOKEN=f"123456789:{'A' * 30}", TELEGRAM_CHAT_ID=chat)
    assert line.startswith("TELEGRAM_CHAT_ID: must be the id of a chat")


@pytest.mark.parametrize("chat", ["123456789", "-1001234567890", "@our_alerts"])
def test_a_chat_is_an_id_or_the_name_of_a_channel(chat: str) -> None:
    loaded = load({"TELEGRAM_BOT_TOKEN": f"123456789:{'A' * 30}", "TELEGRAM_CHAT_ID": chat})
    assert loaded.telegram_chat_id == chat


def test_proxies_are_in_the_order_of_their_numbers_with_gaps() -> None:
    urls = {f"PROXY_URL_{n}": f"socks5h://u:p@proxy{n}.example.com:1080" for n in (10, 2, 1, 33)}
    hosts = [url.get_secret_value().split("@")[1] for url in load(urls).proxy_urls]
    assert hosts == [f"proxy{n}.example.com:1080" for n in (1, 2, 10, 33)]


def test_the_same_proxy_twice_is_refused_however_it_is_spelled() -> None:
    (line,) = problems(
        PROXY_URL_1="socks5h://u:p@PROXY.example.com:1080", PROXY_URL_4="socks5h://u:p@proxy.example.com"
    )
    assert line.startswith("PROXY_URL_4: is the same as PROXY_URL_1")


def test_a_secret_is_read_from_a_file_without_its_trailing_newline(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{GOOD_SECRET}\n")
    (tmp_path / "proxy").write_text("socks5h://u:p@proxy.example.com:1080\n")
    settings = load({"API_KEY_FILE": str(tmp_path / "key"), "PROXY_URL_1_FILE": str(tmp_path / "proxy")})
    assert settings.api_key.get_secret_value() == GOOD_SECRET
    assert len(settings.proxy_urls) == 1


def test_a_secret_set_twice_or_unreadable_is_refused(tmp_path: Path) -> None:
    (twice,) = problems(API_KEY=GOOD_SECRET, API_KEY_FILE=str(tmp_path))
    assert "API_KEY is set too" in twice
    (unreadable,) = problems(API_KEY_FILE=str(tmp_path / "missing"))
    assert unreadable.startswith("API_KEY_FILE: the file cannot be read (No such file or directory). Example: ")


def test_a_secret_instead_of_its_path_is_not_repeated() -> None:
    for name, secret in {
        "PROXY_URL_1_FILE": "socks5h://u:canary@proxy.example.com:1",
        "API_KEY_FILE": "canary",
    }.items():
        (problem,) = problems(**{name: secret})
        assert problem.startswith(name)
        assert "canary" not in problem


def test_an_env_file_that_is_not_utf8_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"API_KEY=\xff\xfe\n")
    with pytest.raises(BadSettings) as bad:
        load({}, tmp_path / ".env")
    assert bad.value.problems[0].startswith(f"{tmp_path}/.env: is not UTF-8 text")


def test_secrets_do_not_show_when_settings_are_printed() -> None:
    settings = load(
        {
            "API_KEY": GOOD_SECRET,
            "PROXY_URL_1": "socks5h://u:canarypass@proxy.example.com:1",
            "REDIS_URL": "redis://:canarypass@h",
            "ARCHIVE_URL": "postgresql://wa:canarypass@h/wa",
        }
    )
    assert "canarypass" not in repr(settings)
    assert GOOD_SECRET not in repr(settings)


def test_a_data_directory_that_was_set_holds_the_sessions_too(tmp_path: Path) -> None:
    assert load({}, data_dir=tmp_path).sessions_dir == tmp_path / "sessions"
    assert load({"SESSIONS_DIR": "/elsewhere"}, data_dir=tmp_path).sessions_dir == Path("/elsewhere")


@pytest.mark.parametrize(
    ("value", "language"), [("he_IL:en", "he"), ("de_DE:de", "en"), ("de_DE:he", "he"), ("HE", "he")]
)
def test_the_systems_own_language_variable_is_accepted(value: str, language: str) -> None:
    assert load({"LANGUAGE": value}).language == language


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        load({}).orch_port = 1


@pytest.mark.parametrize("trust", Trust)
def test_limits_are_the_presets_except_for_overrides(trust: Trust) -> None:
    assert load({}).pace(trust) == PRESETS[Preset.STANDARD][trust]
    own = {
        f"{trust.upper()}_{name}": value
        for name, value in {"PER_DAY": "7", "PAUSE_MIN_MS": "9000", "HOURS": "22:00-06:30"}.items()
    }
    pace = load(own | {"PACING_PRESET": "Standard"}).pace(trust)
    assert (pace.per_day, pace.pause_base_ms, pace.opens, pace.closes) == (7, 9000, time(22), time(6, 30))
    assert pace.per_minute == PRESETS[Preset.STANDARD][trust].per_minute


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=15))
def test_no_secret_under_sixteen_characters_is_ever_accepted(secret: str) -> None:
    with pytest.raises(BadSettings):
        load({"WEBHOOK_SECRET": secret})


def test_the_machines_zone_comes_from_tz_else_from_localtime_else_is_utc(tmp_path: Path) -> None:
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Europe/Madrid")
    assert types.machine_zone("Asia/Jerusalem", link) == "Asia/Jerusalem"
    assert types.machine_zone(":/usr/share/zoneinfo/Asia/Jerusalem", link) == "Asia/Jerusalem"
    assert types.machine_zone("", link) == "Europe/Madrid"
    assert types.machine_zone("no such zone", tmp_path / "missing") == "UTC"


def test_every_setting_has_a_description_and_the_page_is_not_stale() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text("utf-8") == reference.render(), (
        "run: python -m wa_orchestrator.settings.reference > docs/settings.md"
    )


def test_every_setting_is_read_by_a_service() -> None:
    """A setting that nothing reads promises what the product does not do."""
    package = Path(wa_orchestrator.__file__).parent
    unrelated = (package / "settings", package / "cli", package / "server" / "preflight.py")  # they list and check all
    files = [file for file in package.rglob("*.py") if not any(file.is_relative_to(each) for each in unrelated)]
    read = {name for file in files for name in re.findall(r"settings\.(\w+)", file.read_text("utf-8"))}
    derived = {
        "public_base_url": {"public_url"},
        "worker_base_url": {"worker_url"},
        "worker_bind_host": {"worker_host"},
        "scaled": {"time_scale"},
    }
    derived["pace"] = {name for name in Settings.model_fields if name.startswith(tuple(f"{trust}_" for trust in Trust))}
    read |= {name for by, names in derived.items() if by in read for name in names}
    assert set(Settings.model_fields) - read == set()
