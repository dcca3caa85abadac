"""Every knob, its unit and its reason. `load()` reads them; `Settings(...)` takes only what it is given."""

import os
from collections.abc import Mapping
from datetime import time
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from wa_orchestrator.domain import opt_out
from wa_orchestrator.domain.pacing.limits import PRESETS, Override, Pace, Preset, Trust
from wa_orchestrator.errors import BadSettings
from wa_orchestrator.settings import sources, types, validation_messages
from wa_orchestrator.settings.sources import Environment
from wa_orchestrator.settings.types import knob

#: Made at the first start when they are not given (see `secrets`).
GENERATED = ("api_key", "webhook_secret", "dashboard_password")
#: May also come from the file that `NAME_FILE` names.
FROM_FILE = (*GENERATED, "viewer_password", "telegram_bot_token", "redis_url")
#: Where a chapter begins in the reference.
CHAPTERS = {
    "api_key": "Secrets",
    "bind_host": "Addresses",
    "data_dir": "Files",
    "redis_url": "Redis",
    "proxy_urls": "Proxies",
    "max_sessions_per_phone": "Sessions and workers",
    "pacing_preset": "Pace",
    "queue_limit": "Messages",
    "telegram_bot_token": "Alerts",
    "max_backups": "Backups",
    "timezone": "General",
}


