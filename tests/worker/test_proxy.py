"""The proxy is the only way out, and when it fails the worker says how."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.waiting import promised
from tests.worker.harness import Rig, Session, new_phone

pytestmark = pytest.mark.asyncio(loop_scope="session")

#: Records every name that is looked up and every address that is dialled inside the process, whoever does it.
RECORDER = """
const net = require('node:net'), dns = require('node:dns'), fs = require('node:fs')
const note = line => fs.appendFileSync(process.env.EGRESS_LOG, line + '\\n')
const connect = net.Socket.prototype.connect
net.Socket.prototype.connect = function (...args) {
  const options = Array.isArray(args[0]) ? args[0][0] : args[0]
  note(`dial ${options.host}:${options.port}`)
  return connect.apply(this, args)
}
for (const [holder, names] of [[dns, ['lookup', 'resolve', 'resolve4', 'resolve6']], [dns.promises, ['lookup', 'resolve']]]) {
  for (const name of names) {
    const original = holder[name]
    holder[name] = function (host, ...rest) {
      if (!net.isIP(host)) note(`look up ${host}`)
      return original.call(this, host, ...rest)
    }
  }
}
"""


@pytest.mark.parametrize(("fault", "stage"), [("refuse", "connect"), ("wrong_auth", "auth")])
async def test_a_failing_proxy_is_reported_by_its_stage_and_is_no_broken_session(
    rig: Rig, fault: str, stage: str
) -> None:
    session = rig.session()
    session.proxy = 1
    first = await session.link()
    await session.worker.terminate()
    proxy = rig.world.pool.find("proxy-2")
    await proxy.fault(fault)
    seen = len(session.station.events)
    await session.start()
    reported = await session.event("PROXY_ERROR", after=seen, stage=stage)
    assert proxy.account.password not in json.dumps(reported)
    await rig.world.pool.clear_faults()
    again = await session.event("CONNECTED", after=seen)
    assert again["data"]["fingerprint"] == first["data"]["fingerprint"]


async def test_a_hanging_proxy_is_noticed_within_ten_seconds(rig: Rig) -> None:
    session = rig.session()
    session.proxy = 1
    await rig.world.pool.find("proxy-2").fault("blackhole")
    began = time.monotonic()
    await session.start()
    await session.event("PROXY_ERROR", stage="dropped")
    assert time.monotonic() - began < promised(20)  # ten, and the start of the process


async def test_a_proxy_that_is_not_there_fails_at_connect_and_one_whose_name_is_unknown_at_dns(rig: Rig) -> None:
    session = rig.session()
    await session.start(PROXY_URL="socks5h://user:fake@127.0.0.1:9")
    await session.event("PROXY_ERROR", stage="connect")
    await session.worker.kill()
    other = rig.session()
    await other.start(PROXY_URL="socks5h://user:fake@no-such-proxy.invalid:1080")
    await other.event("PROXY_ERROR", stage="dns")


async def test_a_dropped_proxy_is_a_lost_connection_that_comes_back_through_the_same_proxy(rig: Rig) -> None:
    session = rig.session()
    session.proxy = 1
    await session.link()
    seen = len(session.station.events)
    await rig.world.pool.find("proxy-2").fault("drop")
    await session.event("DISCONNECTED", after=seen, code=428, willReconnect=True)
    await session.event("CONNECTED", after=seen)
    [mine] = [entry for entry in rig.world.whatsapp.connections() if entry["phone"] == session.phone]
    assert mine["proxy"] == "proxy-2"


async def test_nothing_is_looked_up_or_dialled_around_the_proxy(rig: Rig, tmp_path: Path) -> None:
    session, friend = rig.session(), new_phone()
    session.proxy = 2
    recorder, book = tmp_path / "recorder.cjs", tmp_path / "egress"
    recorder.write_text(RECORDER)
    await session.start(options=("--require", str(recorder)), EGRESS_LOG=str(book))
    qr = await session.event("QR_CODE")
    await rig.world.whatsapp.scan(session.phone, qr["data"]["qr"])
    await session.event("CONNECTED")
    media = {"url": rig.server.publish(b"x" * 5000), "mimetype": "image/png"}
    await rig.server.acked(await rig.server.send(session.id, friend, kind="image", media=media))
    await rig.server.acked(await session.say(friend, "https://example.com/a-link"))
    sent = await rig.world.whatsapp.send_media(friend, session.phone, "image", b"y" * 5000, "image/png")
    await session.event("MESSAGE_RECEIVED", whatsappId=sent)
    command = await rig.server.command(session.id, "fetch_media", whatsappId=sent)
    assert await rig.server.result(session.id, command) == b"y" * 5000
    proxy = rig.world.pool.find("proxy-3")
    allowed = {f"dial 127.0.0.1:{proxy.account.port}", f"dial 127.0.0.1:{rig.server.url.rpartition(':')[2]}"}
    assert set(book.read_text().splitlines()) <= allowed
    picture = proxy.describe()
    assert set(picture["hosts"]) == {"web.whatsapp.com", "mmg.whatsapp.net"}
    assert {str(kind) for kind in picture["addressTypes"]} == {"domain"}


async def test_no_secret_and_no_text_is_in_any_line_of_the_log(rig: Rig, linked: Session) -> None:
    body = "canary-of-a-message-body"
    friend = new_phone()
    await rig.server.acked(await linked.say(friend, body))
    await rig.world.whatsapp.send_text(friend, linked.phone, f"{body}-back")
    await linked.event("MESSAGE_RECEIVED", text=f"{body}-back")
    qr = next(event for event in linked.station.events if event["type"] == "QR_CODE")["data"]["qr"]
    secrets = [body, friend, linked.station.token, linked.station.secret, *qr.partition("#")[2].split(",")[:4]]
    secrets.append(rig.world.pool.find("proxy-1").account.password)
    for secret in secrets:
        assert secret not in linked.worker.text
    assert all(isinstance(json.loads(line), dict) for line in linked.worker.raw)


#: Runs inside the namespace: its loopback ports lead over Unix sockets, which no network rule touches, to the same ports outside.
RELAY = """
import asyncio, sys

