"""`wa-orchestrator simulate` as a process: its output and its exit."""

import asyncio
import contextlib
import json
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from python_socks.async_.asyncio import Proxy

from tests.waiting import PATIENCE_S

COMMAND = "from wa_orchestrator.cli.main import main; main()"


@contextlib.asynccontextmanager
async def _simulate(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", COMMAND, "simulate", "--proxies", "1", *arguments, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_json_output_is_one_line_and_a_signal_stops_it(number: signal.Signals) -> None:
    async with _simulate("--json") as process:
        ready = json.loads(await _line(process))
        assert list(ready) == ["control", "caFile", "proxies", "telegram"]
        await _misbehave(ready["proxies"][0], ready["caFile"])
        process.send_signal(number)
        rest, _ = await process.communicate()
        assert (rest, process.returncode) == (b"", 0)


async def _misbehave(proxy_url: str, ca_file: str) -> None:
    """Upgrade to a WebSocket and send garbage; returns when the server has closed."""
    dialled = await Proxy.from_url(proxy_url.replace("socks5h", "socks5"), rdns=True).connect("web.whatsapp.com", 443)
    trust = ssl.create_default_context(cafile=ca_file)
    reader, writer = await asyncio.open_connection(sock=dialled, ssl=trust, server_hostname="web.whatsapp.com")
    writer.write(
        b"GET /ws/chat HTTP/1.1\r\nHost: web.whatsapp.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b"101" in await reader.readline()
    writer.write(b"\x82\x84\0\0\0\0GARB")
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()


async def test_without_json_it_prints_lines_that_can_go_into_the_environment() -> None:
    async with _simulate() as process:
        seen = []
        while not (line := await _line(process)).startswith("NODE_EXTRA_CA_CERTS="):
            assert line, "it ended early"
            seen.append(line)
        assert [line for line in seen if line.startswith("PROXY_URL_1=socks5h://proxy-1:")]
        assert [line for line in seen if line.startswith("TELEGRAM_API_URL=http://127.0.0.1:")]


async def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with _simulate("--json", "--control-port", str(port), "--data-dir", str(tmp_path)) as process:
            out, told = await process.communicate()
    assert (out, process.returncode) == (b"", 1)
    assert str(port) in told.decode()
    assert "Traceback" not in told.decode()
