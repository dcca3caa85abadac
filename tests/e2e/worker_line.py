"""The line between workers and their server, which can lose what it carries, and knows when a worker gets a message."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.processes import free_port


@dataclass
class WorkerLine:
    """Workers connect to `port`, the server listens on `server_port`."""

    server_port: int = field(default_factory=free_port)
    port: int = field(default_factory=free_port)
    loses_next_message: bool = False
    """The next answer that has a message for a worker is lost."""
    loses_claims: bool = False
    """Whoever asks for messages gets no answer; pings pass."""
    before_message: Callable[[], None] | None = None
    """Called before an answer that has a message goes on to a worker: what it does to that is done in time."""
    lost: int = 0

    def freeze_with_message(self, worker: int) -> asyncio.Event:
        """Freeze a process before it reads the next message that it has claimed; the event tells that."""
        is_frozen = asyncio.Event()

        def freeze() -> None:
            self.before_message = None
            os.kill(worker, signal.SIGSTOP)
            is_frozen.set()

        self.before_message = freeze
        return is_frozen

    @property
    def settings(self) -> dict[str, str]:
        """How the product is told to use it."""
        return {"WORKER_PORT": str(self.server_port), "WORKER_URL": f"http://127.0.0.1:{self.port}"}

    async def serve(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            answers, questions = await asyncio.open_connection("127.0.0.1", self.server_port)
            await asyncio.gather(self._ask(reader, questions), self._answer(answers, writer))
        writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65536):
                if self.loses_claims and b"/claim HTTP" in piece:
                    self.lost += 1
                    break
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65536):
                has_message = b'"messageId"' in piece
                if has_message and self.before_message is not None:
                    self.before_message()
                if has_message and self.loses_next_message:
                    self.loses_next_message = False
                    self.lost += 1
                    break
                writer.write(piece)
                await writer.drain()
        writer.close()
