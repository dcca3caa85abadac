"""HTTP client of a running server, for the command line, tests and integrators: `Client` and `AsyncClient`.

with Client("http://127.0.0.1:3001", "wao_…") as client:
    sent = client.send("972501234567", "Your order is ready.")
    client.message(sent["messageId"])["status"]
"""

from wa_orchestrator.client.errors import ApiError
from wa_orchestrator.client.transport import AsyncClient, Client

__all__ = ["ApiError", "AsyncClient", "Client"]
