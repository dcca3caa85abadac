"""A load balancer in a few lines: each connection goes to the next server that takes it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count


@asynccontextmanager
async def balanced(port: int, backends: Sequence[int]) -> AsyncIterator[None]:
    """Serve on a port of this machine while the block runs, by the servers on these ports, in turns."""
    turns = count()
    open_writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(turns)
        open_writers.add(writer)
        try:
            for turn in range(len(backends)):
                with suppress(OSError):
                    there = await asyncio.open_connection("127.0.0.1", backends[(first + turn) % len(backends)])
                    await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
                    return
        finally:
            open_writers.discard(writer)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
        for writer in open_writers:
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until either side ends; then the other direction ends too."""
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
