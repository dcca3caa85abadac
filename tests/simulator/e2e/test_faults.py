"""Every fault of the simulator, with unmodified Baileys."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.simulator.e2e.harness import Baileys, Outside, baileys, first, jid, linked, new_phone
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

DELIVERED = 3


class Veteran:
    """A linked client that lives through many faults."""

    def __init__(self, phone: str, client: Baileys) -> None:
        self.phone = phone
        self.client = client

    async def be_open(self) -> int:
        """Connect if it is not; returns where its events now end."""
        last = next(one["event"] for one in reversed(self.client.events) if one["event"] in ("open", "closed"))
        if last == "closed":
            now = len(self.client.events)
            await self.client.do("reconnect")
            await self.client.wait("open", after=now)
        return len(self.client.events)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(world: Outside, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Veteran]:
    phone = new_phone()
    async with linked(world, tmp_path_factory.mktemp("veteran"), phone) as client:
        yield Veteran(phone, client)


@pytest_asyncio.fixture(loop_scope="session")
async def veteran(world: Outside, shared: Veteran) -> Veteran:
    await shared.be_open()
    return shared


@pytest.mark.parametrize(
    ("kind", "code"),
    [("drop", 428), ("silence", 408), ("replace", 440), ("ban", 428), ("unavailable", 503)],
)
async def test_an_end_of_the_connection_is_reported_with_its_code(
    world: Outside, veteran: Veteran, kind: str, code: int
) -> None:
    now = await veteran.be_open()
    await world.fault(kind, target={"phone": veteran.phone})
    closed = await veteran.client.wait("closed", after=now)
    assert closed["code"] == code, closed
    await world.calm()
    await veteran.be_open()


@pytest.mark.parametrize(("kind", "given", "code"), [("refuse_login", 401, 401), ("refuse_login", 503, 503), ("ban", None, 403), ("temporary_ban", None, 402), ("outdated", None, 405)])  # fmt: skip
async def test_a_refused_login_is_reported_with_its_code(
    world: Outside, veteran: Veteran, kind: str, given: int | None, code: int
) -> None:
    now = await veteran.be_open()
    await world.fault("drop", target={"phone": veteran.phone})
    await veteran.client.wait("closed", after=now)
    await world.calm()
    await world.fault(kind, target={"phone": veteran.phone}, **({"code": given} if given else {}))
    now = len(veteran.client.events)
    await veteran.client.do("reconnect")
    assert (await veteran.client.wait("closed", after=now))["code"] == code
    await world.calm()
    await veteran.be_open()


async def test_a_fault_of_one_phone_does_not_affect_others(world: Outside, veteran: Veteran) -> None:
    now = await veteran.be_open()
    await world.fault("drop", target={"phone": new_phone()})
    await veteran.client.do("send", to=jid(new_phone()), text="nothing happened here")
    await veteran.client.wait("ack", after=now)
    assert not first(veteran.client.events[now:], {"event": "closed"})


@pytest.mark.parametrize("how", ["fault", "unlink"])
async def test_a_logged_out_device_gets_401_and_must_link_again(world: Outside, tmp_path: Path, how: str) -> None:
    phone = new_phone()
    async with linked(world, tmp_path, phone) as client:
        now = len(client.events)
        if how == "fault":
            await world.fault("logout", target={"phone": phone})
        else:
            await world.post(f"/phones/{phone}/unlink")
        assert (await client.wait("closed", after=now))["code"] == 401
    await world.calm()
    async with baileys(world, tmp_path) as again:
        assert (await again.wait("closed"))["code"] == 401


async def test_a_client_that_logs_out_by_itself_is_not_linked_any_more(world: Outside, tmp_path: Path) -> None:
    phone = new_phone()
    async with linked(world, tmp_path, phone) as client:
        now = len(client.events)
        await client.do("logout")
        await client.wait("closed", after=now, code=401)

        async def gone() -> bool:
            return not [one for one in await world.get("/connections") if one["phone"] == phone]

        await until(gone, "the connection is gone")


async def test_ack_error_reaches_the_client_and_the_message_does_not_arrive(world: Outside, veteran: Veteran) -> None:
    friend = new_phone()
    await world.fault("ack_error", target={"phone": veteran.phone}, code=463)
    sent = await veteran.client.do("send", to=jid(friend), text="to a stranger")
    assert (await veteran.client.wait("ack", id=sent["id"]))["error"] == "463"
    failed = await veteran.client.wait("update", id=sent["id"], status=0)
    assert failed["stub"][0] == "463"
    assert not first(await world.get("/arrivals"), {"id": sent["id"]})
    assert not first(await world.get(f"/phones/{friend}/inbox"), {"id": sent["id"]})


async def test_a_reach_out_lock_refuses_new_contacts_and_allows_replies(world: Outside, veteran: Veteran) -> None:
    friend, stranger = new_phone(), new_phone()
    await world.post(f"/phones/{friend}/say", to=veteran.phone, text="write to me")
    await veteran.client.wait("message", text="write to me")
    await world.fault("reachout_lock", target={"phone": veteran.phone})
    refused = await veteran.client.do("send", to=jid(stranger), text="we never met")
    taken = await veteran.client.do("send", to=jid(friend), text="here I am")
    assert (await veteran.client.wait("ack", id=refused["id"]))["error"] == "463"
    assert (await veteran.client.wait("ack", id=taken["id"])).get("error") is None
    assert first(await world.get("/refusals"), {"id": refused["id"], "code": 463})


async def test_ack_delay_lets_the_message_arrive_first_and_the_ack_later(world: Outside, veteran: Veteran) -> None:
    friend = new_phone()
    await veteran.client.do("send", to=jid(friend), text="we know each other")
    await world.fault("ack_delay", target={"phone": veteran.phone}, seconds=2)
    sent = await veteran.client.do("send", to=jid(friend), text="slow acknowledgement")
    await world.shown(friend, id=sent["id"])
    assert not first(veteran.client.events, {"event": "ack", "id": sent["id"]})
    assert (await veteran.client.wait("ack", id=sent["id"])).get("error") is None


async def test_no_receipts_keeps_a_message_at_sent(world: Outside, veteran: Veteran) -> None:
    friend = new_phone()
    await world.fault("no_receipts", target={"phone": veteran.phone})
    quiet = await veteran.client.do("send", to=jid(friend), text="nobody confirms")
    await veteran.client.wait("ack", id=quiet["id"])
    await world.calm()
    heard = await veteran.client.do("send", to=jid(friend), text="somebody confirms")
    await veteran.client.wait_status(heard["id"], DELIVERED)
    late = [
        one for one in veteran.client.events if one.get("id") == quiet["id"] and (one.get("status") or 0) >= DELIVERED
    ]
    assert late == []


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        ("refuse", 408, "ECONNREFUSED"),
        ("wrong_auth", 500, "Authentication failed"),
        ("blackhole", 408, "timed out"),
    ],
)
async def test_a_failing_proxy_keeps_the_client_offline_and_is_reported(
    world: Outside, veteran: Veteran, kind: str, code: int, words: str
) -> None:
    now = await veteran.be_open()
    await world.fault(kind, target={"proxy": "proxy-1"})
    await world.fault("drop", target={"proxy": "proxy-1"})
    await veteran.client.wait("closed", after=now)
    now = len(veteran.client.events)
    await veteran.client.do("reconnect")
    closed = await veteran.client.wait("closed", after=now)
    assert (closed["code"], words in closed["message"]) == (code, True), closed
    await world.calm()
    await veteran.be_open()


async def test_a_dropped_proxy_is_a_lost_connection(world: Outside, veteran: Veteran) -> None:
    now = await veteran.be_open()
    await world.fault("drop", target={"proxy": "proxy-1"})
    assert (await veteran.client.wait("closed", after=now))["code"] == 428
    await veteran.be_open()


async def test_a_slow_proxy_is_slow_and_works(world: Outside, veteran: Veteran) -> None:
    await veteran.be_open()
    await world.fault("slow", target={"proxy": "proxy-1"}, latencyMs=200)
    loop = asyncio.get_running_loop()
    start = loop.time()
    sent = await veteran.client.do("send", to=jid(new_phone()), text="with patience")
    await veteran.client.wait("ack", id=sent["id"])
    assert loop.time() - start > 0.4


async def test_a_fault_with_seconds_ends_by_itself(world: Outside, veteran: Veteran) -> None:
    now = await veteran.be_open()
    await world.fault("refuse", target={"proxy": "proxy-1"}, seconds=0.3)
    await world.fault("drop", target={"proxy": "proxy-1"})
    await veteran.client.wait("closed", after=now)

    async def healed() -> bool:
        return not (await world.proxy(0))["faults"]

    await until(healed, "the fault is over")
    await veteran.be_open()


async def test_the_proxy_counts_sessions_and_not_connections(world: Outside, tmp_path: Path) -> None:
    added = await world.post("/proxies")
    world.ready["proxies"].append(added["url"])
    number = len(world.ready["proxies"]) - 1
    async with contextlib.AsyncExitStack() as stack:
        for name in ("one", "two"):
            await stack.enter_async_context(linked(world, tmp_path / name, new_phone(), proxy=number))
        picture = await world.proxy(number)
        assert (picture["live"], picture["highWater"]) == (2, 2), "each client connected twice, for it was paired"
        assert picture["accepted"] >= 4

    async def empty() -> bool:
        return not (await world.proxy(number))["live"]

    await until(empty, "nobody is left on the proxy")