class Settings(BaseSettings):
    """All settings of one installation, checked. Frozen: a change needs a restart."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", validate_default=False, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    api_key: types.Strong = knob(SecretStr(""), example=types.EXAMPLE_API_KEY)
    """The first API key, with all scopes; clients send it as `X-API-Key`."""

    webhook_secret: types.Strong = knob(SecretStr(""), example=types.EXAMPLE_WEBHOOK_SECRET)
    """The root from which each worker's own signing secret is derived."""

    dashboard_password: types.Strong = knob(SecretStr(""), example=types.EXAMPLE_PASSWORD)
    """What an administrator types to enter the dashboard."""

    viewer_password: types.OptionalStrong = knob(None, example=types.EXAMPLE_VIEWER_PASSWORD)
    """What a person types who may look at the dashboard and change nothing. Default: there are no such people."""

    bind_host: Annotated[str, BeforeValidator(types.not_blank)] = knob("127.0.0.1", example="192.0.2.10")
    """The address to listen on. Only this machine unless you say otherwise; put TLS in front before you do."""

    orch_port: types.Port = 3001
    """The port of the dashboard and of all APIs; 0 takes any free one."""

    gateway_port: types.Port = 3002
    """The port of the gateway by itself, and a second door for sends with `up`; 0 takes any free one."""

    public_url: types.Url = knob(None, example="https://wa.example.com")
    """How people reach the dashboard, for links in alerts. Default: the address listened on."""

    worker_url: types.Url = knob(None, example="http://172.28.0.1:3001")
    """How workers reach the orchestrator. Default: the address listened on, or loopback where that is every address."""

    data_dir: types.Directory = knob(Path("data"), example="/var/lib/wa-orchestrator")
    """Generated secrets, the embedded Redis and the lock that keeps a second server out."""

    sessions_dir: types.Directory = knob(Path("sessions"), example="/var/lib/wa-orchestrator/sessions")
    """Credentials, one directory per session. Default: `./sessions`, or `sessions` in DATA_DIR where that is set."""

    backups_dir: types.Directory = knob(Path("backups"), example="/var/backups/wa-orchestrator")
    """Backup archives. Default: `./backups`, or `backups` in DATA_DIR where that is set."""

    redis_url: types.RedisUrl = knob(None, example="redis://localhost:6379/0")
    """A Redis or Valkey ≥ 7 of your own, with `appendonly yes` and `noeviction`. Default: one is started in the
    data directory."""

    proxy_urls: tuple[types.ProxyUrl, ...] = knob((), example="socks5h://user:pass@proxy.example.com:1080")
    """`PROXY_URL_1`, `PROXY_URL_2`, …: the pool at start, in the order of the numbers; gaps are allowed."""

    max_sessions_per_proxy: Annotated[int, Field(ge=1, le=4)] = 4
    """Sessions that may share one exit address. Never more than 4: the more share it, the more one ban burns."""

    allow_direct: bool = False
    """Let sessions leave without a proxy. For trying the product out only; the dashboard warns."""

    monitor_interval_ms: types.Millis = 30000
    """Milliseconds between two checks of each proxy, and between two comparisons of what runs with what should."""

    check_target: Annotated[str, AfterValidator(types.host_and_port)] = "web.whatsapp.com:443"
    """Where a proxy check connects to, by name, through the proxy."""

    check_timeout_ms: types.Millis = 10000
    """Milliseconds after which a proxy check has failed."""

    low_inventory_slots: Annotated[int, Field(ge=0)] = 4
    """Free proxy slots under which an alert goes out; one proxy's worth."""

    max_sessions_per_phone: Annotated[int, Field(ge=1, le=4)] = 4
    """Devices that one account may link here. WhatsApp itself allows four."""

    provisioning_interval_ms: Annotated[int, Field(ge=0)] = 2000
    """Milliseconds between two worker starts, so that 200 sessions do not log in at once."""

    watchdog_interval_ms: types.Millis = 60000
    """Milliseconds between two rounds of the watchdog."""

    ping_timeout_ms: types.Millis = 180000
    """Milliseconds without a ping after which a worker is replaced."""

    orphan_timeout_ms: types.Millis = 1800000
    """Milliseconds without an answer from the server after which a worker ends itself: longer than an upgrade, shorter
    than for ever."""

    enable_keep_alive: bool = True
    """Workers show presence and send themselves a vanishing message now and then."""

    runner: Annotated[Literal["process", "docker", "swarm"], types.Lowered] = "process"
    """What runs workers: `process` needs nothing; `docker` isolates harder; `swarm` spreads over machines."""

    docker_image: str = "wa-orchestrator-worker:latest"
    """The worker's image, for `docker` and `swarm`."""

    docker_network: str = "wa_workers"
    """The network of workers' containers. Made if there is none of this name, as 172.28.0.0/16; where that is taken,
    make one yourself (docs/runner.md)."""

    worker_memory_mb: Annotated[int, Field(ge=32)] = 256
    """Megabytes one worker may use before it is ended: a leak in one never touches another."""

    worker_bundle: types.OptionalFile = knob(None, example="/opt/wa-orchestrator/worker.cjs")
    """The worker's program. Default: the one that was built with the product."""

    worker_ca_file: types.OptionalFile = knob(None, example="/etc/wa-orchestrator/ca.pem")
    """Further certificate authorities that workers trust, in PEM. For rehearsals with the simulator only."""

    trash_days: types.Positive = 7
    """Days for which the credentials of a deleted session can be brought back."""

    pacing_preset: Annotated[Literal["standard", "conservative"], types.Lowered] = knob(
        "standard", example="conservative"
    )
    """The limits by age of a session; the settings below change single numbers of it."""

    cold_per_day: types.OptionalCount = knob(None, example=20)
    """Messages a day of a cold session. Default: the preset's."""

    cold_per_minute: types.OptionalCount = knob(None, example=5)
    """Messages a minute of a cold session. Default: the preset's."""

    cold_pause_min_ms: types.OptionalMillis = knob(None, example=5000)
    """Shortest pause of a cold session, in milliseconds. Default: the preset's."""

    cold_pause_max_ms: types.OptionalMillis = knob(None, example=8000)
    """Longest pause of a cold session, in milliseconds. Default: the preset's."""

    cold_hours: types.Hours = knob(None, example="09:00-21:00")
    """Hours in which a cold session speaks. Default: the preset's."""

    warm_per_day: types.OptionalCount = knob(None, example=100)
    """Messages a day of a warm session. Default: the preset's."""

    warm_per_minute: types.OptionalCount = knob(None, example=15)
    """Messages a minute of a warm session. Default: the preset's."""

    warm_pause_min_ms: types.OptionalMillis = knob(None, example=3000)
    """Shortest pause of a warm session, in milliseconds. Default: the preset's."""

    warm_pause_max_ms: types.OptionalMillis = knob(None, example=5000)
    """Longest pause of a warm session, in milliseconds. Default: the preset's."""

    warm_hours: types.Hours = knob(None, example="08:00-22:00")
    """Hours in which a warm session speaks. Default: the preset's."""

    hot_per_day: types.OptionalCount = knob(None, example=500)
    """Messages a day of a hot session. Default: the preset's."""

    hot_per_minute: types.OptionalCount = knob(None, example=30)
    """Messages a minute of a hot session. Default: the preset's."""

    hot_pause_min_ms: types.OptionalMillis = knob(None, example=2000)
    """Shortest pause of a hot session, in milliseconds. Default: the preset's."""

    hot_pause_max_ms: types.OptionalMillis = knob(None, example=4000)
    """Longest pause of a hot session, in milliseconds. Default: the preset's."""

    hot_hours: types.Hours = knob(None, example="07:00-23:00")
    """Hours in which a hot session speaks. Default: the preset's."""

    stop_words: Annotated[tuple[str, ...], BeforeValidator(types.words)] = tuple(sorted(opt_out.DEFAULT_WORDS))
    """Answers, with commas between them, that opt a recipient out. They are compared whole and without case."""

    queue_limit: types.Positive = 1000
    """Messages that may wait for one session; more are refused with `QUEUE_FULL`."""

    rate_limit_per_minute: types.Positive = 600
    """Requests a minute that one API key may make; more are answered with 429."""

    lease_ms: types.Millis = 120000
    """Milliseconds for which a worker holds a message it claimed. Longer than ACK_TIMEOUT_MS, or a slow ack would look
    like a dead worker."""

    ack_timeout_ms: types.Millis = 75000
    """Milliseconds a worker waits for WhatsApp's acknowledgement; then the outcome is unknown, and the same id is
    tried again."""

    max_attempts: types.Positive = 3
    """Failed attempts after which a message becomes a dead letter."""

    body_retention_days: types.Positive = 30
    """Days for which the text of an ended message is kept."""

    message_retention_days: types.Positive = 90
    """Days for which an ended message and its timeline are kept."""

    allow_private_urls: bool = False
    """Let webhooks and media come from private and loopback addresses, and over http. For a LAN you trust."""

    telegram_bot_token: types.TelegramToken = knob(None, example="123456789:AAExampleExampleExampleExample")
    """The bot that sends alerts."""

    telegram_chat_id: types.Text = knob(None, example="-1001234567890")
    """The chat that gets them."""

    telegram_api_url: Annotated[str, AfterValidator(types.http_url)] = "https://api.telegram.org"
    """Where Telegram's API is; for tests and for a Bot API server of your own."""

    alert_webhook_url: types.Url = knob(None, example="https://ops.example.com/alerts")
    """An address that gets every alert as JSON, signed."""

    max_backups: types.Positive = 7
    """How many of the newest backups stay."""

    backup_time: Annotated[str, AfterValidator(types.clock_time)] = "03:00"
    """When the daily backup begins, in TIMEZONE."""

    backup_recipient: types.AgeRecipient = knob(
        None, example="age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
    )
    """The age public key that backups are encrypted for."""

    timezone: Annotated[str, AfterValidator(types.zone)] = Field(
        default_factory=types.machine_zone, examples=["Asia/Jerusalem"]
    )
    """The zone of hours, days and the daily backup. Default: the machine's."""

    language: Annotated[Literal["en", "he"], BeforeValidator(types.language)] = knob("en", example="he")
    """The language of alerts, and of the dashboard until a person chooses."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], types.Lowered] = "info"
    """How much is logged."""

    time_scale: Annotated[float, Field(gt=0, le=10000)] = 1.0
    """Divides pauses, leases and the watchdog's times: 60 makes a minute a second. For rehearsals with the simulator
    only."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read nothing from the world: a developer's `.env` must never reach a test. `load` does the reading."""
        return (init_settings,)

    @model_validator(mode="before")
    @classmethod
    def _keep_files_together(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Put sessions and backups into a data directory that was named, so that two installations never mix."""
        files = {"data_dir": "data", "sessions_dir": "sessions", "backups_dir": "backups"}
        if data_dir := values.get("data_dir"):
            files |= {name: str(Path(data_dir, files[name])) for name in ("sessions_dir", "backups_dir")}
        return files | values

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Refuse settings that are right one by one and wrong together. The text begins with the variable."""
        if self.orch_port == self.gateway_port != 0:
            raise ValueError("GATEWAY_PORT: is the same as ORCH_PORT")
        if (self.telegram_bot_token is None) != (self.telegram_chat_id is None):
            missing = "TELEGRAM_CHAT_ID" if self.telegram_chat_id is None else "TELEGRAM_BOT_TOKEN"
            raise ValueError(f"{missing}: is missing; Telegram needs both the bot's token and a chat")
        if self.lease_ms <= self.ack_timeout_ms:
            raise ValueError(f"LEASE_MS: must be longer than ACK_TIMEOUT_MS ({self.ack_timeout_ms})")
        for trust in Trust:
            longest, shortest = getattr(self, f"{trust}_pause_max_ms"), self.pace(trust).pause_base_ms
            if longest is not None and longest < shortest:
                raise ValueError(f"{trust.upper()}_PAUSE_MAX_MS: is less than the shortest pause ({shortest})")
        if self.body_retention_days > self.message_retention_days:
            raise ValueError(
                f"BODY_RETENTION_DAYS: must not exceed MESSAGE_RETENTION_DAYS ({self.message_retention_days})"
            )
        return self

    def pace(self, trust: Trust) -> Pace:
        """Give the limits of a session of this trust: the preset's, with the operator's own numbers in their place."""
        preset = PRESETS[Preset(self.pacing_preset)][trust]
        own = {name: getattr(self, f"{trust}_{name}") for name in ("per_day", "per_minute", "hours")}
        shortest, longest = getattr(self, f"{trust}_pause_min_ms"), getattr(self, f"{trust}_pause_max_ms")
        shortest = preset.pause_base_ms if shortest is None else shortest
        longest = max(shortest, preset.pause_base_ms + preset.pause_range_ms) if longest is None else longest
        opens, closes = map(time.fromisoformat, own["hours"].split("-")) if own["hours"] else (None, None)
        return Override(own["per_day"], own["per_minute"], shortest, max(0, longest - shortest), opens, closes).onto(
            preset
        )

    def scaled(self, duration: float) -> float:
        """Shorten a duration, in whatever unit, by TIME_SCALE."""
        return duration / self.time_scale

    @property
    def local_url(self) -> str:
        """Where a program of the same machine finds the server."""
        return f"http://{types.reachable(self.bind_host)}:{self.orch_port}"

    @property
    def worker_base_url(self) -> str:
        """Where workers find the orchestrator."""
        return self.worker_url or self.local_url

    @property
    def public_base_url(self) -> str:
        """Where people find the dashboard."""
        return self.public_url or self.local_url


def load(environ: Mapping[str, str] | None = None, env_file: Path | None = Path(".env"), **overrides: Any) -> Settings:
    """Read the settings; `overrides` (by field name) win. Raises BadSettings with one line for every problem."""
    return build(read(environ, env_file), **overrides)


def read(environ: Mapping[str, str] | None = None, env_file: Path | None = Path(".env")) -> Environment:
    """Collect what the operator has set, unchecked, with its origins."""
    names = frozenset(name.upper() for name in Settings.model_fields if name != "proxy_urls")
    secrets = frozenset(name.upper() for name in FROM_FILE)
    return sources.read(names, secrets, os.environ if environ is None else environ, env_file)


def build(given: Environment, **overrides: Any) -> Settings:
    """Check what was collected and make the settings of it."""
    numbered = [name for name in given.proxies if given.found[name].value.strip()]
    values: dict[str, Any] = {
        name.lower(): found.value for name, found in given.found.items() if name.lower() in Settings.model_fields
    }
    values["proxy_urls"] = tuple(given.found[name].value for name in numbered)
    try:
        settings = Settings(**values | overrides)
    except ValidationError as error:
        raise BadSettings(*given.problems, *(_line(each, numbered) for each in error.errors())) from None
    urls = [url.get_secret_value() for url in settings.proxy_urls] if "proxy_urls" not in overrides else []
    if problems := (*given.problems, *_repeated(urls, numbered)):
        raise BadSettings(*problems)
    return settings


def _repeated(urls: list[str], numbered: list[str]) -> list[str]:
    return [
        f"{numbered[at]}: is the same as {numbered[urls.index(url)]}. Example: {numbered[at]}={_example('proxy_urls')}"
        for at, url in enumerate(urls)
        if urls.index(url) < at
    ]


def _example(field: str) -> object:
    described = Settings.model_fields[field]
    return described.examples[0] if described.examples else described.default


def _line(error: ErrorDetails, numbered: list[str]) -> str:
    """Tell one problem in one line. The value itself is not repeated: it may be a secret."""
    if not error["loc"]:
        name, _, problem = str(error["ctx"]["error"]).partition(": ")
        return f"{name}: {problem}. Example: {name}={_example(name.lower())}"
    field = str(error["loc"][0])
    name = numbered[int(error["loc"][1])] if field == "proxy_urls" else field.upper()
    if field not in Settings.model_fields:
        return f"{name}: there is no such setting"
    return f"{name}: {validation_messages.phrase(error)}. Example: {name}={_example(field)}"
