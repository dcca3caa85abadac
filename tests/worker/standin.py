"""A stand-in for the orchestrator: takes a worker's events, hands out messages and commands, and remembers everything."""

from __future__ import annotations

import asyncio
import json
import secrets
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from standardwebhooks import Webhook, WebhookVerificationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.waiting import PATIENCE_S
from wa_orchestrator.simulator.control.http_server import HttpServer

Json = dict[str, Any]
LEASE_MS = 60_000
"""Long: a worker gives a message up when our answer takes longer than this, and on a busy machine it may take seconds."""
FENCED = {"code": "FENCED", "message": "a newer epoch exists"}


def message_id() -> str:
    return f"msg_{secrets.token_hex(6)}"


def whatsapp_id() -> str:
    return "3EB0" + secrets.token_hex(9).upper()


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class Station:
    """What the server knows of one session."""

    session_id: str
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    secret: str = field(default_factory=lambda: "whsec_" + b64encode(secrets.token_bytes(24)).decode())
    epoch: int = 0
    events: list[Json] = field(default_factory=list)
    event_ids: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    waiting: deque[Json] = field(default_factory=deque)
    commands: deque[Json] = field(default_factory=deque)
    leased: Json | None = None
    acks: list[Json] = field(default_factory=list)
    nacks: list[Json] = field(default_factory=list)
    renewals: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    results: dict[str, Json | bytes] = field(default_factory=dict)
    #: answers to give instead of the right one, for a while
    event_status: int | None = None
    #: messages' events are answered while this is set
    hears_messages: asyncio.Event = field(default_factory=_set_event)
    unheard: int = 0
    outbox_status: int | None = None
    #: what the outbox answers from the moment at which a message is claimed
    status_after_claim: int | None = None
    #: what CREDENTIALS=server has stored: epoch and number of the copy, the copy, the changes after it
    stored: tuple[int, int, list[bytes]] | None = None
    #: copies and changes are answered while this is set, and how many wait for that
    stores: asyncio.Event = field(default_factory=_set_event)
    unstored: int = 0
    #: every number that came, with its kind and epoch
    shipped: list[tuple[str, int, int]] = field(default_factory=list)


