"""`wa-orchestrator simulate`: run the simulator by itself."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from wa_orchestrator import logs
from wa_orchestrator.simulator.child_process import READY_FILE
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.ports import Address
from wa_orchestrator.simulator.whatsapp.tls import write_private
from wa_orchestrator.simulator.world import World


def simulate(data_dir: Path | None, control_port: int, proxies: int, address: Address, *, as_json: bool) -> None:
    """Run the simulator until SIGTERM or SIGINT.

    With `as_json` it prints exactly one line, once everything is ready; else a page for people.
    """
    logs.configure("warning")  # to stderr; stdout is for the page or the JSON line
    try:
        with _runner() as runner:
            runner.run(_run(data_dir, control_port, proxies, address, page=_json_line if as_json else _page))
    except SimulatorError as error:
        raise SystemExit(f"simulate: {error.text}") from error


def _runner() -> asyncio.Runner:
    try:
        import uvloop
    except ImportError:  # not on every system
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _run(
    data_dir: Path | None, control_port: int, proxies: int, address: Address, *, page: Callable[[World], str]
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with World(proxies=proxies, state_dir=data_dir, control_port=control_port, address=address) as world:
        if data_dir is not None:
            write_private(data_dir / READY_FILE, _json_line(world).encode())
        sys.stdout.write(page(world))
        sys.stdout.flush()
        await ended.wait()


def _json_line(world: World) -> str:
    return json.dumps(world.ready) + "\n"


def _page(world: World) -> str:
    lines = [
        "The simulator is ready. Ctrl-C stops it.",
        "",
        f"  control   {world.control}   (GET / lists its routes)",
        f"  telegram  {world.telegram}",
        f"  CA file   {world.ca_file}",
        "",
        "For the server's environment or its .env:",
        "",
        *(f"PROXY_URL_{number}={url}" for number, url in enumerate(world.proxies, start=1)),
        f"TELEGRAM_API_URL={world.telegram}",
        f"NODE_EXTRA_CA_CERTS={world.ca_file}",
    ]
    return "\n".join([*lines, "", ""])
