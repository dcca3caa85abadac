"""Answers that are files: streamed to standard output, or to a file that appears only when it is whole."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wa_orchestrator.cli.terminal.command import Invocation
from wa_orchestrator.errors import Refused


def print_stream(run: Invocation, path: str) -> None:
    """Write the answer to standard output."""
    with _streamed(run, path) as chunks:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def save(run: Invocation, path: str, file: Path) -> int:
    """Write the answer to a file that does not exist yet, and return its size."""
    if file.exists():
        raise Refused("FILE_EXISTS", f"{file} exists already. Name another file with --output.")
    part = file.with_name(f".{file.name}.part")
    try:
        with _streamed(run, path) as chunks, part.open("wb") as target:
            for chunk in chunks:
                target.write(chunk)
        part.replace(file)
    except OSError as error:
        raise Refused("CANNOT_WRITE", f"Cannot write {file}: {error.strerror or error}.") from error
    finally:
        part.unlink(missing_ok=True)
    return file.stat().st_size


@contextmanager
def _streamed(run: Invocation, path: str) -> Iterator[Iterator[bytes]]:
    import httpx

    from wa_orchestrator.client.errors import NoAnswerError, error_in

    try:
        with (
            httpx.Client(base_url=run.target.url, timeout=60, trust_env=False) as http,
            http.stream("GET", path, headers={"X-API-Key": run.target.api_key}) as response,
        ):
            if not response.is_success:
                response.read()
                raise error_in(response) or AssertionError("an error was expected")
            yield response.iter_bytes()
    except httpx.HTTPError as error:
        raise NoAnswerError(error) from error
