"""The JSON Schema of the schema file, for editors: `python -m admeasure.schema.publish > FILE`.

It says which fields and types there are. What needs more than that (bounds that go together, names
that differ) is said by `admeasure check`.
"""

from __future__ import annotations

import json

from admeasure.schema.model import Schema


def json_schema() -> str:
    """The published text, as docs/schema.json has it."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Schema.model_json_schema(by_alias=True),
        "title": "admeasure schema file",
        "description": "What is publicly known of a table, and whom the guarantee protects.",
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
