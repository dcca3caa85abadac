"""What every command is given: a client of the server, and a way to answer. Errors are told in one line."""

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec

import typer

from wa_orchestrator.cli.hints import as_typed
from wa_orchestrator.cli.target import Given, Target, find

if TYPE_CHECKING:
    from wa_orchestrator.client import ApiError, Client

EXIT_FAILED: Final = 1
P = ParamSpec("P")

_OPTIONS: Mapping[str, Any] = {
    "url": Annotated[str | None, typer.Option("--url", envvar="WA_URL", help="The server's address.")],
    "api_key": Annotated[
        str | None, typer.Option("--api-key", envvar="WA_API_KEY", help="Rather set WA_API_KEY: others see this one.")
    ],
    "data_dir": Annotated[Path | None, typer.Option("--data-dir", help="A server's own directory on this machine.")],
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON.")],
}


@dataclass
class Desk:
    """One run of a command."""

    given: Given

    @cached_property
    def target(self) -> Target:
        """Where the server is."""
        return find(self.given)

    @cached_property
    def client(self) -> "Client":
        """A client of it, closed when the command ends."""
        from wa_orchestrator.client import Client

        return Client(self.target.url, self.target.api_key)

    def close(self) -> None:
        """Let go of the connections, if there are any."""
        if "client" in self.__dict__:
            self.client.close()

    def answer(self, told: Any, show: Callable[[], None]) -> None:
        """Print an answer: as JSON for scripts, else as `show` does it for people."""
        if self.given.as_json:
            print_json(told)
        else:
            show()


def print_json(told: Any) -> None:
    """Print a value as one line of JSON."""
    sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def command(function: Callable[Concatenate[Desk, P], None]) -> Callable[..., None]:
    """Let a function be a command of a running server: it gets a `Desk`, people may say --url, --json and so on."""

    def run(ctx: typer.Context, **values: Any) -> None:
        typed = Given(**{name: values.pop(name) for name in _OPTIONS})
        before = ctx.obj if isinstance(ctx.obj, Given) else None
        _attend(function, Desk(typed.over(before)), values)

    return _with_options(run, function)


def group(function: Callable[[Desk], None]) -> Callable[..., None]:
    """Let a function be what a group does without a subcommand. Options before a subcommand count for it too."""

    def run(ctx: typer.Context, **values: Any) -> None:
        given = Given(**values)
        ctx.obj = given
        if ctx.invoked_subcommand is None:
            _attend(function, Desk(given), {})

    return _with_options(run, function)


def _with_options(run: Callable[..., None], function: Callable[..., None]) -> Callable[..., None]:
    """Give `run` the signature that Typer reads: the function's own parameters, then the common options."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("ctx", kind, annotation=typer.Context)
    common = [
        inspect.Parameter(name, kind, annotation=told, default=False if name == "as_json" else None)
        for name, told in _OPTIONS.items()
    ]
    parameters = [context, *(each.replace(kind=kind) for each in own), *common]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__, run.__name__ = function.__doc__, function.__name__
    return run


def _attend(function: Callable[..., None], desk: Desk, values: Mapping[str, Any]) -> None:
    from wa_orchestrator.client import ApiError

    try:
        function(desk, **values)
    except ApiError as error:
        typer.echo(told(error, desk), err=True)
        raise typer.Exit(EXIT_FAILED) from None
    finally:
        desk.close()


def told(error: "ApiError", desk: Desk) -> str:
    """Say in one line what the server said, or that there is none."""
    from wa_orchestrator.client import Invalid, NoAnswer

    if isinstance(error, NoAnswer):
        return f"{error.code}: No server answers at {desk.target.url}. Start one (wa-orchestrator up), or give --url."
    if isinstance(error, Invalid) and error.errors:
        problems = "; ".join(f"{each.get('path')}: {each.get('message')}" for each in error.errors)
        return f"{error.code}: {problems}"
    return " ".join(f"{error.code}: {as_typed(error.code, error.text, error.details)}".split())


def confirm(question: str, *, sure: bool) -> None:
    """Ask before something that cannot be undone; without a person to ask, `--yes` is needed."""
    from wa_orchestrator.errors import Refused

    if sure:
        return
    if not sys.stdin.isatty():
        raise Refused("NOT_CONFIRMED", f"{question} Say --yes, because there is nobody to ask here.")
    typer.confirm(question, abort=True, err=True)
