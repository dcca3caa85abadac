"""The line between workers and their server, which can lose what it carries."""

import asyncio
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
    lost: int = 0

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
                if self.loses_next_message and b'"messageId"' in piece:
                    self.loses_next_message = False
                    self.lost += 1
                    break
                writer.write(piece)
                await writer.drain()
        writer.close()
