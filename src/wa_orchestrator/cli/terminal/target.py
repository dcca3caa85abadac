"""The server that a command talks to, and the API key for it."""

import ipaddress
from dataclasses import astuple, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wa_orchestrator.errors import Refused
from wa_orchestrator.server import address, secrets
from wa_orchestrator.settings import Settings, build, read

#: Data directory of `make demo`.
_DEMO = Path(".cache/demo")


@dataclass(frozen=True, slots=True)
class Options:
    """The common options, from the command line or from WA_URL and WA_API_KEY."""

    url: str | None = None
    api_key: str | None = None
    data_dir: Path | None = None
    as_json: bool = False

    def over(self, outer: "Options") -> "Options":
        """Return the options after a subcommand, completed with those before it."""
        return Options(*(own or before for own, before in zip(astuple(self), astuple(outer), strict=True)))


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    url: str
    api_key: str


def find(options: Options) -> Target:
    """Return the server. Missing options are taken from the settings and the data directory of this machine."""
    if options.url and options.api_key:
        return Target(_valid(options.url), options.api_key)
    settings = installation(options.data_dir)
    url = _valid(options.url) if options.url else address.find(settings.data_dir) or settings.local_url
    return Target(url, options.api_key or _own_key(settings, url))


def installation(data_dir: Path | None) -> Settings:
    """Return the settings of the installation on this machine, with its secrets."""
    overrides = {} if data_dir is None else {"data_dir": data_dir}
    return secrets.with_stored(build(read(), **overrides))


def _own_key(settings: Settings, url: str) -> str:
    """Return the key of this machine's installation, which is never sent to another machine."""
    if not _is_local(url):
        raise Refused("API_KEY_NEEDED", f"The server at {url} needs a key. Pass --api-key, or set WA_API_KEY.")
    key = settings.api_key.get_secret_value()
    if not key:
        demo = f" The demo's data directory is {_DEMO}." if address.find(_DEMO) else ""
        raise Refused(
            "API_KEY_NEEDED",
            f"There is no key in {settings.data_dir}. Pass the server's --data-dir, or --url and --api-key.{demo}",
        )
    return key


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _valid(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = None
    if not known:
        raise Refused("BAD_URL", "--url: must be the URL of a server. Example: --url http://127.0.0.1:3001")
    return url.rstrip("/")
