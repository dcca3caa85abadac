"""Settings source: the environment over `.env`, `NAME_FILE` for secrets, `PROXY_URL_n` for the proxy pool."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource

from wa_orchestrator.settings import unknown_variables
from wa_orchestrator.settings.unknown_variables import UnknownVariable

_PROXY = re.compile(r"proxy_url_\d+")


class OperatorSource(EnvSettingsSource):
    """Every variable the operator has set, by its name in lower case, and where it came from.

    pydantic-settings reads the environment and the file; files per secret and numbered variables are added here.
    """

    problems: list[str]
    """What could not be read, one line each."""
    unknown: tuple[UnknownVariable, ...]
    """Variables without effect: misspelled settings, and those that this version does not have."""

    def __init__(self, settings_cls: type[BaseSettings], secrets: Collection[str], env_file: Path | None) -> None:
        super().__init__(settings_cls)
        self.problems = []
        self._secrets = secrets
        lines = self._lines(env_file)
        filed = {name.lower(): value for name, value in lines.items() if value is not None}
        environment = {name: value for name, value in self.env_vars.items() if value is not None}
        self._origins = dict.fromkeys(filed, str(env_file)) | dict.fromkeys(environment, "environment")
        self._values = filed | environment
        self.env_vars = self._values
        known = {*settings_cls.model_fields, *(f"{name}_file" for name in secrets), "proxy_url_1"} - {"proxy_urls"}
        unknown = {name for name in self._values if name not in known and not self._is_proxy(name)}
        unknown_lines = {name: value for name, value in lines.items() if value is None or name.lower() in unknown}
        self.unknown = (
            *unknown_variables.in_file(unknown_lines, known, str(env_file)),
            *unknown_variables.in_environment(unknown - {name.lower() for name in lines}, known),
        )
        for name in [name for name in self._values if name.endswith("_file")]:
            self._read_file(name)

    @property
    def proxies(self) -> list[str]:
        """Return the names `proxy_url_n` that are set, in the order of their numbers; gaps are allowed."""
        names = [name for name, value in self._values.items() if _PROXY.fullmatch(name) and value and value.strip()]
        return sorted(names, key=lambda name: (int(name.removeprefix("proxy_url_")), name))

    def origin(self, name: str) -> str | None:
        """Return where a value came from: `environment`, the path of a file, or None where it is not set."""
        return self._origins.get(name)

    def __call__(self) -> dict[str, Any]:
        """Return the values by field name, unchecked."""
        return super().__call__() | {"proxy_urls": tuple(self._values[name] for name in self.proxies)}

    def _lines(self, env_file: Path | None) -> Mapping[str, str | None]:
        try:
            # Case-sensitive, because a name in mixed case may be a piece of a secret (see unknown_variables).
            return DotEnvSettingsSource(self.settings_cls, env_file, case_sensitive=True).env_vars
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(f"{env_file}: {_why(error)}. Example: chmod 600 {env_file}")
            return {}

    def _is_proxy(self, name: str) -> bool:
        return _PROXY.fullmatch(name.removesuffix("_file")) is not None

    def _read_file(self, variable: str) -> None:
        name, path = variable.removesuffix("_file"), self._values[variable]
        if not (name in self._secrets or self._is_proxy(name)) or not path:
            return  # compose files pass `NAME_FILE=` for what the operator left out
        if name in self._values:
            self.problems.append(
                f"{variable.upper()}: {name.upper()} is set too; set only one of them. Example: unset {name.upper()}"
            )
            return
        try:
            self._values[name] = Path(path).read_text("utf-8").strip()
            self._origins[name] = path
        except (OSError, UnicodeDecodeError) as error:
            # Without the path: a secret put into NAME_FILE by mistake would be printed.
            self.problems.append(
                f"{variable.upper()}: the file {_why(error)}. Example: {variable.upper()}=/run/secrets/{name}"
            )


def _why(error: OSError | UnicodeDecodeError) -> str:
    return f"cannot be read ({error.strerror})" if isinstance(error, OSError) else "is not UTF-8 text"
