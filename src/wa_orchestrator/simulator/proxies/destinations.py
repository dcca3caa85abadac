"""Who a proxy's customer is, and where a proxy may lead to."""

from __future__ import annotations

from dataclasses import dataclass, field

from wa_orchestrator.simulator.ports import LOOPBACK
from wa_orchestrator.simulator.proxies.socks_protocol import Reply, Request

HTTPS = 443


@dataclass(frozen=True, slots=True)
class Account:
    """One proxy as its customer knows it. The user's name is the proxy's id, so a URL says which one it is."""

    id: str
    password: str
    port: int

    @property
    def url(self) -> str:
        return f"socks5h://{self.id}:{self.password}@{LOOPBACK}:{self.port}"


@dataclass(slots=True)
class Route:
    """Where a proxy may lead to. `target` is the simulated WhatsApp, known once it listens."""

    target: tuple[str, int] | None = None
    allowed: frozenset[tuple[str, int]] = field(default_factory=frozenset)

    def resolve(self, request: Request) -> tuple[str, int] | Reply:
        """Find the address to dial for a request, or the reason to refuse it."""
        if (request.host, request.port) in self.allowed:
            return request.host, request.port
        if not is_whatsapp(request.host) or request.port != HTTPS:
            return Reply.NOT_ALLOWED
        return self.target or Reply.HOST_UNREACHABLE


def is_whatsapp(host: str) -> bool:
    """Whether a name is one of WhatsApp's that the simulator answers for."""
    return host.endswith((".whatsapp.net", ".whatsapp.com"))
