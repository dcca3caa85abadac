"""Which server a command talks to, and with which key."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wa_orchestrator.errors import Refused
from wa_orchestrator.server import address, secrets
from wa_orchestrator.settings import Settings, build, read

#: Where `make demo` keeps everything.
_DEMO = Path(".cache/demo")


@dataclass(frozen=True, slots=True)
class Given:
    """What was typed, or stands in WA_URL and WA_API_KEY."""

    url: str | None = None
    api_key: str | None = None
    data_dir: Path | None = None
    as_json: bool = False

    def over(self, before: "Given | None") -> "Given":
        """Complete what was typed after a subcommand with what was typed before it."""
        if before is None:
            return self
        return Given(
            self.url or before.url,
            self.api_key or before.api_key,
            self.data_dir or before.data_dir,
            self.as_json or before.as_json,
        )


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """A server and a key that opens it."""

    url: str
    api_key: str


def find(given: Given) -> Target:
    """Find the server. What was not given is taken from the settings and the data directory of this machine."""
    if given.url and given.api_key:
        return Target(_checked(given.url), given.api_key)
    settings = _installation(given.data_dir)
    url = _checked(given.url) if given.url else address.find(settings.data_dir) or settings.local_url
    return Target(url, given.api_key or _own_key(settings, url))


def _installation(data_dir: Path | None) -> Settings:
    overrides = {} if data_dir is None else {"data_dir": data_dir}
    return secrets.with_stored(build(read(), **overrides))


def _own_key(settings: Settings, url: str) -> str:
    """The key of this machine's installation, which is for this machine's server only."""
    if not _is_here(url):
        raise Refused("API_KEY_NEEDED", f"The server at {url} needs a key. Give --api-key, or set WA_API_KEY.")
    key = settings.api_key.get_secret_value()
    if not key:
        demo = f" The demo's is {_DEMO}." if address.find(_DEMO) else ""
        raise Refused(
            "API_KEY_NEEDED",
            f"There is no key in {settings.data_dir}. Name the server's directory with --data-dir, "
            f"or give --url and --api-key.{demo}",
        )
    return key


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = None
    if not known:
        raise Refused("BAD_URL", "--url: is no address of a server. Example: --url http://127.0.0.1:3001")
    return url.rstrip("/")
