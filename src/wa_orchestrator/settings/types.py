"""Types of settings: one small check per kind of value. An error says what is wrong and never repeats a secret."""

import contextlib
import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pyrage
from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, SecretStr
from pydantic_settings import NoDecode

from wa_orchestrator.domain import sentinel_url as sentinel_urls
from wa_orchestrator.domain.proxies.proxy_url import BadProxyUrl
from wa_orchestrator.domain.proxies.proxy_url import parse as parse_proxy
from wa_orchestrator.domain.sessions.profile import Profile
from wa_orchestrator.errors import Refused
from wa_orchestrator.texts.catalogue import DEFAULT, languages

MIN_SECRET_CHARS = 16
#: Examples of docs/settings.md. They are public, so none of them is accepted as a secret.
EXAMPLE_API_KEY = "wao_2Jv0Zc5Xq8sR1mT7kD4hW9bN"
EXAMPLE_WEBHOOK_SECRET = "whsec_Zm9yLWV4YW1wbGUtb25seS0xMjM0NQ=="  # noqa: S105
EXAMPLE_AUTH_KEY = "Zm9yLWV4YW1wbGUtb25seS10aGlydHktdHdvLWJ5dGU="
EXAMPLE_PASSWORD = "correct-horse-battery-staple"  # noqa: S105
EXAMPLE_VIEWER_PASSWORD = "green-ladder-seven-windows"  # noqa: S105
EXAMPLE_RECIPIENT = "age1qjnqylu2x96wc7xvgxcnny0jd2lchcm7rx6yqhau7asap3tw8etqevp42n"
_EXAMPLES = (EXAMPLE_API_KEY, EXAMPLE_WEBHOOK_SECRET, EXAMPLE_AUTH_KEY, EXAMPLE_PASSWORD, EXAMPLE_VIEWER_PASSWORD)
#: A place to fill in: <random-32-chars>, ${API_KEY}, [your key].
_PLACEHOLDER = re.compile(r"\$?(?:<.*>|\{.*\}|\[.*\])", re.DOTALL)
#: Made of nothing but words that every password list and every template contains.
_WELL_KNOWN = re.compile(
    r"(?:change|replace|insert|enter|put|set|fill|generate|use|with|password|passwd|passphrase|secret|secure|strong"
    r"|example|sample|default|dummy|placeholder|do|test|admin|letmein|random|chars?|characters|string|value|long|bytes"
    r"|your|own|my|me|api|key|token|webhook|dashboard|please|the|this|here|some|(?<![a-z])an?(?![a-z])|of|in|it|to|[\W_\d])+",
    re.IGNORECASE,
)
#: Below are the machine's accounts and services; above, numbers that some file systems take as negative.
_LEAST_USER, _LARGEST_USER = 100_000, 2_147_483_646
_CLOCK_TIME = r"([01]\d|2[0-3]):[0-5]\d"


def setting(default: Any, *, example: object) -> Any:
    """Return a field with an example, for where the default is not a good one itself."""
    return Field(default, examples=[example])


def override(what: str, *, example: object) -> Any:
    """Return a field that overrides a value of the pacing preset."""
    return Field(None, examples=[example], description=f"{what}. Default: the preset's.")


def matching(pattern: str, problem: str) -> AfterValidator:
    """Return a check of a text or a secret; a whole value that does not match has the problem."""

    def check(value: Any) -> Any:
        if not re.fullmatch(pattern, value.get_secret_value() if isinstance(value, SecretStr) else value):
            raise ValueError(problem)
        return value

    return AfterValidator(check)


def strong(secret: SecretStr) -> SecretStr:
    """Refuse a secret that is empty, short, well known or monotonous."""
    value = secret.get_secret_value()
    if not value.strip():
        raise ValueError("is empty; remove the line to have one generated")
    if _PLACEHOLDER.fullmatch(value.strip()) or _WELL_KNOWN.fullmatch(value):
        raise ValueError(
            "is a placeholder or a well-known word; use random characters (openssl rand -hex 32), "
            "or remove the line to have one generated"
        )
    if len(value) < MIN_SECRET_CHARS:
        raise ValueError(f"is too short ({len(value)} characters); a secret needs {MIN_SECRET_CHARS} or more")
    if value in _EXAMPLES or len(set(value)) < 6:
        raise ValueError("is easy to guess; use random characters, or remove the line to have one generated")
    return secret


def blank_is_none(value: object) -> object:
    """Treat an empty optional setting as not set: compose files pass `NAME=` for what the operator left out."""
    return None if isinstance(value, str) and not value.strip() else value


