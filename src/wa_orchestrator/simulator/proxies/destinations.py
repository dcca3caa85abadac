"""Accounts of proxies, and the destinations that a proxy allows."""

from __future__ import annotations

from dataclasses import dataclass, field

from wa_orchestrator.simulator.ports import LOCAL, Address
from wa_orchestrator.simulator.proxies.socks_protocol import ConnectRequest, Reply

HTTPS = 443


@dataclass(frozen=True, slots=True)
class ProxyAccount:
    """Credentials of one proxy. The user name is the proxy's id, so that a URL identifies it."""

    id: str
    password: str
    port: int
    address: Address = LOCAL

    @property
    def url(self) -> str:
        return f"socks5h://{self.id}:{self.password}@{self.address.name}:{self.port}"


@dataclass(slots=True)
class Destinations:
    """Allowed destinations. `target` is the simulated WhatsApp, set once it listens."""

    target: tuple[str, int] | None = None
    allowed: frozenset[tuple[str, int]] = field(default_factory=frozenset)

    def resolve(self, request: ConnectRequest) -> tuple[str, int] | Reply:
        """Return the address to connect to, or the reply that refuses the request."""
        if (request.host, request.port) in self.allowed:
            return request.host, request.port
        if not is_whatsapp(request.host) or request.port != HTTPS:
            return Reply.NOT_ALLOWED
        return self.target or Reply.HOST_UNREACHABLE


def is_whatsapp(host: str) -> bool:
    """Whether a host name belongs to WhatsApp."""
    return host.endswith((".whatsapp.net", ".whatsapp.com"))
