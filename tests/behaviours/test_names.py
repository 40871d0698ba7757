"""One meaning a name: whoever meets a class in one package may meet it in another."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import admeasure

PACKAGE = Path(admeasure.__file__).parent


def test_no_two_classes_have_the_same_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(PACKAGE)))
    assert len(homes) > 100
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
