"""What the operator has set: the environment, then `.env`, and for secrets the file that `NAME_FILE` names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dotenv import dotenv_values

_NUMBERED_PROXY = re.compile(r"PROXY_URL_(\d+)(_FILE)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Found:
    """A value as text, and where it came from (`environment`, `.env`, or the path of a file)."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Environment:
    """All variables of this product that are set, by their names in capitals, and what could not be read."""

    found: Mapping[str, Found]
    problems: tuple[str, ...]

    @property
    def proxies(self) -> list[str]:
        """Give the names `PROXY_URL_n` that are set, in the order of their numbers; gaps are allowed."""
        numbered = [name for name in self.found if _NUMBERED_PROXY.fullmatch(name)]
        return sorted(numbered, key=lambda name: (int(name.removeprefix("PROXY_URL_")), name))


def read(
    names: frozenset[str], secrets: frozenset[str], environ: Mapping[str, str], env_file: Path | None
) -> Environment:
    """Collect `names` and every `PROXY_URL_n`. `secrets` and proxies may come as `NAME_FILE` instead."""
    variables = _merge(environ, env_file)
    found: dict[str, Found] = {}
    problems: list[str] = []
    for variable, at in variables.items():
        numbered = _NUMBERED_PROXY.fullmatch(variable)
        name = variable.removesuffix("_FILE")
        if variable in names or (numbered and not numbered[2]):
            found.setdefault(variable, at)
        elif name != variable and (name in secrets or numbered) and at.value:
            if name in variables:
                problems.append(f"{variable}: {name} is set too, and only one of them can be. Example: unset {name}")
                continue
            try:
                found[name] = Found(Path(at.value).read_text("utf-8").strip(), at.value)
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "it is not text"
                problems.append(
                    f"{variable}: cannot read {at.value!r} ({why}). Example: {variable}=/run/secrets/{name.lower()}"
                )
    return Environment(found, tuple(problems))


def _merge(environ: Mapping[str, str], env_file: Path | None) -> dict[str, Found]:
    variables: dict[str, Found] = {}
    if env_file is not None and env_file.is_file():
        for name, value in dotenv_values(env_file, interpolate=False).items():
            variables[name.upper()] = Found(value or "", str(env_file))
    for name, value in environ.items():
        variables[name.upper()] = Found(value, "environment")
    return variables
