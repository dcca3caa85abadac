"""Outcomes that scripts of several modules have; each module defines those of its own scripts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unknown:
    """There is no such message, session or proxy."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The caller or its report is superseded: a newer worker, with this epoch, was started for the session."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Removed:
    """The session or proxy is gone."""


@dataclass(frozen=True, slots=True)
class Written:
    """The session or proxy is written; this is its version now."""

    version: int
