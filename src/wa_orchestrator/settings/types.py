"""What a setting may look like: one small check per kind of value. Each error says what is wrong, never a secret."""

import contextlib
import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from wa_orchestrator.domain.proxy_url import BadProxyUrl
from wa_orchestrator.domain.proxy_url import parse as parse_proxy

MIN_SECRET_CHARS = 16
#: Long enough to pass for a secret, and in every list of passwords or every example.
_WELL_KNOWN = (
    "changeme",
    "change-me",
    "change_me",
    "password",
    "secret",
    "example",
    "default",
    "test",
    "admin",
    "letmein",
)
#: The examples of the settings page: good secrets until they were printed.
EXAMPLE_API_KEY = "wao_2Jv0Zc5Xq8sR1mT7kD4hW9bN"
EXAMPLE_WEBHOOK_SECRET = "whsec_Zm9yLWV4YW1wbGUtb25seS0xMjM0NQ=="  # noqa: S105
EXAMPLE_PASSWORD = "correct-horse-battery-staple"  # noqa: S105
EXAMPLE_VIEWER_PASSWORD = "green-ladder-seven-windows"  # noqa: S105
_PUBLISHED = (EXAMPLE_API_KEY, EXAMPLE_WEBHOOK_SECRET, EXAMPLE_PASSWORD, EXAMPLE_VIEWER_PASSWORD)
_WELL_KNOWN_SHAPE = re.compile(
    rf"(?:{'|'.join(_WELL_KNOWN)}|your|my|api|key|token|webhook|please|the|this|[\W_\d])+", re.IGNORECASE
)
_TELEGRAM_TOKEN = re.compile(r"\d{3,}:[A-Za-z0-9_-]{20,}")
_CLOCK_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_HOURS = re.compile(rf"{_CLOCK_TIME.pattern}-{_CLOCK_TIME.pattern}")
LANGUAGES = ("en", "he")


def knob(default: Any, *, example: object) -> Any:
    """Give a setting a default, and an example for where the default is none itself."""
    return Field(default, examples=[example])


def strong(secret: SecretStr) -> SecretStr:
    """Refuse a secret that is empty, short, well known or monotonous."""
    value = secret.get_secret_value()
    if not value.strip():
        raise ValueError("is empty. Remove the line to have one made for you, or give one")
    if len(value) < MIN_SECRET_CHARS:
        raise ValueError(f"is too short ({len(value)} characters); a secret needs {MIN_SECRET_CHARS} or more")
    if value in _PUBLISHED or _WELL_KNOWN_SHAPE.fullmatch(value) or len(set(value)) < 6:
        raise ValueError("is easy to guess; use random characters, or remove the line to have one made for you")
    return secret


def strong_if_given(secret: SecretStr | None) -> SecretStr | None:
    """Refuse a weak secret where one is given."""
    return None if secret is None else strong(secret)


def blank_is_none(value: object) -> object:
    """Take an empty optional setting as not set: compose files pass `NAME=` for what the operator left out."""
    return None if isinstance(value, str) and not value.strip() else value


