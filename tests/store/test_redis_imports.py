"""Redis is spoken in store/ alone; the gateway's translation of errors and the context that connects are exceptions."""

import ast
from pathlib import Path

import wa_orchestrator

SOURCE = Path(wa_orchestrator.__file__).parent
#: Modules outside store/ that know the client.
ALLOWED = {"context.py", "gateway/redis_access.py"}


def _modules() -> dict[str, ast.Module]:
    names = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    outside = {name for name in names if not name.startswith(("store/", "simulator/"))} - ALLOWED
    return {name: ast.parse(names[name].read_text("utf-8")) for name in outside}


def _imports_redis(module: ast.Module) -> bool:
    for node in ast.walk(module):
        if isinstance(node, ast.Import) and any(each.name.split(".")[0] == "redis" for each in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "redis":
            return True
    return False


def _uses_the_client(module: ast.Module) -> bool:
    """Whether it reads `context.redis` or `scripts.redis`."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "redis"
        and getattr(node.value, "attr", getattr(node.value, "id", "")).lstrip("_") in ("context", "scripts")
        for node in ast.walk(module)
    )


def test_redis_is_imported_in_the_store_alone() -> None:
    assert {name for name, module in _modules().items() if _imports_redis(module)} == set()


def test_no_other_room_sends_commands_to_redis() -> None:
    assert {name for name, module in _modules().items() if _uses_the_client(module)} == set()
