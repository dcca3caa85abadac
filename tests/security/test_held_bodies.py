"""A hijacked worker that sends many long bodies at once takes little of the server's memory, and nobody else's room."""

import asyncio
import time
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp, Message

from tests.orchestrator.fakes import FakeRunner
from tests.waiting import until
from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.orchestrator import service
from wa_orchestrator.orchestrator.api.workers import credentials, events
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.server import bootstrap
from wa_orchestrator.server.bootstrap import ControlApps
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.web import held_bodies

THIEF, VICTIM = "thief", "victim"
#: As many connections as a worker may open.
MANY = 256
EVENT = "/webhook"
BASE = f"/api/worker/sessions/{THIEF}"


@dataclass
class Upload:
    """A request whose body never comes to an end: the server reads it, or answers without."""

    app: ASGIApp
    path: str
    headers: dict[str, str]
    is_read: bool = False
    answers: list[Message] = field(default_factory=list)
    hangs_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        scope = {
            "type": "http", "method": "POST", "path": self.path, "raw_path": self.path.encode(), "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in self.headers.items()],
            "scheme": "http", "http_version": "1.1", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }  # fmt: skip
        await self.app(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        self.is_read = True
        await self.hangs_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.answers.append(message)

    @property
    def status(self) -> int | None:
        return self.answers[0]["status"] if self.answers else None

    @property
    def is_settled(self) -> bool:
        return self.is_read or self.status is not None


@dataclass
class Crowd:
    """Requests that go on at once."""

    uploads: list[Upload]
    tasks: list[asyncio.Task[None]]

    @property
    def read(self) -> int:
        return sum(each.is_read for each in self.uploads)

    @property
    def refusals(self) -> set[int | None]:
        return {each.status for each in self.uploads if not each.is_read}

    async def end(self) -> None:
        for each in self.uploads:
            each.hangs_up.set()
        await asyncio.gather(*self.tasks)


async def crowd(uploads: list[Upload]) -> Crowd:
    """Start requests, and wait until each is read or answered."""
    started = Crowd(uploads, [asyncio.create_task(each.run()) for each in uploads])
    await until(lambda: all(each.is_settled for each in uploads), "every request is read or answered")
    return started


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With a store of credentials, whose bodies are the longest."""
    return settings.model_copy(update={"credentials": "server", "auth_key": SecretStr("k" * 44)})


@pytest.fixture
async def apps(context: Context, gateway: Gateway) -> ControlApps:
    for name in (THIEF, VICTIM):
        await context.redis.hset(keys.session(name), mapping={"id": name, "epoch": "1", "status": State.CONNECTED})
    return bootstrap.control_apps(service.assemble(context, FakeRunner()), [gateway.router()])


def named(context: Context, session: str, length: int | None, epoch: int = 1) -> dict[str, str]:
    """The head of a worker's request, with a body of this length or, for None, of one that it does not tell."""
    body = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
    return {"Authorization": f"Bearer {tokens.mint(context.settings, session, epoch).token}", "X-Epoch": "1"} | body


def signed(length: int | None = events.MAX_BYTES) -> dict[str, str]:
    """The head of an event whose signature may be right."""
    head = {"webhook-id": "evt_1", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}
    return head | ({} if length is None else {"Content-Length": str(length)})


@pytest.mark.parametrize("length", [events.MAX_BYTES, None], ids=["declared", "chunked"])
async def test_only_a_few_long_events_of_one_worker_are_read_at_once(
    apps: ControlApps, context: Context, length: int | None
) -> None:
    head = named(context, THIEF, length) | signed(length)
    many = await crowd([Upload(apps.workers, EVENT, head) for _ in range(MANY)])
    assert many.read * events.MAX_BYTES <= held_bodies.PER_WORKER_BYTES
    assert many.refusals == {429}
    other = await crowd([Upload(apps.workers, EVENT, named(context, VICTIM, length) | signed(length))])
    assert other.read == 1, "the others have room of their own"
    await other.end()
    await many.end()
    again = await crowd([Upload(apps.workers, EVENT, head)])
    assert again.read == 1, "what has ended makes room"
    await again.end()


async def test_a_worker_that_was_replaced_takes_no_room_of_the_one_that_followed(
    apps: ControlApps, context: Context
) -> None:
    old = await crowd([Upload(apps.workers, EVENT, named(context, THIEF, 4 << 20) | signed()) for _ in range(MANY)])
    new = await crowd([Upload(apps.workers, EVENT, named(context, THIEF, 4 << 20, epoch=2) | signed())])
    assert new.read == 1
    await new.end()
    await old.end()


async def test_events_that_name_no_worker_share_the_room_of_one(apps: ControlApps, context: Context) -> None:
    many = await crowd([Upload(apps.workers, EVENT, signed()) for _ in range(MANY)])
    assert many.read * events.MAX_BYTES <= held_bodies.PER_WORKER_BYTES
    other = await crowd([Upload(apps.workers, EVENT, named(context, VICTIM, events.MAX_BYTES) | signed())])
    assert other.read == 1
    await other.end()
    await many.end()


async def test_an_event_with_a_forged_token_is_refused_unread(apps: ControlApps, context: Context) -> None:
    head = named(context, THIEF, 100) | signed(100)
    head["Authorization"] = head["Authorization"][:-1] + ("0" if head["Authorization"][-1] != "0" else "1")
    one = await crowd([Upload(apps.workers, EVENT, head)])
    assert (one.read, one.refusals) == (0, {401})


async def test_many_workers_together_have_a_limit_too(apps: ControlApps, context: Context) -> None:
    fleet = [f"w{number}" for number in range(100)]
    heads = [named(context, each, events.MAX_BYTES) | signed() for each in fleet for _ in range(2)]
    many = await crowd([Upload(apps.workers, EVENT, head) for head in heads])
    assert many.read * events.MAX_BYTES <= held_bodies.ALL_WORKERS_BYTES
    assert many.refusals == {503}
    assert all(dict(each.answers[0]["headers"])[b"retry-after"] == b"1" for each in many.uploads if not each.is_read)
    await many.end()


@pytest.mark.parametrize(
    ("path", "length", "most"),
    [
        ("/outbox/claim", 262_144, held_bodies.PER_WORKER_BYTES),
        ("/credentials/changes/1", credentials.MAX_CHANGE_BYTES, held_bodies.PER_WORKER_BYTES),
        ("/credentials/copy/1", credentials.MAX_COPY_BYTES, credentials.MAX_COPY_BYTES),
    ],
)
async def test_the_same_holds_for_whatever_else_a_worker_sends(
    apps: ControlApps, context: Context, monkeypatch: pytest.MonkeyPatch, path: str, length: int, most: int
) -> None:
    """Bytes a minute are no limit of their own: a body of some megabytes may take an hour to arrive."""
    monkeypatch.setattr(credentials, "MAX_COPY_BYTES_PER_MINUTE", 1 << 40)
    many = await crowd([Upload(apps.workers, BASE + path, named(context, THIEF, length)) for _ in range(MANY)])
    assert 1 <= many.read <= most // length
    assert many.refusals == {429}
    await many.end()


async def test_strangers_on_the_main_port_take_no_room_of_workers_that_name_themselves_by_their_signature(
    apps: ControlApps, context: Context
) -> None:
    many = await crowd([Upload(apps.main, EVENT, signed(None)) for _ in range(MANY)])
    other = await crowd([Upload(apps.workers, EVENT, signed())])
    assert other.read == 1
    await other.end()
    await many.end()


async def test_the_tokens_of_all_workers_that_a_session_had_take_no_more_than_two(
    apps: ControlApps, context: Context
) -> None:
    heads = [named(context, THIEF, 4 << 20, epoch) | signed() for epoch in range(1, 12)]
    many = await crowd([Upload(apps.workers, EVENT, head) for head in heads for _ in range(3)])
    assert many.read * events.MAX_BYTES <= 2 * held_bodies.PER_WORKER_BYTES
    other = await crowd([Upload(apps.workers, EVENT, named(context, VICTIM, 4 << 20) | signed())])
    assert other.read == 1
    await other.end()
    await many.end()