def not_blank(value: object) -> object:
    """Refuse an empty text."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("is empty")
    return value


def telegram_token(token: SecretStr | None) -> SecretStr | None:
    """Require the shape that BotFather gives out."""
    if token is not None and not _TELEGRAM_TOKEN.fullmatch(token.get_secret_value()):
        raise ValueError("is not a bot token as @BotFather gives it (digits, a colon, letters)")
    return token


def http_url(url: str | None) -> str | None:
    """Require an http or https address; a slash at the end is dropped."""
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address that begins with http:// or https://")
    return url.rstrip("/")


def redis_url(url: SecretStr | None) -> SecretStr | None:
    """Require an address that the Redis client understands."""
    if url is not None and urlsplit(url.get_secret_value()).scheme not in ("redis", "rediss", "unix"):
        raise ValueError("must begin with redis://, rediss:// or unix://")
    return url


def proxy_url(url: SecretStr) -> SecretStr:
    """Require a SOCKS5 proxy that resolves names itself, and spell it the one way the pool does."""
    try:
        return SecretStr(parse_proxy(url.get_secret_value()).url)
    except BadProxyUrl as error:
        raise ValueError(error.text[0].lower() + error.text[1:].removesuffix(".")) from None


def zone(name: str) -> str:
    """Require a time zone that this machine or the tzdata package knows."""
    try:
        ZoneInfo(name or "/")  # an empty key would open the directory of all zones
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {name!r}") from error
    return name


def machine_zone(environ_tz: str | None = None, localtime: Path = Path("/etc/localtime")) -> str:
    """Name the machine's time zone: `TZ`, else what /etc/localtime links to, else UTC."""
    wanted = (os.environ.get("TZ", "") if environ_tz is None else environ_tz).removeprefix(":")
    linked = str(localtime.resolve()).partition("zoneinfo/")[2]
    for name in (wanted.partition("zoneinfo/")[2] or wanted, linked):
        with contextlib.suppress(ValueError):
            return zone(name)
    return "UTC"


def clock_time(value: str) -> str:
    """Require HH:MM."""
    if not _CLOCK_TIME.fullmatch(value):
        raise ValueError("must be a time of day, HH:MM")
    return value


def hours(value: str | None) -> str | None:
    """Require HH:MM-HH:MM; an end before the start is past midnight, and both the same are all day."""
    if value is not None and not _HOURS.fullmatch(value):
        raise ValueError("must be hours of a day, HH:MM-HH:MM")
    return value


def reachable(host: str) -> str:
    """Write a listening address as one connects to it: a server that listens on every address is on loopback too."""
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


def words(value: object) -> object:
    """Split a list that is written with commas."""
    if not isinstance(value, str):
        return value
    return tuple(word for word in (part.strip() for part in value.split(",")) if word)


def lowered(value: object) -> object:
    """Take the capitals out of a choice: `RUNNER=Docker` is meant as `docker`."""
    return value.strip().lower() if isinstance(value, str) else value


def language(value: object) -> object:
    """Understand `en` and `he`, and the system's own use of LANGUAGE (a list such as `he_IL:en`)."""
    if not isinstance(value, str) or not re.search(r"[_:]", value):
        return lowered(value)
    preferred = [locale.partition("_")[0].lower() for locale in value.split(":")]
    # A desktop in a third language sets this too; that must not keep the product from starting.
    return next((name for name in preferred if name in LANGUAGES), "en")


def age_recipient(value: str | None) -> str | None:
    """Require a public key of age."""
    if value is not None and not re.fullmatch(r"age1[0-9a-z]{58}", value):
        raise ValueError("must be a public key of age, which begins with age1 (a secret key must not be here)")
    return value


Blank = BeforeValidator(blank_is_none)
Lowered = BeforeValidator(lowered)
Strong = Annotated[SecretStr, AfterValidator(strong)]
OptionalStrong = Annotated[SecretStr | None, AfterValidator(strong_if_given), Blank]
Text = Annotated[str | None, Blank]
Url = Annotated[str | None, AfterValidator(http_url), Blank]
ProxyUrl = Annotated[SecretStr, AfterValidator(proxy_url)]
Directory = Annotated[Path, AfterValidator(Path.absolute), BeforeValidator(not_blank)]
OptionalFile = Annotated[Path | None, Blank]
Port = Annotated[int, Field(ge=0, le=65535)]
Positive = Annotated[int, Field(ge=1)]
Millis = Annotated[int, Field(ge=1)]
OptionalCount = Annotated[Annotated[int, Field(ge=1)] | None, Blank]
OptionalMillis = Annotated[Annotated[int, Field(ge=0)] | None, Blank]
Hours = Annotated[str | None, AfterValidator(hours), Blank]
RedisUrl = Annotated[SecretStr | None, AfterValidator(redis_url), Blank]
TelegramToken = Annotated[SecretStr | None, AfterValidator(telegram_token), Blank]
AgeRecipient = Annotated[str | None, AfterValidator(age_recipient), Blank]
