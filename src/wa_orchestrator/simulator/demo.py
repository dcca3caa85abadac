"""`up --simulate --fleet N`: sessions of an imaginary business that link themselves and write, and people who read."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
import structlog

#: Who they are and what they write, once per start: an id, a name, a text.
CAST: Final = (
    ("support", "Support line", "Hello, your ticket is solved. Write to us if anything is left."),
    ("sales", "Sales", "The offer you asked for is in your mail. It is good until the end of the month."),
    ("haifa", "Haifa branch", "Your order is ready. We are open until seven."),
    ("jerusalem", "Jerusalem branch", "The part you ordered has come in. We keep it for you."),
    ("deliveries", "Deliveries", "The courier will be with you between two and four."),
    ("bookings", "Bookings", "Your table for four is booked for Friday at eight."),
    ("billing", "Billing", "Thank you, your payment has arrived."),
    ("repairs", "Repairs", "Your bicycle is repaired and waits for you."),
)
FIRST_PHONE: Final = 972500000001
_LINKED_S: Final = 110.0
_READ_S: Final = 120.0
_LOOK_S: Final = 0.2
log = structlog.get_logger(__name__)


def member(number: int) -> tuple[str, str, str]:
    """Give the id, the name and the text of a member of the fleet, counted from 0; larger fleets have second ones."""
    session_id, name, text = CAST[number % len(CAST)]
    again = number // len(CAST)
    return (session_id, name, text) if not again else (f"{session_id}-{again + 1}", f"{name} {again + 1}", text)


class LinkedFleet:
    """Provisions and links sessions through the public API and the simulated phones, then lets them write."""

    def __init__(self, base_url: str, api_key: str, control_url: str, size: int) -> None:
        self._api = httpx.AsyncClient(base_url=base_url, headers={"X-API-Key": api_key}, timeout=30)
        self._world = httpx.AsyncClient(base_url=control_url, timeout=30)
        self._phones = [str(FIRST_PHONE + number) for number in range(size)]

    async def run(self) -> str:
        """Do it, until what was written has been read, and say what came of it. Phones that are linked stay so."""
        async with self._api, self._world:
            try:
                sessions = await self._provisioned()
                linked = await asyncio.gather(*(self._link(sessions[phone], phone) for phone in self._phones))
                log.info("fleet.linked", sessions=sum(linked))
                read = await self._read(await self._talk())
            except httpx.HTTPError as error:
                log.error("fleet.failed", error=str(error))
                return "The simulated fleet could not be made; the lines above say why."
        return f"{sum(linked)} of {len(linked)} simulated phones are linked, and {read} of their messages were read."

    async def _provisioned(self) -> dict[str, str]:
        listed = (await self._api.get("/api/sessions", params={"limit": 500})).raise_for_status().json()
        sessions = {each["phone"]: each["sessionId"] for each in listed["sessions"] if each["phone"] in self._phones}
        for number, phone in enumerate(self._phones):
            if phone not in sessions:
                session_id, name, _ = member(number)
                body = {"sessionId": session_id, "phone": phone, "label": name}
                (await self._api.post("/api/sessions/provision", json=body)).raise_for_status()
                sessions[phone] = session_id
        return sessions

    async def _link(self, session_id: str, phone: str) -> bool:
        """Scan each new code until the session is connected; False if it never is."""
        scanned = ""
        deadline = time.monotonic() + _LINKED_S
        while time.monotonic() < deadline:
            status = (await self._api.get(f"/api/sessions/{session_id}/status")).json()
            if status.get("status") == "connected":
                return True
            shown = await self._api.get(f"/api/sessions/{session_id}/qr", headers={"Accept": "application/json"})
            code = shown.json().get("qr", "") if shown.status_code == httpx.codes.OK else ""
            if code and code != scanned:
                scanned = code
                answer = await self._world.post(f"/phones/{phone}/scan", json={"qr": code})
                log.info("fleet.scanned", session=session_id, status=answer.status_code)
            await asyncio.sleep(_LOOK_S)
        log.error("fleet.not_linked", session=session_id)
        return False

    async def _talk(self) -> list[str]:
        """Let each session write to the next one's phone; gives the messages that were taken."""
        taken = []
        for number, phone in enumerate(self._phones):
            to = self._phones[(number + 1) % len(self._phones)]
            answer = await self._api.post("/api/v1/send", json={"to": to, "message": member(number)[2], "phone": phone})
            log.info("fleet.sent", phone=phone, to=to, status=answer.status_code)
            if answer.status_code == httpx.codes.ACCEPTED:
                taken.append(str(answer.json()["messageId"]))
        return taken

    async def _read(self, messages: list[str]) -> int:
        """Wait until all of them have been read; gives how many were."""
        deadline = time.monotonic() + _READ_S
        waiting = list(messages)
        while waiting and time.monotonic() < deadline:
            found = (await self._api.get(f"/api/v1/messages/{waiting[0]}")).json()
            if found.get("status") == "read":
                waiting.pop(0)
            else:
                await asyncio.sleep(_LOOK_S)
        return len(messages) - len(waiting)


def a_while() -> float:
    """Draw how many seconds a person takes to look at a message."""
    return random.uniform(2.0, 6.0)  # noqa: S311 (nobody guesses it for gain)


class Readers:
    """The people of the simulated world: whoever gets a message looks at it after a while."""

    def __init__(self, control_url: str, takes_s: Callable[[], float] = a_while) -> None:
        self._control_url = control_url
        self._takes_s = takes_s
        self._seen = 0

    async def run(self) -> None:
        """Read until cancelled."""
        async with httpx.AsyncClient(base_url=self._control_url, timeout=30) as world, asyncio.TaskGroup() as people:
            while True:
                await self.step(world, people)
                await asyncio.sleep(_LOOK_S)

    async def step(self, world: httpx.AsyncClient, people: asyncio.TaskGroup) -> None:
        """See what arrived since the last look, and let each recipient read it in their own time."""
        arrived: list[dict[str, Any]] = (await world.get("/arrivals", params={"after": self._seen})).json()
        for arrival in arrived:
            self._seen = max(self._seen, int(arrival["n"]))
            sender, recipient = str(arrival["from"]), str(arrival["to"])
            if not arrival["repeat"] and recipient.isdecimal() and recipient != sender:
                people.create_task(self._look(world, recipient, sender))

    async def _look(self, world: httpx.AsyncClient, phone: str, sender: str) -> None:
        await asyncio.sleep(self._takes_s())
        await world.post(f"/phones/{phone}/read", json={"from": sender})