class StandIn:
    """`async with StandIn() as server:`; every session gets a station with its own token and secret."""

    def __init__(self) -> None:
        self.stations: dict[str, Station] = {}
        self.files: dict[str, bytes] = {}
        self._closing = False
        self._changed = asyncio.Condition()
        outbox, credentials = (f"/api/worker/sessions/{{session}}/{part}" for part in ("outbox", "credentials"))
        self._service = HttpServer(
            Starlette(
                routes=[
                    Route("/webhook/{session}", self._event, methods=["POST"]),
                    Route(f"{outbox}/claim", self._claim, methods=["POST"]),
                    Route(f"{outbox}/commands/{{command}}/result", self._result, methods=["POST"]),
                    Route(f"{outbox}/commands/{{command}}/file", self._result, methods=["POST"]),
                    Route(f"{outbox}/{{message}}/{{verb}}", self._report, methods=["POST"]),
                    Route(credentials, self._fetch_credentials, methods=["GET"]),
                    Route(f"{credentials}/{{kind}}/{{number:int}}", self._store_credentials, methods=["POST"]),
                    Route("/media/{name}", self._media, methods=["GET"]),
                ]
            )
        )

    async def __aenter__(self) -> Self:
        await self._service.start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._closing = True
        await self._notify()  # ends every long poll
        await self._service.stop()

    @property
    def url(self) -> str:
        return self._service.url

    def station(self, session_id: str) -> Station:
        return self.stations.setdefault(session_id, Station(session_id))

    def environment(self, session_id: str, epoch: int) -> dict[str, str]:
        """What the server would start this session's worker with; from now on older epochs are fenced."""
        station = self.station(session_id)
        station.epoch = max(station.epoch, epoch)
        return {
            "SESSION_ID": session_id,
            "EPOCH": str(epoch),
            "WEBHOOK_URL": f"{self.url}/webhook/{session_id}",
            "WEBHOOK_SECRET": station.secret,
            "OUTBOX_URL": f"{self.url}/api/worker/sessions/{session_id}/outbox",
            "WORKER_TOKEN": station.token,
        }

    # -- what tests do ------------------------------------------------------------------------------------------------

    async def send(self, session_id: str, to: str, **fields: Any) -> Json:
        """Put a message into the outbox."""
        message = {
            "messageId": message_id(),
            "whatsappId": whatsapp_id(),
            "to": to,
            "kind": "text",
            "attempt": 1,
            "leaseMs": LEASE_MS,
            **fields,
        }
        self.station(session_id).waiting.append(message)
        await self._notify()
        return message

    async def command(self, session_id: str, kind: str, **fields: Any) -> str:
        command = {"id": f"cmd_{secrets.token_hex(4)}", "kind": kind, **fields}
        self.station(session_id).commands.append(command)
        await self._notify()
        return str(command["id"])

    def publish(self, content: bytes) -> str:
        """Lay a file down for a message; returns its address."""
        name = secrets.token_hex(8)
        self.files[name] = content
        return f"{self.url}/media/{name}"

    async def until(self, predicate: Callable[[], Any], timeout: float = PATIENCE_S) -> Any:
        """Wait until something that the worker told us makes the predicate true; returns what it gave."""
        async with asyncio.timeout(timeout), self._changed:
            while not (found := predicate()):
                await self._changed.wait()
            return found

    async def event(
        self, session_id: str, kind: str, *, after: int = 0, timeout: float = PATIENCE_S, **data: Any
    ) -> Json:
        """Wait for an event whose data has these values; events before number `after` do not count."""
        station = self.station(session_id)

        def find() -> Json | None:
            for event in station.events[after:]:
                if event["type"] == kind and all(event["data"].get(name) == value for name, value in data.items()):
                    return event
            return None

        try:
            found: Json = await self.until(find, timeout)
        except TimeoutError:
            seen = [(event["type"], event["data"]) for event in station.events[after:] if event["type"] != "PING"]
            raise AssertionError(f"no {kind} {data}; seen: {seen}") from None
        return found

    async def acked(self, message: Json, timeout: float = PATIENCE_S) -> Json:
        station = self._station_of(message)
        try:
            return await self._outcome(station.acks, message, timeout)
        except TimeoutError:
            raise AssertionError(f"no ack; nacks: {station.nacks}") from None

    async def nacked(self, message: Json, timeout: float = PATIENCE_S) -> Json:
        return await self._outcome(self._station_of(message).nacks, message, timeout)

    async def result(self, session_id: str, command_id: str) -> Json | bytes:
        results = self.station(session_id).results
        return await self.until(lambda: results.get(command_id))  # type: ignore[no-any-return]

    async def _outcome(self, book: list[Json], message: Json, timeout: float) -> Json:
        def find() -> Json | None:
            return next((entry for entry in book if entry["messageId"] == message["messageId"]), None)

        found: Json = await self.until(find, timeout)
        return found

    def _station_of(self, message: Json) -> Station:
        for station in self.stations.values():
            known = [*station.waiting, *station.acks, *station.nacks, *([station.leased] if station.leased else [])]
            if any(entry["messageId"] == message["messageId"] for entry in known):
                return station
        raise AssertionError("nobody was given this message")

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # -- what workers do ----------------------------------------------------------------------------------------------

    async def _event(self, request: Request) -> Response:
        station = self.station(request.path_params["session"])
        body = await request.body()
        if station.event_status:
            return JSONResponse({"code": "AWAY"}, station.event_status)
        if request.headers.get("authorization") != f"Bearer {station.token}":
            station.refused.append("no token")
            return JSONResponse({"code": "WORKER_TOKEN_WRONG"}, 401)
        try:
            Webhook(station.secret).verify(body, dict(request.headers))
        except WebhookVerificationError as error:
            station.refused.append(str(error))
            return JSONResponse({"code": "STALE_SIGNATURE" if "timestamp" in str(error) else "BAD_SIGNATURE"}, 401)
        event = json.loads(body)
        if event["type"].startswith("MESSAGE_"):
            station.unheard += 1
            await self._notify()
            await station.hears_messages.wait()
            station.unheard -= 1
        if event["epoch"] < station.epoch:
            return JSONResponse(FENCED, 409)
        if (unique := request.headers["webhook-id"]) not in station.event_ids:
            station.event_ids.add(unique)
            station.events.append(event)
            await self._notify()
        return Response(status_code=204)

    def _refusal(self, request: Request, station: Station) -> Response | None:
        if request.headers.get("authorization") != f"Bearer {station.token}":
            return JSONResponse({"code": "FORBIDDEN"}, 403)
        if int(request.headers.get("x-epoch", "-1")) < station.epoch:
            return JSONResponse(FENCED, 409)
        return JSONResponse({"code": "AWAY"}, station.outbox_status) if station.outbox_status else None

    async def _claim(self, request: Request) -> Response:
        station = self.station(request.path_params["session"])
        asked = await request.json()
        if refusal := self._refusal(request, station):
            return refusal
        epoch = int(request.headers["x-epoch"])
        if "process" in asked:
            station.processes.append(asked["process"])

        def next_thing() -> Json | None:
            if epoch < station.epoch or self._closing:
                return FENCED
            if station.commands:
                return {"command": station.commands.popleft()}
            if asked.get("accept") == ["commands"] or station.leased or not station.waiting:
                return None
            station.leased = station.waiting.popleft()
            station.outbox_status = station.status_after_claim or station.outbox_status
            return station.leased

        try:
            found = await self.until(next_thing, timeout=asked["waitMs"] / 1000)
        except TimeoutError:
            return Response(status_code=204)
        return JSONResponse(found, 409 if found is FENCED else 200)

    def take_back(self, session_id: str) -> None:
        """What a server does when it starts a new worker: the leased message goes back to the front."""
        station = self.station(session_id)
        if station.leased:
            station.waiting.appendleft(station.leased)
            station.leased = None

    async def _report(self, request: Request) -> Response:
        station = self.station(request.path_params["session"])
        body = await request.json()
        if refusal := self._refusal(request, station):
            return refusal
        message, verb = request.path_params["message"], request.path_params["verb"]
        if verb == "renew":
            station.renewals.append(message)
            held = station.leased is not None and station.leased["messageId"] == message
            return Response(status_code=204 if held else 404)
        book = station.acks if verb == "ack" else station.nacks
        book.append({"messageId": message, **body})
        if station.leased and station.leased["messageId"] == message:
            station.leased = None
        await self._notify()
        return Response(status_code=204)

    async def _result(self, request: Request) -> Response:
        station = self.station(request.path_params["session"])
        body = await request.body()
        if refusal := self._refusal(request, station):
            return refusal
        is_json = request.headers["content-type"] == "application/json"
        station.results[request.path_params["command"]] = json.loads(body) if is_json else body
        await self._notify()
        return Response(status_code=204)

    async def _fetch_credentials(self, request: Request) -> Response:
        station = self.station(request.path_params["session"])
        if refusal := self._refusal(request, station):
            return refusal
        if station.stored is None or request.query_params.get("known") == str(station.stored[0]):
            return Response(status_code=204)
        epoch, first, parts = station.stored
        body = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return Response(body, headers={"x-epoch": str(epoch), "x-first": str(first)})

    async def _store_credentials(self, request: Request) -> Response:
        """As the two scripts of the product do it; `tests/store` compares those with their promises."""
        station = self.station(request.path_params["session"])
        body = await request.body()
        station.unstored += 1
        await self._notify()
        await station.stores.wait()
        station.unstored -= 1
        if refusal := self._refusal(request, station):
            return refusal
        epoch, number = int(request.headers["x-epoch"]), int(request.path_params["number"])
        kind = request.path_params["kind"]
        station.shipped.append((kind, epoch, number))
        owner, first, parts = station.stored or (0, 0, [])
        newest = first + len(parts) - 1 if owner == epoch else 0
        if kind == "copy" and number > newest:
            station.stored = (epoch, number, [body])
        elif kind == "changes" and (owner != epoch or number > newest + 1):
            return JSONResponse({"code": "COPY_NEEDED"}, 409)
        elif kind == "changes" and number == newest + 1:
            parts.append(body)
        await self._notify()
        return Response(status_code=204)

    async def _media(self, request: Request) -> Response:
        known = {f"Bearer {station.token}" for station in self.stations.values()}
        if request.headers.get("authorization") not in known:
            return JSONResponse({"code": "FORBIDDEN"}, 403)
        content = self.files.get(request.path_params["name"])
        return Response(status_code=404) if content is None else Response(content)
