"""Parts of the reference that are made from the code: nothing of them is written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import admeasure
from admeasure.cli.app import command
from admeasure.mechanisms import REGISTRY
from admeasure.planning.mechanism import options_of

SCHEMA = Path(__file__).resolve().parents[1] / "reference" / "schema.json"


def command_line() -> str:
    """Every verb with its arguments and options, from the parser."""
    return "\n".join(_verbs(command(), "admeasure"))


def _verbs(group: Any, called: str) -> Iterator[str]:
    for name, verb in group.commands.items():
        full = f"{called} {name}"
        if hasattr(verb, "commands"):
            yield f"## `{full}`\n\n{verb.help}\n"
            yield from _verbs(verb, full)
            continue
        yield f"{'#' * len(full.split())} `{full}`\n\n{verb.help}\n"
        yield f"```text\n{' '.join((full, *_usage(verb)))}\n```\n"
        yield _table(
            ("option", "what it says", "if not told"),
            ((_spelt(p), _cell(_help(p)), _default(p)) for p in verb.params),
        )


def _usage(verb: Any) -> Iterator[str]:
    if any(p.param_type_name == "option" for p in verb.params):
        yield "[OPTIONS]"
    for p in verb.params:
        if p.param_type_name == "argument":
            yield p.metavar if p.required else f"[{p.metavar}]"


def _spelt(p: Any) -> str:
    if p.param_type_name == "argument":
        return f"`{p.metavar}`"
    names = " / ".join((*p.opts, *p.secondary_opts))
    return f"`{names}`" if p.is_flag else f"`{names} {p.metavar or 'VALUE'}`"


def _help(p: Any) -> str:
    return p.help or ""


def _default(p: Any) -> str:
    if p.required:
        return "must be given"
    plain = isinstance(p.default, str | int | float) and not isinstance(p.default, bool)
    return f"`{p.default}`" if plain else ""


def mechanisms() -> str:
    """Every mechanism with its options and their defaults."""
    return _table(
        ("name", "in Python", "what it is", "options"),
        (
            (
                f"`{name}`",
                f"`admeasure.{name.replace('-', '_')}`",
                _cell(kind.summary),
                ", ".join(
                    f"`--{option.replace('_', '-')}`" + ("" if value is None else f" {value}")
                    for option, value in options_of(kind()).items()
                ),
            )
            for name, kind in REGISTRY.items()
        ),
    )


def python() -> str:
    """The public names of the package, in groups."""
    known = {name.replace("-", "_") for name in REGISTRY} | {"auto"}
    nouns = [name for name in admeasure.__all__ if name[0].isupper()]
    verbs = [name for name in admeasure.__all__ if name not in known and name not in nouns]
    lines: list[str] = []
    for title, names in (("Verbs", verbs), ("Nouns", nouns), ("Mechanisms", sorted(known))):
        lines.append(f"## {title}\n")
        lines += map(_documented, names)
    return "\n".join(lines)


def _documented(name: str) -> str:
    """Where the name is defined, shown as users call it."""
    thing = getattr(admeasure, name)
    shown = f"      heading: admeasure.{name}\n      toc_label: {name}\n"
    return f"::: {thing.__module__}.{thing.__qualname__}\n    options:\n{shown}"


def schema_fields() -> str:
    """The sections of a schema file and their fields, from the JSON Schema."""
    document = json.loads(SCHEMA.read_text("utf-8"))
    lines = []
    for section, field in document["properties"].items():
        shown = [_reached(kind, document) for kind in _kinds(field)]
        array = field.get("type") == "array" or "items" in field
        for kind in shown:
            if "properties" not in kind or "not" in kind:
                continue
            of = kind["properties"].get("type", {}).get("const")
            name = f"[[{section}]]" if array else f"[{section}]"
            lines.append(f"## `{name}`" + (f" of type `{of}`" if of else "") + "\n")
            if "description" in kind:
                lines.append(kind["description"].replace("\n", " ") + "\n")
            needed = kind.get("required", ())
            lines.append(
                _table(
                    ("field", "type", "if not told", "meaning"),
                    (
                        (
                            f"`{key}`",
                            _cell(_type(value, document)),
                            "must be given" if key in needed else _shown(value.get("default")),
                            _cell(value.get("description", "")),
                        )
                        for key, value in kind["properties"].items()
                    ),
                )
            )
    return "\n".join(lines)


def _reached(kind: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    return document["$defs"][kind["$ref"].rpartition("/")[2]] if "$ref" in kind else kind


def _kinds(field: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for inner in ("anyOf", "oneOf"):
        if inner in field:
            for kind in field[inner]:
                yield from _kinds(kind)
            return
    if "items" in field:
        yield from _kinds(field["items"])
    else:
        yield field


def _type(value: dict[str, Any], document: dict[str, Any]) -> str:
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return "one of " + ", ".join(f"`{json.dumps(each)}`" for each in value["enum"])
    if "$ref" in value:
        return _type(_reached(value, document), document)
    for inner in ("anyOf", "oneOf"):
        if inner in value:
            return " or ".join(dict.fromkeys(_type(each, document) for each in value[inner]))
    if value.get("type") == "array":
        return "list of " + _type(value.get("items", {}), document)
    words = {
        "string": "text",
        "integer": "whole number",
        "null": "nothing",
        "object": "table",
        "boolean": "true or false",
    }
    return words.get(value.get("type", "any"), value.get("type", "any value"))


def _shown(default: Any) -> str:
    return "" if default in (None, [], {}, ()) else f"`{json.dumps(default)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines) + "\n"


PARTS = {
    "command-line": command_line,
    "mechanisms": mechanisms,
    "python": python,
    "schema-fields": schema_fields,
}
