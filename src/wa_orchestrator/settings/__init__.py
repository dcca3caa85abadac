"""Every setting, its unit, its reason. `build(read())` are the operator's; `Settings(...)` takes what it is given."""

from datetime import time
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from wa_orchestrator.domain.messages import opt_out
from wa_orchestrator.domain.pacing.limits import PRESETS, Override, Pace, Preset, Trust
from wa_orchestrator.errors import BadSettings
from wa_orchestrator.settings import types, validation_messages
from wa_orchestrator.settings.source import OperatorSource
from wa_orchestrator.settings.types import override, setting

#: Generated at the first start when they are not set (see `server.secrets`).
GENERATED = ("api_key", "webhook_secret", "auth_key", "dashboard_password")
#: Secrets whose value before a rotation is accepted, too: as `NAME_PREVIOUS`.
PREVIOUS = ("webhook_secret", "auth_key")
#: May also be read from the file that `NAME_FILE` names.
FROM_FILE = (
    *GENERATED,
    *(f"{name}_previous" for name in PREVIOUS),
    "viewer_password",
    "alert_webhook_secret",
    "alert_webhook_secret_previous",
    "telegram_bot_token",
    "redis_url",
    "archive_url",
    "backup_s3_secret_key",
    "media_s3_secret_key",
)
#: The first setting of each section in docs/settings.md.
SECTIONS = {
    "api_key": "Secrets",
    "bind_host": "Addresses",
    "trusted_proxies": "Limits for strangers",
    "data_dir": "Files",
    "backups_dir": "Backups",
    "redis_url": "Redis",
    "proxy_urls": "Proxies",
    "max_sessions_per_phone": "Sessions and workers",
    "pacing_preset": "Pace",
    "queue_limit": "Messages",
    "telegram_bot_token": "Alerts",
    "timezone": "General",
}