def not_blank(value: object) -> object:
    """Refuse an empty string."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("is empty")
    return value


def http_url(url: str) -> str:
    """Require an http or https URL; a trailing slash is removed."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL that begins with http:// or https://")
    return url.rstrip("/")


def bucket_url(url: str) -> str:
    """Require the URL of a bucket: an endpoint, and a path that begins with the bucket's name. No login in it."""
    parts = urlsplit(http_url(url))
    if not parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must name the bucket after the host")
    if "@" in parts.netloc:
        raise ValueError("must not contain keys; there are settings for them")
    return url.rstrip("/")


def proxy_url(url: SecretStr) -> SecretStr:
    """Require a SOCKS5 proxy that resolves names itself, and normalize its URL as the pool does."""
    try:
        return SecretStr(parse_proxy(url.get_secret_value()).url)
    except BadProxyUrl as error:
        raise ValueError(error.text[0].lower() + error.text[1:].removesuffix(".")) from None


def sentinel_url(url: SecretStr) -> SecretStr:
    """Require that an address of Sentinels names them and their service."""
    if sentinel_urls.is_sentinel_url(url.get_secret_value()):
        sentinel_urls.parse(url.get_secret_value())
    return url


def postgres_url(url: SecretStr) -> SecretStr:
    """Require the address of a PostgreSQL database. The client library would repeat a part of a wrong one."""
    value = url.get_secret_value()
    if not re.match(r"(?i)postgres(ql)?://", value):
        raise ValueError("must begin with postgresql://")
    if re.search(r"%(?![0-9A-Fa-f]{2})", value):
        raise ValueError("a % must be written as %25")
    if not value.partition("://")[2].partition("?")[0].partition("/")[2]:
        raise ValueError("names no database; it follows the last slash")
    return url


def zone(name: str) -> str:
    """Require a time zone that this machine or the tzdata package knows."""
    try:
        ZoneInfo(name or "/")  # an empty key would open the directory of all zones
    except (KeyError, ValueError, OSError) as error:
        raise ValueError("unknown time zone") from error  # its value is not repeated: it may be a secret
    return name


def machine_zone(environ_tz: str | None = None, localtime: Path = Path("/etc/localtime")) -> str:
    """Return the machine's time zone: `TZ`, else the target of /etc/localtime, else UTC."""
    wanted = (os.environ.get("TZ", "") if environ_tz is None else environ_tz).removeprefix(":")
    linked = str(localtime.resolve()).partition("zoneinfo/")[2]
    for name in (wanted.partition("zoneinfo/")[2] or wanted, linked):
        with contextlib.suppress(ValueError):
            return zone(name)
    return "UTC"


def connectable(host: str) -> str:
    """Return a listening address as a client connects to it: a wildcard address becomes loopback."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return host if address.version == 4 else f"[{host}]"


def host_and_port(value: str) -> str:
    """Require host:port."""
    host, colon, port = value.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError("must be host:port")
    return value


def recipient(value: str) -> str:
    """Require a public key of age, or an SSH public key; the example's secret key is known to nobody."""
    if value.startswith("AGE-SECRET-KEY-"):
        raise ValueError("is a secret key; set its public key (age1…), and keep the secret one elsewhere")
    if value == EXAMPLE_RECIPIENT:
        raise ValueError("is the example of the documentation; set your own public key (age-keygen makes a pair)")
    for kind in (pyrage.x25519, pyrage.ssh):
        with contextlib.suppress(pyrage.RecipientError):
            kind.Recipient.from_str(value)
            return value
    raise ValueError("must be a public key of age (age1…), or an SSH public key")


def words(value: object) -> object:
    """Split a comma-separated list."""
    if not isinstance(value, str):
        return value
    return tuple(word for word in (part.strip() for part in value.split(",")) if word)


def profiles(value: tuple[str, ...]) -> tuple[str, ...]:
    """Require profiles, at least one, and write each in its one way."""
    if not value:
        raise ValueError("is empty; name one, such as Ubuntu")
    try:
        return tuple(dict.fromkeys(Profile.parse(each).name for each in value))
    except Refused as error:
        raise ValueError(error.text) from None


def networks(value: tuple[str, ...]) -> tuple[str, ...]:
    """Require addresses and networks."""
    for each in value:
        try:
            ipaddress.ip_network(each)
        except ValueError:
            raise ValueError("must be addresses or networks, separated by commas") from None
    return value


def lowered(value: object) -> object:
    """Lower the case of a choice: `RUNNER=Docker` means `docker`."""
    return value.strip().lower() if isinstance(value, str) else value


