"""Translates errors of a Docker engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiodocker.exceptions import DockerError

from wa_orchestrator.errors import Unavailable

#: aiodocker's status for an engine that it cannot connect to. No fault of a session: it must not use up its restarts.
UNREACHABLE: Final = 900


@contextmanager
def engine_errors(*expected: int) -> Iterator[None]:
    """Raise `Unavailable` for an error of the engine, and nothing for one with an expected status."""
    try:
        yield
    except (DockerError, OSError) as error:
        if not isinstance(error, DockerError) or error.status not in expected:
            text = f"The Docker engine returned an error or does not respond: {error}"
            raise Unavailable("DOCKER_UNAVAILABLE", text) from error
