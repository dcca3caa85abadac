"""`up --simulate --fleet N` and `fleet`: link an imaginary business, send messages, and read them."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
import structlog

#: Session id, label and message of each member of the fleet.
MEMBERS: Final = (
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
#: For what never happens: a busy machine takes minutes to start eight workers.
_LINKED_S: Final = 300.0
_READ_S: Final = 300.0
_POLL_S: Final = 0.2
log = structlog.get_logger(__name__)


def member(number: int) -> tuple[str, str, str]:
    """Return the session id, the label and the message of a member, counted from 0; ids repeat with a number."""
    session_id, name, text = MEMBERS[number % len(MEMBERS)]
    again = number // len(MEMBERS)
    return (session_id, name, text) if not again else (f"{session_id}-{again + 1}", f"{name} {again + 1}", text)


class DemoFleet:
    """Provisions and links sessions through the public API and the simulated phones, then sends messages."""

    def __init__(self, base_url: str, api_key: str, control_url: str, size: int) -> None:
        self._api = httpx.AsyncClient(base_url=base_url, headers={"X-API-Key": api_key}, timeout=30)
        self._world = httpx.AsyncClient(base_url=control_url, timeout=30)
        self._phones = [str(FIRST_PHONE + number) for number in range(size)]

    async def run(self) -> str:
        """Run until the messages have been read, and return a summary. Linked phones stay linked."""
        async with self._api, self._world:
            try:
                sessions = await self._provision()
                linked = await asyncio.gather(*(self._link(sessions[phone], phone) for phone in self._phones))
                log.info("fleet.linked", sessions=sum(linked))
                read = await self._read(await self._send())
            except httpx.HTTPError as error:
                log.error("fleet.failed", error=str(error))
                return "The simulated fleet could not be created; see the log above."
        return f"{sum(linked)} of {len(linked)} simulated phones are linked, and {read} of their messages were read."

    async def _provision(self) -> dict[str, str]:
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
        """Scan each new QR code until the session is connected. Returns whether it is."""
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
            await asyncio.sleep(_POLL_S)
        log.error("fleet.not_linked", session=session_id)
        return False

    async def _send(self) -> list[str]:
        """Send a message from each session to the phone of the next. Returns the accepted messages."""
        accepted = []
        for number, phone in enumerate(self._phones):
            to = self._phones[(number + 1) % len(self._phones)]
            answer = await self._api.post("/api/v1/send", json={"to": to, "message": member(number)[2], "phone": phone})
            log.info("fleet.sent", phone=phone, to=to, status=answer.status_code)
            if answer.status_code == httpx.codes.ACCEPTED:
                accepted.append(str(answer.json()["messageId"]))
        return accepted

    async def _read(self, messages: list[str]) -> int:
        """Wait until all messages have been read, and return their number."""
        deadline = time.monotonic() + _READ_S
        waiting = list(messages)
        while waiting and time.monotonic() < deadline:
            found = (await self._api.get(f"/api/v1/messages/{waiting[0]}")).json()
            if found.get("status") == "read":
                waiting.pop(0)
            else:
                await asyncio.sleep(_POLL_S)
        return len(messages) - len(waiting)


def reading_delay_s() -> float:
    """Return a random number of seconds until a person reads a message."""
    return random.uniform(2.0, 6.0)  # noqa: S311 (not security relevant)


class MessageReaders:
    """Lets every recipient read new messages after a while."""

    def __init__(self, control_url: str, takes_s: Callable[[], float] = reading_delay_s) -> None:
        self._control_url = control_url
        self._takes_s = takes_s
        self._seen = 0

    async def run(self) -> None:
        """Read until cancelled."""
        async with httpx.AsyncClient(base_url=self._control_url, timeout=30) as world, asyncio.TaskGroup() as tasks:
            while True:
                await self.step(world, tasks)
                await asyncio.sleep(_POLL_S)

    async def step(self, world: httpx.AsyncClient, tasks: asyncio.TaskGroup) -> None:
        """Schedule the reading of all messages that have arrived since the last step."""
        arrived: list[dict[str, Any]] = (await world.get("/arrivals", params={"after": self._seen})).json()
        for arrival in arrived:
            self._seen = max(self._seen, int(arrival["n"]))
            sender, recipient = str(arrival["from"]), str(arrival["to"])
            if not arrival["repeat"] and recipient.isdecimal() and recipient != sender:
                tasks.create_task(self._read_later(world, recipient, sender))

    async def _read_later(self, world: httpx.AsyncClient, phone: str, sender: str) -> None:
        await asyncio.sleep(self._takes_s())
        await world.post(f"/phones/{phone}/read", json={"from": sender})
