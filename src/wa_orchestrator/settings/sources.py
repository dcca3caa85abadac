"""What the operator has set: the environment, then `.env`, and for secrets the file that `NAME_FILE` names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dotenv import dotenv_values

from wa_orchestrator.settings import typos
from wa_orchestrator.settings.typos import Unread

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
    problems: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    """What is set and means nothing here: harmless, or misspelled."""

    @property
    def proxies(self) -> list[str]:
        """Give the names `PROXY_URL_n` that are set, in the order of their numbers; gaps are allowed."""
        numbered = [name for name in self.found if _NUMBERED_PROXY.fullmatch(name)]
        return sorted(numbered, key=lambda name: (int(name.removeprefix("PROXY_URL_")), name))


def read(
    names: frozenset[str], secrets: frozenset[str], environ: Mapping[str, str], env_file: Path | None
) -> Environment:
    """Collect `names` and every `PROXY_URL_n`. `secrets` and proxies may come as `NAME_FILE` instead."""
    try:
        filed = _env_file(env_file)
    except (OSError, UnicodeDecodeError) as error:
        return Environment({}, (f"{env_file}: {_why(error)}. Example: chmod 600 {env_file}",))
    variables = {name.upper(): Found(value or "", str(env_file)) for name, value in filed.items()}
    variables |= {name.upper(): Found(value, "environment") for name, value in environ.items()}
    found: dict[str, Found] = {}
    problems: list[str] = []
    unread: set[str] = set()
    for variable, at in variables.items():
        name = variable.removesuffix("_FILE")
        is_proxy = _NUMBERED_PROXY.fullmatch(variable) is not None
        if variable in names or (is_proxy and name == variable):
            found[variable] = at
        elif name != variable and (name in secrets or is_proxy):
            _read_named_file(variable, variables, found, problems)
        else:
            unread.add(variable)
    known = {*names, *(f"{name}_FILE" for name in secrets), "PROXY_URL_1"}
    told = (
        *typos.in_file({name: filed[name] for name in filed if name.upper() in unread}, known, str(env_file)),
        *typos.in_shell(unread - {name.upper() for name in filed}, known),
    )
    return Environment(found, tuple(problems), told)


def _read_named_file(
    variable: str, variables: Mapping[str, Found], found: dict[str, Found], problems: list[str]
) -> None:
    name, path = variable.removesuffix("_FILE"), variables[variable].value
    if not path:
        return  # compose files pass `NAME_FILE=` for what the operator left out
    if name in variables:
        problems.append(f"{variable}: {name} is set too, and only one of them can be. Example: unset {name}")
        return
    try:
        found[name] = Found(Path(path).read_text("utf-8").strip(), path)
    except (OSError, UnicodeDecodeError) as error:
        # Not what it names: whoever mistook it for NAME has put the secret itself there.
        problems.append(f"{variable}: the file {_why(error)}. Example: {variable}=/run/secrets/{name.lower()}")


def _why(error: OSError | UnicodeDecodeError) -> str:
    return f"cannot be read ({error.strerror})" if isinstance(error, OSError) else "is not text in UTF-8"


def _env_file(path: Path | None) -> dict[str, str | None]:
    if path is None or not path.is_file():
        return {}
    return dict(dotenv_values(path, interpolate=False, encoding="utf-8"))
