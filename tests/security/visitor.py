"""A browser without scripts: it keeps the cookies of one person and sends the headers that browsers send."""

import re

import httpx

from tests.security.fleet import TwoCustomers
from wa_orchestrator.dashboard import accounts
from wa_orchestrator.domain.access.permissions import Role
from wa_orchestrator.store.access import people

ORIGIN = "http://server"
PASSWORD = "copper-lantern-52-rivers"


class Visitor:
    def __init__(self, fleet: TwoCustomers) -> None:
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(fleet.app, raise_app_exceptions=False),
            base_url=ORIGIN,
            timeout=60,
            headers={"Accept-Language": "en"},
        )

    async def log_in(self, name: str, *, browser: str = "Mozilla/5.0", password: str = PASSWORD) -> None:
        headers = {"Origin": ORIGIN, "User-Agent": browser}
        answer = await self.client.post("/login", headers=headers, data={"name": name, "password": password})
        assert answer.status_code == 303, answer.text

    async def token(self) -> str:
        """Return the token of the login's pages."""
        found = re.search(r'data-csrf="([0-9a-f]+)"', (await self.client.get("/")).text)
        assert found
        return found[1]


async def person(
    fleet: TwoCustomers, name: str, role: Role = Role.ADMINISTRATOR, *labels: str, password: str = PASSWORD
) -> str:
    """Make an account with a password; gives its id."""
    account = await people.create(fleet.context.scripts, name, role, labels)
    await accounts.set_password(fleet.context.scripts, account.id, password)
    return account.id
