"""The address of a Redis that Sentinels watch: redis+sentinel://user:password@host:26379,host:26379/service/0."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

_PORT: Final = 26379
_SCHEMES: Final = {"redis+sentinel": False, "rediss+sentinel": True}
_FORM: Final = "redis+sentinel://:password@one.example.com:26379,two.example.com:26379/service/0"


class BadSentinelUrl(ValueError):  # noqa: N818
    """The address cannot be used; the message says why, without repeating it: it may hold a password."""


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """Which Sentinels to ask, and for which service; user and password are those of Redis itself."""

    sentinels: tuple[tuple[str, int], ...]
    service: str
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)
    is_tls: bool = False


def is_sentinel_url(url: str) -> bool:
    """Whether an address names Sentinels rather than a Redis."""
    return urlsplit(url).scheme in _SCHEMES


def parse(url: str) -> SentinelUrl:
    """Read an address. Raises BadSentinelUrl."""
    parts = urlsplit(url)
    user_info, _, hosts = parts.netloc.rpartition("@")
    username, _, password = user_info.partition(":")
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise BadSentinelUrl(f"names no service; the form is {_FORM}")
    if not (database or "0").isdecimal():
        raise BadSentinelUrl("the database after the service must be a number")
    query = parse_qs(parts.query)
    if unknown := sorted(query.keys() - {"sentinel_password"}):
        raise BadSentinelUrl(f"has parameters that are not known: {', '.join(unknown)}; only sentinel_password is")
    return SentinelUrl(
        sentinels=tuple(_parse_host(host) for host in hosts.split(",")),
        service=unquote(service),
        database=int(database or 0),
        username=unquote(username) or None,
        password=unquote(password) or None,
        sentinel_password=query.get("sentinel_password", [None])[0],
        is_tls=_SCHEMES[parts.scheme],
    )


def _parse_host(text: str) -> tuple[str, int]:
    try:
        host = urlsplit(f"//{text}")
        port = host.port or _PORT
    except ValueError:
        raise BadSentinelUrl("a Sentinel's port must be a number from 1 to 65535") from None
    if not host.hostname:
        raise BadSentinelUrl(f"names no Sentinel; the form is {_FORM}")
    return host.hostname, port
