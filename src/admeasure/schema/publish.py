"""The JSON Schema of the schema file, for editors: `python -m admeasure.schema.publish > FILE`.

It says which fields and types there are. What needs more than that (bounds that go together, names
that differ) is said by `admeasure check`.
"""

from __future__ import annotations

import json
from typing import Any

from admeasure.schema.model import TYPES, Schema
from admeasure.schema.ready import READY


def json_schema() -> str:
    """The published text, as docs/reference/schema.json has it."""
    document: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Schema.model_json_schema(by_alias=True),
        "title": "admeasure schema file",
        "description": "What is publicly known of a table, and whom the guarantee protects.",
    }
    _add_shorthand(document)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _add_shorthand(document: dict[str, Any]) -> None:
    """Columns as a file may write them (`admeasure.schema.shorthand`)."""
    texts = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    short = {
        "names": {**texts, "description": "One column each, instead of name."},
        "like": {"type": "string", "description": "Another column, whose fields it has."},
        "ready": {"enum": list(READY), "description": "A ready block, whose fields it has."},
        "enum_file": {"type": "string", "description": "Its enum, beside this file."},
    }
    for kind in TYPES.values():
        column = document["$defs"][kind.__name__]
        column["properties"] |= short
        column["required"] = ["type"]
        column["anyOf"] = [{"required": ["name"]}, {"required": ["names"]}]
    untyped = {
        "title": "A column like another, or a ready block",
        "type": "object",
        "properties": short,
        "not": {"required": ["type"]},
        "anyOf": [{"required": ["like"]}, {"required": ["ready"]}],
    }
    columns = document["properties"]["column"]
    columns["items"] = {"anyOf": [columns["items"], untyped]}


if __name__ == "__main__":
    print(json_schema(), end="")
