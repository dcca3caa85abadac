"""A secret of every kind, and the search for them in everything that was said."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import pyrage
from pydantic import SecretStr

#: The public half is the recipient of the backups.
_AGE: Final = pyrage.x25519.Identity.generate()


def _key(text: str) -> str:
    return base64.b64encode(text.encode().ljust(32, b"."))[:44].decode()


SECRETS: Final = {
    "API_KEY": "wao_canaryQ7xLm2Vt9Rk4Zb",
    "WEBHOOK_SECRET": "whsec_" + _key("canary: root of all workers"),
    "WEBHOOK_SECRET_PREVIOUS": "whsec_" + _key("canary: root before that"),
    "AUTH_KEY": _key("canary: key of credentials"),
    "AUTH_KEY_PREVIOUS": _key("canary: credentials before"),
    "DASHBOARD_PASSWORD": "canary-willow-83-anchors",
    "VIEWER_PASSWORD": "canary-meadow-17-lanterns",
    "ALERT_WEBHOOK_SECRET": "whsec_" + _key("canary: signs the alerts"),
    "TELEGRAM_BOT_TOKEN": "123456789:canaryAAHk2vQ9xR7mN5tB3wZ8yL4c",
    "BACKUP_S3_SECRET_KEY": "canary+Secret/Of.The.Store0",
    "MEDIA_S3_SECRET_KEY": "canary+Secret/Of.The.Files1",
    "proxy password": "canary-proxy-pass-9f3",
    "proxy password of a request": "canary-proxy-pass-new",
    "password of Redis": "canary-redis-pass-5d1",
    "age key": str(_AGE),
    "account password": "canary-copper-52-rivers",
    "second factor": "canarysecondfactor01",
    "webhook secret": "whsec_" + _key("canary: a customer's webhook"),
    "another API key": "wao_canaryOfNobody8Wd3Hs6Tj",
}
PROXY: Final = f"socks5h://user:{SECRETS['proxy password']}@127.0.0.1:1"
NEW_PROXY: Final = f"socks5h://user:{SECRETS['proxy password of a request']}@127.0.0.1:2"


def settings() -> dict[str, Any]:
    """The settings with every secret set; nobody answers at the addresses."""
    stores = ("BACKUP_S3_SECRET_KEY", "MEDIA_S3_SECRET_KEY")
    names = ("WEBHOOK_SECRET", "AUTH_KEY", "ALERT_WEBHOOK_SECRET", "TELEGRAM_BOT_TOKEN", *stores)
    more = ("API_KEY", "DASHBOARD_PASSWORD", "VIEWER_PASSWORD", "WEBHOOK_SECRET_PREVIOUS", "AUTH_KEY_PREVIOUS")
    return {name.lower(): SecretStr(SECRETS[name]) for name in (*names, *more)} | {
        "proxy_urls": (SecretStr(PROXY),),
        "telegram_chat_id": "-100123",
        "telegram_api_url": "http://127.0.0.1:1",
        "alert_webhook_url": "http://127.0.0.1:1/alerts",
        "backup_s3_url": "http://127.0.0.1:1/bucket",
        "backup_s3_access_key": "wa",
        "backup_recipient": str(_AGE.to_public()),
        "allow_private_urls": True,
    }


def spellings(secret: str) -> set[str]:
    """How a secret may be written: as it is, without its public prefix, in a URL, in base64, in hex."""
    bare = secret.removeprefix("whsec_").removeprefix("wao_")
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    return {bare, quote(bare, safe=""), encoded, secret.encode().hex(), repr(bare)[1:-1]}


#: What a person has typed into a request: that person may see it again, an error and a log may not repeat it.
TYPED_NAMES: Final = frozenset({"proxy password of a request", "age key", "another API key"})


@dataclass
class Said:
    """Everything that was said to somebody: where, what, and whether it was an error."""

    texts: list[tuple[str, str, bool]] = field(default_factory=list)

    def add(self, where: str, text: str, *, is_error: bool = True) -> None:
        self.texts.append((where, text, is_error))

    def leaks(self) -> list[tuple[str, str, str]]:
        """Name of the secret, where it was said, and what stands around it."""
        return [found for where, text, is_error in self.texts for found in _in(where, text, is_error=is_error)]


def _in(where: str, text: str, *, is_error: bool) -> Iterator[tuple[str, str, str]]:
    for name, secret in SECRETS.items():
        if name in TYPED_NAMES and not is_error:
            continue
        for each in spellings(secret):
            if (at := text.find(each)) >= 0:
                yield name, where, text[max(0, at - 120) : at + len(each) + 20]
