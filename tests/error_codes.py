"""Every stable code with which the services refuse something, and what their words are made of: read from the source."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import wa_orchestrator

CODE = re.compile("[A-Z][A-Z_]+")
_SOURCE = Path(wa_orchestrator.__file__).parent
_SERVICES = ("dashboard", "gateway", "orchestrator", "web", "domain", "runner", "store")
_RAISED = ("Refused", "Unavailable", "__init__")


def refusals() -> set[str]:
    """Every code that a service gives: in a raised error, or declared for a route."""
    declared = {each.arg for name, call, _ in _calls() if name == "responses" for each in call.keywords if each.arg}
    return declared | set(ingredients())


def ingredients() -> dict[str, set[str]]:
    """By code: the expressions whose values its text and its fields contain. Empty where these are always the same."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, call, around in _calls():
        code = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else ""
        if name in _RAISED and CODE.fullmatch(str(code)):
            said = [*call.args[1:], *(each.value for each in call.keywords)]
            found[str(code)] |= {ast.unparse(leaf) for each in said for leaf in _leaves(each, around)}
    return found


@cache
def _calls() -> list[tuple[str, ast.Call, ast.AST]]:
    """Every call in the services: the name of what is called, the call, the function or module around it."""
    paths = [path for room in _SERVICES for path in (_SOURCE / room).rglob("*.py")]
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    return [call for tree in trees for call in _calls_in(tree, tree)]


def _calls_in(node: ast.AST, around: ast.AST) -> Iterator[tuple[str, ast.Call, ast.AST]]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Call):
            yield each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", ""), each, around
        inside = each if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) else around
        yield from _calls_in(each, inside)


def _leaves(said: ast.expr, around: ast.AST) -> Iterator[ast.expr]:
    """Yield the parts of an expression that are not written out: a name stands for what the function gives it."""
    match said:
        case ast.Constant():
            return
        case ast.JoinedStr():
            for each in said.values:
                if isinstance(each, ast.FormattedValue):
                    yield from _leaves(each.value, around)
        case ast.Name() if said.id.lstrip("_").isupper():
            return
        case ast.Name() if given := [each for each in ast.walk(around) if _gives(each, said.id)]:
            for assignment in given:
                yield from _leaves(assignment.value, around)
        case ast.IfExp():
            yield from _leaves(said.body, around)
            yield from _leaves(said.orelse, around)
        case _:
            yield said


def _gives(node: ast.AST, name: str) -> TypeGuard[ast.Assign]:
    """Whether it is an assignment to this name alone."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(each, ast.Name) and each.id == name for each in targets)