async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()

async def main():
    for number in sys.argv[2:]:
        async def serve(reader, writer, path=f"{sys.argv[1]}/{number}"):
            there = await asyncio.open_unix_connection(path)
            await asyncio.gather(pump(reader, there[1]), pump(there[0], writer), return_exceptions=True)
        await asyncio.start_server(serve, "127.0.0.1", int(number))
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network of its own, without any route."""
    name = f"wa-{uuid.uuid4().hex[:12]}"  # one that a killed run has left behind may have any number
    made = shutil.which("ip") and subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if not made or made.returncode:
        reason = "a network namespace cannot be made here: it needs root and the ip command"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    subprocess.run(["ip", "netns", "exec", name, "ip", "link", "set", "lo", "up"], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=False)


@contextlib.asynccontextmanager
async def reachable(namespace: str, *ports: int) -> AsyncIterator[None]:
    """Make these loopback ports of ours, and nothing else, reachable in the namespace."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        for port in ports:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int = port) -> None:
                there = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

            server = await asyncio.start_unix_server(serve, f"{directory}/{port}")
            stack.callback(server.close)
        command = ["ip", "netns", "exec", namespace, sys.executable, "-c", RELAY, directory, *map(str, ports)]
        relay = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        stack.push_async_callback(relay.wait)
        stack.callback(relay.kill)
        assert relay.stdout is not None
        assert await relay.stdout.readline() == b"ready\n"
        yield


async def test_in_a_network_with_no_way_out_but_proxy_and_server_everything_works(rig: Rig, namespace: str) -> None:
    session, friend = rig.session(), new_phone()
    ports = [rig.world.pool.find("proxy-1").account.port, int(rig.server.url.rpartition(":")[2])]
    async with reachable(namespace, *ports):
        await session.link(prefix=("ip", "netns", "exec", namespace))
        media = {"url": rig.server.publish(b"x" * 5000), "mimetype": "image/png"}
        await rig.server.acked(await rig.server.send(session.id, friend, kind="image", media=media))
        sent = await rig.world.whatsapp.send_media(friend, session.phone, "image", b"y" * 5000, "image/png")
        await session.event("MESSAGE_RECEIVED", whatsappId=sent)
        command = await rig.server.command(session.id, "fetch_media", whatsappId=sent)
        assert await rig.server.result(session.id, command) == b"y" * 5000
        await session.worker.kill()
