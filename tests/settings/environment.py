"""Reads settings from given variables instead of this process' environment."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from wa_orchestrator import settings
from wa_orchestrator.settings.source import OperatorSource


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Run the block with these variables and no others."""
    with mock.patch.dict(os.environ, variables, clear=True):
        yield


def load(variables: Mapping[str, str], env_file: Path | None = None, **overrides: Any) -> settings.Settings:
    """Return the validated settings."""
    with environment(variables):
        return settings.build(settings.read(env_file), **overrides)


def read(variables: Mapping[str, str], env_file: Path | None = None) -> OperatorSource:
    """Return what was set."""
    with environment(variables):
        return settings.read(env_file)
