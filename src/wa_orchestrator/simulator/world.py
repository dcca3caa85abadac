"""The complete simulator in one object: WhatsApp, phones, proxies and Telegram."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wa_orchestrator.simulator.control.app import ControlApi
from wa_orchestrator.simulator.control.http_server import HttpServer
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.ports import LOCAL, Address
from wa_orchestrator.simulator.proxies.destinations import ProxyAccount
from wa_orchestrator.simulator.proxies.pool import SocksPool
from wa_orchestrator.simulator.proxies.socks_server import SocksServer
from wa_orchestrator.simulator.telegram import Telegram
from wa_orchestrator.simulator.whatsapp import tls
from wa_orchestrator.simulator.whatsapp.server import WhatsApp

STATE_FILE = "world.json"


class World:
    """`async with World(proxies=3) as world:` runs everything.

    The proxies connect to WhatsApp and to the addresses in `allow` only: `(host, port)` on this machine.
    The chats of new accounts go by LIDs if they are `migrated`, else by phone numbers.
    With a `state_dir` a later start has the same authority, ports, passwords, accounts and linked devices.
    """

    def __init__(
        self,
        *,
        proxies: int = 3,
        state_dir: Path | None = None,
        control_port: int = 0,
        allow: Iterable[tuple[str, int]] = (),
        clock: Callable[[], float] = time.time,
        migrated: bool = True,
        address: Address = LOCAL,
    ) -> None:
        self._proxy_count = proxies
        self._control_port = control_port
        self._is_kept = state_dir is not None
        self._dir = (state_dir or Path(tempfile.gettempdir()) / f"wa-simulator-{secrets.token_hex(8)}").resolve()
        self._stack = contextlib.AsyncExitStack()
        self.pool = SocksPool(clock=clock, allowed=allow, address=address)
        self.telegram_bot = Telegram(clock=clock)
        self.whatsapp = WhatsApp(
            state_dir=self._dir / "whatsapp" if self._is_kept else None,
            proxy_of=self.pool.proxy_of,
            on_session=self.pool.mark_session,
            clock=clock,
            migrated=migrated,
        )
        control = ControlApi(self.whatsapp, self.pool, self.telegram_bot, self.add_proxy, address.name)
        self._control = HttpServer(control.app(), address)
        self._telegram = HttpServer(self.telegram_bot.app, address)
        self.ca_file = self._dir / "tls" / "ca.pem"

    # -- where things are ---------------------------------------------------------------------------------------------

    @property
    def control(self) -> str:
        """URL of the control API."""
        return self._control.url

    @property
    def telegram(self) -> str:
        """Value for `TELEGRAM_API_URL`."""
        return self._telegram.url

    @property
    def proxies(self) -> list[str]:
        """URLs of the proxies, with their passwords."""
        return [proxy.account.url for proxy in self.pool]

    @property
    def ready(self) -> dict[str, Any]:
        """What a program needs to use the simulator: the line of `simulate --json`."""
        return {
            "control": self.control,
            "caFile": str(self.ca_file),
            "proxies": self.proxies,
            "telegram": self.telegram,
        }

    # -- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        if not self._is_kept:
            self._stack.callback(shutil.rmtree, self._dir, ignore_errors=True)
        self._dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        identity = tls.prepare(self._dir / "tls")
        port = await self.whatsapp.start(identity.context)
        self._stack.push_async_callback(self.whatsapp.stop)
        self.pool.route.target = ("127.0.0.1", port)
        self._stack.push_async_callback(self.pool.close)
        kept = self._read_state()
        await self._start_proxies(
            [ProxyAccount(**account, address=self.pool.address) for account in kept.get("proxies", [])]
        )
        await self._telegram.start(kept.get("telegram", 0))
        self._stack.push_async_callback(self._telegram.stop)
        await self._control.start(self._control_port or kept.get("control", 0))
        self._stack.push_async_callback(self._control.stop)
        self._write_state()

    async def _start_proxies(self, accounts: list[ProxyAccount]) -> None:
        for account in accounts:
            await self.pool.add(account)
        for _ in range(self._proxy_count - len(accounts)):
            await self.pool.add()

    async def add_proxy(self) -> SocksServer:
        """Start another proxy; with a `state_dir` it is stored."""
        proxy = await self.pool.add()
        self._write_state()
        return proxy

    # -- what a restart must find again -------------------------------------------------------------------------------

    def _read_state(self) -> dict[str, Any]:
        path = self._dir / STATE_FILE
        if not path.exists():
            return {}
        try:
            kept: dict[str, Any] = json.loads(path.read_text())
        except ValueError as error:
            raise SimulatorError(
                "BAD_STATE", f"{path} is not valid JSON; remove it to start with empty state."
            ) from error
        return kept

    def _write_state(self) -> None:
        if not self._is_kept:
            return
        accounts = [{"id": a.id, "password": a.password, "port": a.port} for a in (p.account for p in self.pool)]
        kept = {"proxies": accounts, "telegram": self._telegram.port, "control": self._control.port}
        tls.write_private(self._dir / STATE_FILE, json.dumps(kept, indent=1).encode())