class Settings(BaseSettings):
    """All settings of one installation, validated. Frozen: a change needs a restart."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", validate_default=False, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    api_key: types.Strong = setting(SecretStr(""), example=types.EXAMPLE_API_KEY)
    """The first API key, with all scopes; clients send it as `X-API-Key`."""
    webhook_secret: types.Strong = setting(SecretStr(""), example=types.EXAMPLE_WEBHOOK_SECRET)
    """Each worker's token and signing secret are derived from this one."""
    webhook_secret_previous: types.OptionalStrong = setting(None, example=types.EXAMPLE_WEBHOOK_SECRET)
    """The WEBHOOK_SECRET before a rotation: workers that were started with it are still accepted."""
    auth_key: types.Strong = setting(SecretStr(""), example=types.EXAMPLE_AUTH_KEY)
    """Seals the credentials of all sessions on disk; each worker gets a key of its own that is derived from it. Keep a
    copy apart from the credentials: without it they are lost."""
    auth_key_previous: types.OptionalStrong = setting(None, example=types.EXAMPLE_AUTH_KEY)
    """The AUTH_KEY before a rotation: opens credentials that have not been sealed with the new one yet."""
    dashboard_password: types.Strong = setting(SecretStr(""), example=types.EXAMPLE_PASSWORD)
    """The administrator's password for the dashboard."""
    viewer_password: types.OptionalStrong = setting(None, example=types.EXAMPLE_VIEWER_PASSWORD)
    """Password for read-only access to the dashboard. Default: no read-only access."""

    bind_host: Annotated[str, BeforeValidator(types.not_blank)] = setting("127.0.0.1", example="192.0.2.10")
    """The address to listen on. Default: this machine only; put TLS in front before you change it."""
    orch_port: types.Port = 3001
    """Port of the dashboard and of all APIs; 0 picks a free one."""
    gateway_port: types.Port = 3002
    """Port of the gateway, also with `up`, which serves sends on both ports; 0 picks a free one."""

    gateway_hot_path: bool = True
    """Serve sends with the gateway's own HTTP protocol and in batches. `false` uses ordinary routes: the same
    responses, fewer messages per second."""
    shared_passwords: bool = True
    """Whether DASHBOARD_PASSWORD and VIEWER_PASSWORD open the dashboard. Switch it off when everybody has an account;
    links from this machine keep working."""
    public_url: types.OptionalUrl = setting(None, example="https://wa.example.com")
    """Base URL of the dashboard, for links in alerts. Default: the address listened on."""
    worker_host: types.OptionalText = setting(None, example="172.17.0.1")
    """The address of the workers' own listener. Default: 127.0.0.1 with RUNNER=process, else BIND_HOST."""
    worker_port: types.Port = 3003
    """Port of the workers' own listener, which has only their routes; 0 picks a free one, as does ORCH_PORT=0."""
    workers_on_main_port: bool = True
    """Serve workers' routes on ORCH_PORT too, for workers that were started by hand with that address. `false` where
    the port is reachable from outside and no such worker runs."""
    worker_url: types.OptionalUrl = setting(None, example="http://172.17.0.1:3003")
    """Base URL of the workers' listener for workers, or with RUNNER=docker for their relays. Default: the address
    listened on, or loopback if that is a wildcard."""
    serve_docs: bool = True
    """Serve `/docs` and `/openapi.json`. They show no data; `false` hides which version runs."""
    serve_metrics: bool = True
    """Serve `/metrics`, which needs no key. `false` where strangers must not see how much is sent."""

    trusted_proxies: types.Networks = setting((), example="127.0.0.1,10.0.0.0/8")
    """Addresses and networks of reverse proxies, separated by commas. Their `X-Forwarded-For` and `X-Forwarded-Proto`
    are believed, those of anybody else are not; and MAX_CONNECTIONS_PER_ADDRESS does not count them."""
    max_connections: types.Positive = 4096
    """Open connections of one port; further ones are closed at once. Each needs a file descriptor and some memory."""
    max_connections_per_address: types.Positive = 256
    """Open connections of one address (of IPv6: of one /64 network): nobody may take them all. A browser uses six."""
    max_head_bytes: Annotated[int, Field(ge=4096)] = 65536
    """Bytes of a request line with its headers. A browser sends about a thousand, with many cookies several."""
    head_timeout_ms: types.Millis = 15000
    """Milliseconds for a request line with its headers. Clients send them in one packet."""
    max_body_bytes: Annotated[int, Field(ge=4096)] = 262144
    """Bytes of a request body: the longest message, all of it escaped. Batches, uploads and workers' events have limits
    of their own."""
    body_timeout_ms: types.Millis = 30000
    """Milliseconds for a request body, and a second more for each 4 KiB that arrive: a slow line may upload a large
    file."""
    write_timeout_ms: types.Millis = 30000
    """Milliseconds for which a client may leave its response unread, also of an event stream; then it is dropped."""
    api_rate_per_minute: types.Positive = 6000
    """Requests per minute of one API key to routes that send nothing; further ones get 429."""
    public_rate_per_minute: types.Positive = 1200
    """Requests per minute of one address to pages and to routes without a key, and with a wrong key; further ones get
    429."""
    worker_rate_per_minute: types.Positive = 6000
    """Requests per minute of one worker; further ones get 429. One that was taken over must not occupy the server."""

    data_dir: types.Directory = setting(Path("data"), example="/var/lib/wa-orchestrator")
    """Generated secrets, the embedded Redis, the archive, uploads, and the lock that prevents a second server."""
    sessions_dir: types.Directory = setting(Path("sessions"), example="/var/lib/wa-orchestrator/sessions")
    """Credentials, one directory per session. Default: `./sessions`, or `sessions` in DATA_DIR if that is set."""

    backups_dir: types.Directory = setting(Path("backups"), example="/var/lib/wa-orchestrator/backups")
    """Backups, one file each. Default: `./backups`, or `backups` in DATA_DIR if that is set."""
    backup_time: types.ClockTime = setting("03:00", example="03:00")
    """When the daily backup is made, in TIMEZONE. One that was missed is made as soon as the server runs again."""
    max_backups: types.Positive = 7
    """Backups that are kept; the oldest is deleted after a new one was verified."""
    backup_recipient: types.OptionalRecipient = setting(None, example=types.EXAMPLE_RECIPIENT)
    """The age public key (`age1…` or an SSH public key) that backups are encrypted to. Keep its secret key elsewhere: a
    restore asks for it. Only an encrypted backup contains the generated secrets. Default: not encrypted."""
    backup_copy_dir: types.OptionalDirectory = setting(None, example="/mnt/nas/wa-backups")
    """A second directory, best on another machine, that gets a copy of every backup. Default: no copy."""
    backup_s3_url: types.OptionalBucketUrl = setting(None, example="https://s3.eu-central-1.example.com/my-bucket/wa")
    """A bucket of an S3-compatible store that gets a copy of every backup: its endpoint, the bucket, and optionally the
    beginning of names in it. Set BACKUP_RECIPIENT too, or whoever runs the store can act as every account."""
    backup_s3_access_key: types.OptionalText = setting(None, example="wa-backups")
    """The access key of that store. It needs to read, write, list and delete in this place only."""
    backup_s3_secret_key: types.OptionalSecret = setting(None, example="the-secret-key-of-the-store")
    """Its secret key."""
    backup_s3_region: types.OptionalText = setting(None, example="eu-central-1")
    """The region, for stores that have several. Default: the store is asked."""
    backup_history: bool = True
    """Whether backups contain the history on disk too (`archive.sqlite`). It can be most of a backup's size."""

    redis_url: types.OptionalRedisUrl = setting(None, example="redis://localhost:6379/0")
    """Your own Redis or Valkey ≥ 7, with `appendonly yes` and `noeviction`. Default: an embedded one in the data
    directory. With Sentinels: `redis+sentinel://:password@one.example.com:26379,two.example.com:26379/service/0`."""
    redis_replicas_ack: Annotated[int, Field(ge=0, le=10)] = 0
    """Replicas that must have a write before it counts. With Sentinels at least 1: otherwise a failover can lose
    accepted messages. While fewer replicas answer, nothing is accepted and nothing is sent."""

    archive_url: types.OptionalPostgresUrl = setting(
        None, example="postgresql://wa:the-password@db.example.com:5432/wa_history"
    )
    """The PostgreSQL database (≥ 12) of the history, where services run on several machines; one database for each
    installation. Default: the file `archive.sqlite` in DATA_DIR, whose history moves there when this is set."""

    proxy_urls: Annotated[tuple[types.ProxyUrl, ...], NoDecode] = setting(
        (), example="socks5h://user:pass@proxy.example.com:1080"
    )
    """`PROXY_URL_1`, `PROXY_URL_2`, …: the initial proxy pool, in the order of the numbers; gaps are allowed."""
    max_sessions_per_proxy: Annotated[int, Field(ge=1, le=4)] = 4
    """Sessions that may share one proxy. At most 4: the more share it, the more one ban affects."""
    allow_direct: bool = False
    """Allow sessions without a proxy. For trying the product out only; the dashboard warns."""

    monitor_interval_ms: types.Millis = 30000
    """Milliseconds between checks of each proxy, and between reconciliations of workers."""
    check_target: Annotated[str, AfterValidator(types.host_and_port)] = "web.whatsapp.com:443"
    """Host and port that a proxy check connects to through the proxy; the proxy resolves the name."""
    check_timeout_ms: types.Millis = 10000
    """Timeout of a proxy check, in milliseconds."""
    low_inventory_slots: Annotated[int, Field(ge=0)] = 4
    """Alert when fewer proxy slots than this are free. Default: the slots of one proxy."""

    device_profiles: types.Profiles = ("Ubuntu",)
    """What sessions show as under "linked devices": real systems and browsers, with a comma between two. A session gets
    one when it is made and keeps it for life; the API adds more. Default: the truth, Chrome on Ubuntu."""
    profile_sessions: Annotated[int, Field(ge=0)] = 0
    """Sessions that may share one profile; 0 is any number."""
    low_inventory_profiles: Annotated[int, Field(ge=0)] = 4
    """With `PROFILE_SESSIONS`: alert when fewer sessions than this can still get a profile."""

    max_sessions_per_phone: Annotated[int, Field(ge=1, le=4)] = 4
    """Sessions that one phone may have. WhatsApp itself allows four linked devices."""
    provisioning_interval_ms: Annotated[int, Field(ge=0)] = 2000
    """Milliseconds between starts of sessions to be linked, so that 200 do not log in at once."""
    restart_interval_ms: Annotated[int, Field(ge=0)] = 100
    """Milliseconds between restarts of linked sessions, on average: each pause is drawn from half to one and a half
    times that, and twice as long while the CPU is busy."""
    watchdog_interval_ms: types.Millis = 60000
    """Milliseconds between runs of the watchdog."""
    ping_timeout_ms: types.Millis = 180000
    """Milliseconds without a ping after which a worker is replaced."""
    orphan_timeout_ms: types.Millis = 1800000
    """Milliseconds without an answer from the server after which a worker exits. Must be longer than an upgrade
    takes."""
    enable_keep_alive: bool = True
    """Workers send presence updates, and from time to time a disappearing message to themselves."""
    passkey_linking: bool = True
    """When WhatsApp asks for the account's passkey at linking, its owner can sign at his own screen; if false, such an
    attempt ends."""
    link_history: Literal["off", "contacts", "texts"] = "off"
    """What is kept of the chats that a phone already has when it is linked: nothing, `contacts` for who and when, or
    `texts` for the last 20 texts of each, too. They end with the retention of messages and bodies, and make nobody a
    known contact."""
    reject_calls: bool = False
    """Calls to the accounts are rejected at once, except those to a group."""
    call_reply: Annotated[str, Field(max_length=1000)] = ""
    """Text that a person gets whose call was rejected: like any message, within pace and hours and not after an
    opt-out, and at most once a day. Needs REJECT_CALLS."""
    inbox_read_marks: bool = True
    """What a person has read in the inbox is shown as read on its author's phone, as far as the account's privacy
    settings allow; not in groups. Needs a session that is connected and not on hold."""
    presence: Literal["always", "while_sending", "never"] | None = None
    """When devices are shown as online: `always` keeps the owner's phone from ringing for messages; `while_sending`
    lets it ring except around a message; `never` shows no typing either. Default: `always` with ENABLE_KEEP_ALIVE,
    else `while_sending`. A session may have its own."""

    credentials: Literal["local", "server"] = "local"
    """Where the newest credentials are: `local` in SESSIONS_DIR alone; `server` also in Redis, sealed, so that a worker
    may start on any machine and in any directory. Needs AUTH_KEY, and a message waits for its record."""
    fence_ms: types.Millis = 10000
    """Milliseconds without a sign from the server after which a worker leaves WhatsApp, where workers run on several
    machines: another one is started only after that if nobody can prove that it has ended."""
    runner: Annotated[Literal["process", "docker", "remote", "swarm", "kubernetes"], BeforeValidator(types.lowered)] = (
        "process"
    )
    """How workers run: `process` needs nothing else; `docker` isolates them in containers; `remote` leaves that to
    `wa-orchestrator runner`, so that this server needs neither root nor the engine; `swarm` and `kubernetes` spread
    containers over several machines."""
    runner_socket: types.SocketPath = setting(
        Path("/run/wa-orchestrator/runner.sock"), example="/run/wa-orchestrator/runner.sock"
    )
    """The Unix socket of `wa-orchestrator runner`, for RUNNER=remote."""
    docker_image: str = "wa-orchestrator:latest"
    """The image of workers' containers. `wa-orchestrator runner` in a container uses its own instead. In a cluster
    every node must have it or be able to pull it."""
    docker_outside: str = "bridge"
    """The network by which relays of containers reach proxies and the server. In a swarm an overlay network, created if
    missing; `bridge` means `wa_outside` there."""
    docker_network: str = "wa_workers"
    """The network of workers' containers. Created if missing, as 172.28.0.0/16 and without an address of the host; if
    that range is taken, create one yourself (docs/runner.md)."""
    cluster_name: types.ClusterName = "wa"
    """Names this installation in a cluster: its workers are found by it, from whichever machine. Two installations in
    one swarm, or in one namespace of Kubernetes, need different names."""
    swarm_constraints: types.Words = setting((), example="node.role==worker,node.labels.sessions==true")
    """Which nodes of a swarm may have workers and relays, as `docker service create --constraint` has it, separated by
    commas. Default: all."""
    kubernetes_config: types.OptionalFile = setting(None, example="/etc/wa-orchestrator/kubeconfig")
    """The kubeconfig file for RUNNER=kubernetes, with a token or a certificate. Default: the service account of the Pod
    that the server runs in."""
    kubernetes_namespace: types.OptionalText = setting(None, example="wa-orchestrator")
    """The namespace of workers' Pods. Default: that of the server's own Pod, or of the kubeconfig file."""
    worker_users: types.UserRange = setting(range(1_900_000_000, 1_900_010_000), example="1900000000-1900009999")
    """User numbers for workers of RUNNER=process when the server is root: one per session, from a range that no account
    of the machine has. Two installations on one machine need different ranges."""
    worker_memory_mb: Annotated[int, Field(ge=32)] = 256
    """Memory limit of one worker in megabytes: a leak in one must not affect the others."""
    worker_bundle: types.OptionalFile = setting(None, example="/opt/wa-orchestrator/worker.cjs")
    """The worker's bundle. Default: the one built with the product."""
    worker_ca_file: types.OptionalFile = setting(None, example="/etc/wa-orchestrator/ca.pem")
    """Additional certificate authorities for workers, in PEM. Only for use with the simulator."""

    trash_days: types.Positive = 7
    """Days for which the credentials of a deleted session can be restored."""

    pacing_preset: Annotated[Literal["standard", "conservative"], types.Lowered] = setting(
        "standard", example="conservative"
    )
    """Limits by age of a session; the settings below override single values."""

    cold_per_day: types.OptionalCount = override("Messages per day of a cold session", example=20)
    cold_per_minute: types.OptionalCount = override("Messages per minute of a cold session", example=5)
    cold_pause_min_ms: types.OptionalMillis = override(
        "Shortest pause of a cold session, in milliseconds", example=5000
    )
    cold_pause_max_ms: types.OptionalMillis = override("Longest pause of a cold session, in milliseconds", example=8000)
    cold_hours: types.OptionalHours = override("Hours in which a cold session sends", example="09:00-21:00")
    warm_per_day: types.OptionalCount = override("Messages per day of a warm session", example=100)
    warm_per_minute: types.OptionalCount = override("Messages per minute of a warm session", example=15)
    warm_pause_min_ms: types.OptionalMillis = override(
        "Shortest pause of a warm session, in milliseconds", example=3000
    )
    warm_pause_max_ms: types.OptionalMillis = override("Longest pause of a warm session, in milliseconds", example=5000)
    warm_hours: types.OptionalHours = override("Hours in which a warm session sends", example="08:00-22:00")
    hot_per_day: types.OptionalCount = override("Messages per day of a hot session", example=500)
    hot_per_minute: types.OptionalCount = override("Messages per minute of a hot session", example=30)
    hot_pause_min_ms: types.OptionalMillis = override("Shortest pause of a hot session, in milliseconds", example=2000)
    hot_pause_max_ms: types.OptionalMillis = override("Longest pause of a hot session, in milliseconds", example=4000)
    hot_hours: types.OptionalHours = override("Hours in which a hot session sends", example="07:00-23:00")

    stop_words: types.Words = tuple(sorted(opt_out.DEFAULT_WORDS))
    """Replies that opt a recipient out, separated by commas. The whole reply is compared, ignoring case."""

    queue_limit: types.Positive = 1000
    """Messages that may wait for one session, scheduled ones included; further ones are refused with `QUEUE_FULL`."""
    rate_limit_per_minute: types.Positive = 600
    """Requests per minute of one API key to routes that send; further ones get 429."""
    upload_quota_mb: types.Positive = 1024
    """Megabytes of files that one API key may have stored; further ones are refused with `UPLOAD_QUOTA`. Unused files
    go after a day."""
    min_free_disk_mb: Annotated[int, Field(ge=0)] = 512
    """Megabytes that uploads leave free on their disk, for Redis and the workers' credentials; then `DISK_FULL`."""
    lease_ms: types.Millis = 120000
    """Milliseconds for which a worker holds a message it claimed. Must be longer than ACK_TIMEOUT_MS, or a slow ack
    would look like a dead worker."""
    ack_timeout_ms: types.Millis = 75000
    """Milliseconds a worker waits for WhatsApp's ack; after that the outcome is unknown, and the message is retried
    with the same id."""
    max_attempts: types.Positive = 3
    """Failed attempts after which a message becomes a dead letter."""

    body_retention_days: types.Positive = 30
    """Days for which the text of a finished message is kept."""
    message_retention_days: types.Positive = 90
    """Days for which a finished message and its timeline are kept."""
    acts_per_minute: types.Positive = 20
    """What one session does per minute besides sending: reactions, edits, deletions, read marks, typing, blocks. These
    start no conversation and are not paced as messages are."""
    number_checks_per_day: types.Positive = 10
    """How often one session may ask WhatsApp within a day whether a number has an account, or for its picture. Accounts
    that ask for many are banned."""
    group_changes_per_day: types.Positive = 10
    """How often one session may change groups within a day: make, rename or leave one, remove a member, renew a link.
    Accounts that make many groups are banned."""
    media_fetch: Literal["on_demand", "at_arrival"] = "on_demand"
    """When files that people send are fetched: when somebody asks for one, or all of them as they come in, which costs
    the proxies' traffic."""
    media_max_mb: Annotated[int, Field(ge=1, le=2048)] = 100
    """Megabytes of a file that somebody sent; longer ones are not fetched."""
    media_quota_mb: types.Positive = 2048
    """Megabytes of files that people sent and that are kept. The oldest go first; one that is gone can be
    fetched again while WhatsApp or the phone has it."""
    media_retention_days: types.Positive = 7
    """Days for which a fetched file is kept, unless its message is erased before."""
    media_dir: types.OptionalDirectory = setting(None, example="/mnt/shared/wa-media")
    """The directory of uploads and of files that people sent. With several machines one that all of them share, unless
    MEDIA_S3_URL is set. Default: DATA_DIR."""
    media_s3_url: types.OptionalBucketUrl = setting(None, example="https://s3.eu-central-1.example.com/my-bucket/media")
    """A bucket of an S3-compatible store that keeps uploads and files that people sent, so that every machine reaches
    them: its endpoint, the bucket, and optionally the beginning of names in it. Files in MEDIA_DIR from before stay
    there until they end. Default: no bucket."""
    media_s3_access_key: types.OptionalText = setting(None, example="wa-media")
    """The access key of that store. It needs to read, write, list and delete in this place only."""
    media_s3_secret_key: types.OptionalSecret = setting(None, example="the-secret-key-of-the-store")
    """Its secret key."""
    media_s3_region: types.OptionalText = setting(None, example="eu-central-1")
    """The region, for stores that have several. Default: the store is asked."""
    event_retention_days: types.Positive = 30
    """Days for which events are kept, so that an integration that was away can catch up."""
    archive_after_hours: Annotated[int, Field(ge=24)] = 24
    """Hours after which a finished message moves from Redis to the archive on disk. Most receipts come within a day; a
    later one brings it back. At least 24: an `Idempotency-Key` is valid for a day."""
    allow_private_urls: bool = False
    """Allow webhooks and media on private and loopback addresses, and over http. For a LAN you trust."""

    telegram_bot_token: types.OptionalTelegramToken = setting(None, example="123456789:AAExampleExampleExampleExample")
    """The bot that sends alerts."""
    telegram_chat_id: types.OptionalTelegramChat = setting(None, example="-1001234567890")
    """The chat that receives alerts."""
    telegram_api_url: Annotated[str, AfterValidator(types.http_url)] = "https://api.telegram.org"
    """Base URL of the Telegram Bot API; for tests, or for your own Bot API server."""
    alert_webhook_url: types.OptionalUrl = setting(None, example="https://ops.example.com/alerts")
    """A URL that receives every alert as signed JSON."""
    alert_webhook_secret: types.OptionalStrong = setting(None, example=types.EXAMPLE_WEBHOOK_SECRET)
    """Signs alerts. Set it, so that who receives alerts does not know WEBHOOK_SECRET, which signs them otherwise."""
    alert_webhook_secret_previous: types.OptionalStrong = setting(None, example=types.EXAMPLE_WEBHOOK_SECRET)
    """The ALERT_WEBHOOK_SECRET before a rotation: alerts are signed with both until you remove it."""

    timezone: Annotated[str, AfterValidator(types.zone)] = Field(
        default_factory=types.machine_zone, examples=["Asia/Jerusalem"]
    )
    """Time zone of hours and days. Default: the machine's."""
    default_country: types.OptionalCallingCode = setting(None, example="972")
    """The country code of local numbers: 050 123 4567 is taken, and searched, as 972501234567; 00 before a number is
    dropped. For countries whose numbers lose their 0 abroad. Default: numbers need their country code."""
    operator_name: Annotated[str, Field(max_length=100)] = setting("", example="Oren Motors")
    """Who runs the accounts: the page of a one-time link names it to the person whose phone is to be linked."""
    language: types.Language = setting("en", example="he")
    """Language of alerts, and of the dashboard for browsers that ask for no language it has."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], types.Lowered] = "info"
    """Minimum level of log lines."""
    time_scale: Annotated[float, Field(gt=0, le=10000)] = 1.0
    """Divides pauses, leases and the watchdog's intervals: with 60 a minute takes a second. Only for use with the
    simulator."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only the given values: a developer's `.env` must never reach a test. `build` adds the operator's."""
        return (init_settings,)

    @model_validator(mode="before")
    @classmethod
    def _keep_files_in_data_dir(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Put sessions and backups into a data directory that was set, so that two installations never mix."""
        data_dir = values.get("data_dir")
        inside = {
            name: str(Path(data_dir or "", name.removesuffix("_dir"))) for name in ("sessions_dir", "backups_dir")
        }
        return {"data_dir": "data"} | inside | values

    @model_validator(mode="before")
    @classmethod
    def _pick_worker_port(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Pick a free port for workers if the server's own is picked: two such servers run side by side."""
        return ({"worker_port": 0} if str(values.get("orch_port")) == "0" else {}) | values

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        """Refuse settings that contradict each other. The text begins with the variable."""
        if self.orch_port == self.gateway_port != 0:
            raise ValueError("GATEWAY_PORT: must differ from ORCH_PORT")
        if self.worker_port != 0 and self.worker_port in (self.orch_port, self.gateway_port):
            raise ValueError("WORKER_PORT: must differ from ORCH_PORT and GATEWAY_PORT")
        if (self.telegram_bot_token is None) != (self.telegram_chat_id is None):
            missing = "TELEGRAM_CHAT_ID" if self.telegram_chat_id is None else "TELEGRAM_BOT_TOKEN"
            raise ValueError(f"{missing}: is missing; Telegram needs both the bot token and a chat id")
        for store in ("backup_s3", "media_s3"):
            access_key, secret_key = getattr(self, f"{store}_access_key"), getattr(self, f"{store}_secret_key")
            if getattr(self, f"{store}_url") and not (access_key and secret_key):
                missing = f"{store}_secret_key" if access_key else f"{store}_access_key"
                raise ValueError(f"{missing.upper()}: is missing; {store.upper()}_URL needs both keys of the store")
        if self.lease_ms <= self.ack_timeout_ms:
            raise ValueError(f"LEASE_MS: must be longer than ACK_TIMEOUT_MS ({self.ack_timeout_ms})")
        for trust in Trust:
            longest, shortest = getattr(self, f"{trust}_pause_max_ms"), self.pace(trust).pause_base_ms
            if longest is not None and longest < shortest:
                raise ValueError(f"{trust.upper()}_PAUSE_MAX_MS: must not be less than the shortest pause ({shortest})")
        if self.body_retention_days > self.message_retention_days:
            raise ValueError(
                f"BODY_RETENTION_DAYS: must not exceed MESSAGE_RETENTION_DAYS ({self.message_retention_days})"
            )
        return self

    def pace(self, trust: Trust) -> Pace:
        """Return the limits of a session of this trust: the preset with the operator's overrides."""
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
        """Divide a duration, in any unit, by TIME_SCALE."""
        return duration / self.time_scale

    @property
    def archive_path(self) -> Path:
        """The file of the archive."""
        return self.data_dir / "archive.sqlite"

    @property
    def local_url(self) -> str:
        """URL of the server for programs on the same machine."""
        return f"http://{types.connectable(self.bind_host)}:{self.orch_port}"

    @property
    def worker_bind_host(self) -> str:
        """The address of the workers' listener: processes are on this machine, containers come from outside it."""
        return self.worker_host or ("127.0.0.1" if self.runner == "process" else self.bind_host)

    @property
    def workers_own_host(self) -> str | None:
        """The address that only workers use, where there is one: other listeners are closed there."""
        is_shared = self.workers_on_main_port or self.runner == "process" or self.worker_host == self.bind_host
        return None if is_shared else self.worker_host

    @property
    def worker_base_url(self) -> str:
        """URL of the workers' listener for workers."""
        return self.worker_url or f"http://{types.connectable(self.worker_bind_host)}:{self.worker_port}"

    @property
    def public_base_url(self) -> str:
        """URL of the dashboard for people."""
        return self.public_url or self.local_url


def read(env_file: Path | None = Path(".env")) -> OperatorSource:
    """Collect what the operator has set, with its origins, without validating it."""
    return OperatorSource(Settings, FROM_FILE, env_file)


def build(source: OperatorSource, **overrides: Any) -> Settings:
    """Validate what was collected; `overrides` (by field name) win. Raises BadSettings with one line per problem."""
    problems = list(source.problems)
    try:
        settings = Settings(**source() | overrides)
    except ValidationError as error:
        raise BadSettings(*problems, *(_problem(each, source.proxies) for each in error.errors())) from None
    if "proxy_urls" not in overrides:
        problems += _duplicates([url.get_secret_value() for url in settings.proxy_urls], source.proxies)
    if problems:
        raise BadSettings(*problems)
    return settings


def _duplicates(urls: list[str], names: list[str]) -> list[str]:
    return [
        _line(names[at], f"is the same as {names[urls.index(url)].upper()}", "proxy_urls")
        for at, url in enumerate(urls)
        if urls.index(url) < at
    ]


def _problem(error: ErrorDetails, proxies: list[str]) -> str:
    """Return one problem in one line. The value itself is not repeated: it may be a secret."""
    if not error["loc"]:
        name, _, problem = str(error["ctx"]["error"]).partition(": ")
        return _line(name, problem, name.lower())
    field = str(error["loc"][0])
    name = proxies[int(error["loc"][1])] if field == "proxy_urls" else field
    return _line(name, validation_messages.phrase(error), field)


def _line(variable: str, problem: str, field: str) -> str:
    described = Settings.model_fields[field]
    example = described.examples[0] if described.examples else described.default
    return f"{variable.upper()}: {problem}. Example: {variable.upper()}={example}"