def language(value: object) -> object:
    """Accept a code such as `he`, and the system's own use of LANGUAGE (a list such as `he_IL:en`)."""
    if not isinstance(value, str) or not re.search(r"[_:]", value):
        return lowered(value)
    preferred = [locale.partition("_")[0].lower() for locale in value.split(":")]
    # A desktop in a third language sets this too; that must not prevent the start.
    return next((name for name in preferred if name in languages()), DEFAULT)


def known_language(value: str) -> str:
    """Require a language that has its file of texts."""
    if value not in languages():
        raise ValueError(f"must be {' or '.join(map(repr, languages()))}")
    return value


def user_range(value: object) -> object:
    """Require a range of user numbers, first-last, without those of accounts and of the system."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\s*(\d{1,10})\s*-\s*(\d{1,10})\s*", value)
    first, last = map(int, found.groups()) if found else (0, 0)
    if not _LEAST_USER <= first <= last <= _LARGEST_USER:
        raise ValueError(f"must be two numbers, first-last, between {_LEAST_USER} and {_LARGEST_USER}")
    return range(first, last + 1)


def text(value: object) -> str:
    """Return a value as it is written in `.env`."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case range():
            return f"{value[0]}-{value[-1]}"
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


Blank = BeforeValidator(blank_is_none)
Lowered = BeforeValidator(lowered)
Language = Annotated[str, AfterValidator(known_language), BeforeValidator(language)]
Port = Annotated[int, Field(ge=0, le=65535)]
Positive = Annotated[int, Field(ge=1)]
Millis = Positive
Strong = Annotated[SecretStr, AfterValidator(strong)]
ProxyUrl = Annotated[SecretStr, AfterValidator(proxy_url)]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(words)]
#: A name that Docker and Kubernetes take as a label's value and as part of a name.
_CLUSTER_NAME = r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?"
ClusterName = Annotated[str, matching(_CLUSTER_NAME, "must be lower-case letters, digits and hyphens, at most 30")]
Profiles = Annotated[Words, AfterValidator(profiles)]
Networks = Annotated[Words, AfterValidator(networks)]
SocketPath = Annotated[Path, AfterValidator(Path.absolute), BeforeValidator(not_blank)]
Directory = Annotated[Path, AfterValidator(Path.absolute), BeforeValidator(not_blank)]
UserRange = Annotated[range, PlainValidator(user_range)]
OptionalStrong = Annotated[Strong | None, Blank]
OptionalDirectory = Annotated[Directory | None, Blank]
OptionalRecipient = Annotated[Annotated[str, AfterValidator(recipient)] | None, Blank]
ClockTime = Annotated[str, matching(_CLOCK_TIME, "must be a time of day, HH:MM")]
OptionalText = Annotated[str | None, Blank]
OptionalUrl = Annotated[Annotated[str, AfterValidator(http_url)] | None, Blank]
OptionalBucketUrl = Annotated[Annotated[str, AfterValidator(bucket_url)] | None, Blank]
OptionalSecret = Annotated[SecretStr | None, Blank]
_CallingCode = Annotated[str, matching(r"[1-9][0-9]{0,2}", "must be a country code without plus or zeros, such as 972")]
OptionalCallingCode = Annotated[_CallingCode | None, Blank]
OptionalFile = Annotated[Path | None, Blank]
OptionalCount = Annotated[Positive | None, Blank]
OptionalMillis = Annotated[Annotated[int, Field(ge=0)] | None, Blank]
#: An end before the start is past midnight, and equal ends mean all day.
_Hours = Annotated[str, matching(f"{_CLOCK_TIME}-{_CLOCK_TIME}", "must be hours of a day, HH:MM-HH:MM")]
_RedisUrl = Annotated[
    SecretStr,
    matching(
        r"(?is)(rediss?(\+sentinel)?|unix):.*", "must begin with redis://, rediss://, unix:// or redis+sentinel://"
    ),
    AfterValidator(sentinel_url),
]
_PostgresUrl = Annotated[SecretStr, AfterValidator(postgres_url)]
_TelegramToken = Annotated[
    SecretStr, matching(r"\d{3,}:[\w-]{20,}", "must be a bot token from @BotFather (digits, a colon, letters)")
]
_TelegramChat = Annotated[
    str, matching(r"-?\d+|@\w{4,}", "must be the id of a chat (digits, a group's with a minus) or @ and a channel")
]
OptionalHours = Annotated[_Hours | None, Blank]
OptionalRedisUrl = Annotated[_RedisUrl | None, Blank]
OptionalPostgresUrl = Annotated[_PostgresUrl | None, Blank]
OptionalTelegramToken = Annotated[_TelegramToken | None, Blank]
OptionalTelegramChat = Annotated[_TelegramChat | None, Blank]
