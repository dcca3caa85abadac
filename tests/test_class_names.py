"""One name is one idea: no two classes of the product share a name."""

import ast
from collections import defaultdict
from pathlib import Path

import wa_orchestrator

ROOT = Path(wa_orchestrator.__file__).parent


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT)
        if name.parts[0] == "simulator":  # a WhatsApp of its own, with the words of the protocol
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(name))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
