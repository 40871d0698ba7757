"""One meaning a name: whoever meets a class in one package may meet it in another."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import admeasure

PACKAGE = Path(admeasure.__file__).parent
FILES = {
    ".".join(("admeasure", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): ast.parse(path.read_text())
    for path in sorted(PACKAGE.rglob("*.py"))
}


def package(module: str) -> str:
    return ".".join(module.split(".")[:2])


IMPORTED = {
    (node.module, alias.name)
    for module, tree in FILES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.ImportFrom) and package(node.module or "") != package(module)
    for alias in node.names
}


def named(module: str) -> Iterator[str]:
    """Public classes of a module, and names of types that other packages import from it."""
    for node in FILES[module].body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if (module, name) in IMPORTED and name[0].isupper() and not name.isupper():
                yield name


def test_no_two_types_have_the_same_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for module in FILES:
        for name in named(module):
            homes[name].append(module)
    assert len(homes) > 100
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
