"""The URL of a proxy: strict parsing, an id by hash, and a form without the password."""

import hashlib
import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import quote, unquote

from wa_orchestrator.errors import Refused

SCHEME = "socks5h"
DEFAULT_PORT = 1080
EXAMPLE = "socks5h://user:password@proxy.example.com:1080"
_LONGEST_SECRET = 255  # SOCKS5 has one byte for the length of a name or a password
_SHAPE = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_AUTHORITY = re.compile(r"(?:(?P<login>.*)@)?(?P<host>\[[^\[\]]*\]|[^\[\]:@]*)(?::(?P<port>[^:]*))?", re.DOTALL)
_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")


class BadProxyUrl(Refused):
    """The text is not the URL of a usable proxy; the message says why and what to write, and contains no password."""

    def __init__(self, text: str) -> None:
        super().__init__("BAD_PROXY_URL", text)


@dataclass(frozen=True, slots=True, repr=False)
class ProxyUrl:
    """A SOCKS5 proxy that resolves names itself. `user` and `password` are plain, not percent-encoded."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    known_as: str = ""
    """The id that the pool has for it, where that is another one: its password was changed."""

    @property
    def url(self) -> str:
        """The canonical URL with its password: the same for every spelling of the same proxy."""
        return self._spelled(None if self.password is None else quote(self.password, safe=""))

    @property
    def masked(self) -> str:
        """The URL without its password, for people and logs."""
        return self._spelled(None if self.password is None else "***")

    @property
    def id(self) -> str:
        """A short id by hash; it reveals nothing about the password."""
        return self.known_as or "p_" + hashlib.sha256(self.url.encode()).hexdigest()[:10]

    def _spelled(self, password: str | None) -> str:
        login = "" if self.user is None else quote(self.user, safe="")
        login += "" if password is None else f":{password}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}://{login}{'@' if login else ''}{host}:{self.port}"

    def __repr__(self) -> str:
        return f"ProxyUrl({self.masked!r})"


def parse(text: str) -> ProxyUrl:
    """Parse the URL of a proxy; raise `BadProxyUrl` for anything but `socks5h://`."""
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None:
        raise BadProxyUrl(f"A proxy begins with {SCHEME}://. Write it like {EXAMPLE}.")
    _check_scheme(shape["scheme"].lower())
    authority = _AUTHORITY.fullmatch(shape["rest"].removesuffix("/"))
    if authority is None or any(mark in (authority["host"] + (authority["port"] or "")) for mark in "/?#"):
        raise BadProxyUrl(f"A proxy has a host and a port and nothing after them. Write it like {EXAMPLE}.")
    user, password = _login(authority["login"])
    return ProxyUrl(_host(authority["host"]), _port(authority["port"]), user, password)


def parse_line(line: str) -> ProxyUrl:
    """Parse a line of a provider's list: a URL, or `host:port` or `host:port:user:password`, also as CSV.

    Such a line names no scheme. It is taken for a SOCKS5 proxy that resolves names itself; its first check proves it.
    """
    text = line.strip()
    if "://" in text:
        return parse(text)
    separator = re.search("[,:]", text)  # a host has neither, a password may have both
    parts = [part.strip().strip('"') for part in text.split(separator[0] if separator else ":", 3)]
    if len(parts) not in (2, 4):
        raise BadProxyUrl(f"Write it as host:port:user:password, or as a URL like {EXAMPLE}.")
    host, port, *login = parts
    # Encoded first: a password of a list may have any sign in it, and must not become a part of the address.
    user = f"{':'.join(quote(part, safe='') for part in login)}@" if login else ""
    return parse(f"{SCHEME}://{user}{host}:{port}")


def masked(text: str) -> str:
    """Return the URL `text` without its password; one that cannot be parsed is not shown at all."""
    try:
        return parse(text).masked
    except BadProxyUrl:
        return "***"


def proxy_id(text: str) -> str:
    """Return the id of the proxy with the URL `text`: the same for every spelling of the same proxy."""
    return parse(text).id


def _check_scheme(scheme: str) -> None:
    if scheme == SCHEME:
        return
    if scheme in {"socks5", "socks4", "http", "https"}:
        raise BadProxyUrl(
            f"Begins with {scheme}://, which looks names up on this machine and so shows where you are (a DNS leak). "
            f"Write {SCHEME}://."
        )
    raise BadProxyUrl(f"Begins with {scheme}://, which is not supported. Write {SCHEME}://.")


def _login(login: str | None) -> tuple[str | None, str | None]:
    if not login:
        return None, None
    user, colon, password = login.partition(":")
    if not user:
        raise BadProxyUrl(f"A proxy's password needs a user before it. Write it like {EXAMPLE}.")
    if re.search(r"[/?#@\s]", login):
        raise BadProxyUrl(
            "The user or password has a character that must be percent-encoded: @ as %40, / as %2F, # as %23, "
            "? as %3F, a space as %20."
        )
    plain = unquote(user), unquote(password)
    if any(len(part.encode()) > _LONGEST_SECRET for part in plain):
        raise BadProxyUrl(f"A proxy's user and password have at most {_LONGEST_SECRET} bytes each.")
    return plain[0], plain[1] if colon else None


def _host(host: str) -> str:
    if not host or host == "[]":
        raise BadProxyUrl(f"The proxy's host is missing. Write it like {EXAMPLE}.")
    if host.startswith("["):
        try:
            return str(IPv6Address(host[1:-1]))
        except AddressValueError:
            raise BadProxyUrl("The square brackets must contain an IPv6 address.") from None
    if not _HOST.fullmatch(host):
        raise BadProxyUrl("The proxy's host is not a valid name or address. Use letters, digits, dots and dashes.")
    return host.lower().removesuffix(".")


def _port(port: str | None) -> int:
    if port is None:
        return DEFAULT_PORT
    if re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535:
        return int(port)
    raise BadProxyUrl("The proxy's port is a number from 1 to 65535.")
