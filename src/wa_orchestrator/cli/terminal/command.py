"""Commands that talk to a running server: common options, a client, output, and errors in one line."""

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec, get_type_hints

import typer
from typer.core import TyperCommand

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.hints import terminal_message
from wa_orchestrator.cli.terminal.target import Options, Target, find
from wa_orchestrator.errors import Refused

if TYPE_CHECKING:
    from wa_orchestrator.client import ApiError, Client

EXIT_FAILED: Final = 1
P = ParamSpec("P")

_OPTIONS: Mapping[str, Any] = {
    "url": Annotated[str | None, typer.Option("--url", envvar="WA_URL", help="URL of the server.")],
    "api_key": Annotated[
        str | None, typer.Option("--api-key", envvar="WA_API_KEY", help="Prefer WA_API_KEY: others can see arguments.")
    ],
    "data_dir": Annotated[Path | None, typer.Option("--data-dir", help="Data directory of a server on this machine.")],
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON.")],
}


@dataclass
class Invocation:
    options: Options

    @cached_property
    def target(self) -> Target:
        return find(self.options)

    @cached_property
    def client(self) -> "Client":
        """A client of the server, closed when the command ends."""
        from wa_orchestrator.client import Client

        return Client(self.target.url, self.target.api_key)

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    def output(self, result: Any, show: Callable[[], None]) -> None:
        """Print a result: as JSON with `--json`, else by calling `show`."""
        if self.options.as_json:
            print_json(result)
        else:
            show()

    def say(self, result: Any, text: str) -> None:
        """Print a result: as JSON with `--json`, else as this line."""
        self.output(result, lambda: tables.line(text))


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def command(
    app: typer.Typer, name: str | None = None, *, alias: str | None = None, panel: str | None = None
) -> Callable[[Callable[Concatenate[Invocation, P], None]], None]:
    """Add a command to `app`: its function receives an `Invocation`, and --url, --json and so on are added.

    A parameter whose type is a dataclass stands for the options of its fields, which several commands may have.
    """

    def add(function: Callable[Concatenate[Invocation, P], None]) -> None:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        groups: dict[str, Any] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}

        def invoke(ctx: typer.Context, **values: Any) -> None:
            options = Options(**{option: values.pop(option) for option in _OPTIONS})
            for parameter, made in groups.items():
                values[parameter] = made(**{field.name: values.pop(field.name) for field in fields(made)})
            _invoke(function, Invocation(options.over(ctx.obj or Options())), values)

        invoke.__doc__, invoke.__name__ = function.__doc__, function.__name__
        own = [option for each in parameters for option in _options_of(each)]
        app.command(name, rich_help_panel=panel)(_with_options(invoke, own))
        if alias:
            app.command(alias, hidden=True)(invoke)

    return add


def _options_of(parameter: inspect.Parameter) -> Sequence[inspect.Parameter]:
    group = parameter.annotation
    if not is_dataclass(group):
        return [parameter]
    types = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(each.name, parameter.KEYWORD_ONLY, default=each.default, annotation=types[each.name])
        for each in fields(group)
    ]


def group(description: str) -> typer.Typer:
    """Return a group of commands. Without one of them it runs `list`; options before a command apply to it too."""

    def run_list(ctx: typer.Context, **values: Any) -> None:
        ctx.obj = Options(**values)
        if ctx.invoked_subcommand is None:
            listing: TyperCommand = ctx.command.commands["list"]  # type: ignore[attr-defined]  # it is a group
            listing.invoke(listing.make_context("list", [], parent=ctx))

    app = typer.Typer(help=description, invoke_without_command=True)
    app.callback()(_with_options(run_list))
    return app


def _with_options(invoke: Callable[..., None], own: Sequence[inspect.Parameter] = ()) -> Callable[..., None]:
    """Set the signature that Typer reads: the function's own parameters, then the common options."""
    kind = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("ctx", kind, annotation=typer.Context)
    common = [
        inspect.Parameter(name, kind, annotation=annotation, default=False if name == "as_json" else None)
        for name, annotation in _OPTIONS.items()
    ]
    parameters = [context, *(each.replace(kind=kind) for each in own), *common]
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    invoke.__annotations__ = {each.name: each.annotation for each in parameters}
    return invoke


def _invoke(function: Callable[..., None], run: Invocation, values: Mapping[str, Any]) -> None:
    from wa_orchestrator.client import ApiError

    try:
        function(run, **values)
    except ApiError as error:
        typer.echo(error_json(error) if run.options.as_json else error_line(error, run), err=True)
        raise typer.Exit(EXIT_FAILED) from None
    finally:
        run.close()


def error_json(error: "ApiError") -> str:
    """Return an error as the API answers it, for scripts."""
    shown = {"code": error.code, "message": error.text, "details": dict(error.details)}
    return json.dumps({"error": shown}, ensure_ascii=False)


def error_line(error: "ApiError", run: Invocation) -> str:
    from wa_orchestrator.client.errors import InvalidError, NoAnswerError

    if isinstance(error, NoAnswerError):
        return f"{error.code}: {_no_answer(run.target.url, reached=error.reached)}"
    if isinstance(error, InvalidError) and error.errors:
        problems = "; ".join(f"{each.get('path')}: {each.get('message')}" for each in error.errors)
        return f"{error.code}: {problems}"
    return " ".join(f"{error.code}: {terminal_message(error.code, error.text, error.details)}".split())


def _no_answer(url: str, *, reached: bool) -> str:
    if reached:
        return f"The server at {url} did not answer in time. It may have done this: look before you repeat it."
    return f"No server answers at {url}. Start one (wa-orchestrator up), or pass --url."


def all_pages(fetch: Callable[..., dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the first page of a list with the items of all pages in its field `name`."""
    whole = page = fetch()
    while page["next"] is not None:
        page = fetch(cursor=page["next"])
        whole[name] += page[name]
    del whole["next"]
    return whole


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone; without a terminal, `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused("NOT_CONFIRMED", f"{question} stdin is not a terminal; pass --yes to confirm.")
    typer.confirm(question, abort=True, err=True)


def nothing_to_change(*options: str) -> Refused:
    """Return the error for a command that was given none of the options with which it changes something."""
    return Refused("NOTHING_TO_CHANGE", f"Nothing to change. Pass {', '.join(options[:-1])} or {options[-1]}.")
