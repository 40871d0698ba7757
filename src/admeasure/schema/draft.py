"""A first schema from a table's header: names and storage types, and no value of any row.

Every bound and category is the text TODO, which validation refuses, so that nothing of the private
table can slip into a schema by way of a draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from admeasure.errors import DataError
from admeasure.schema.load import PLACEHOLDER
from admeasure.schema.toml import toml_text
from admeasure.schema.values import quoted

_TODO = f'"{PLACEHOLDER}"'
_HEADER = """\
# Fill in every TODO from public knowledge: a codebook, a form, a law. Never from the rows.
# A column that needs no protection and no answer is best left out: delete its [[column]].
# Where one {unit} may have several rows, add unit_column = "…" under [privacy].
"""


def draft(header: Sequence[tuple[str, str]], *, name: str = PLACEHOLDER) -> str:
    """A schema text for columns given as (name, storage type).

    >>> print(draft([("age", "BIGINT")]).splitlines()[-4])
    name = "age"
    """
    names = [column for column, _ in header]
    again = sorted({n for n in names if names.count(n) > 1})
    if again:
        raise DataError(f"The table has two columns {quoted(again[0])}. Rename one of them.")
    lines = [_HEADER.format(unit="person") + "[table]", f"name = {toml_text(name)}", ""]
    lines += ["[privacy]", f"unit = {_TODO}", ""]
    for column, storage in header:
        lines += ["[[column]]", f"name = {toml_text(column)}", *_fields(kind_of(storage)), ""]
    return "\n".join(lines)


def kind_of(storage: str) -> str:
    """The schema type for a storage type as DuckDB, polars, pandas or pyarrow names it; string
    where the name says nothing.

    >>> kind_of("TIMESTAMP WITH TIME ZONE"), kind_of("Int64"), kind_of("DECIMAL(10,2)")
    ('date', 'integer', 'number')
    """
    word = storage.lower()
    if word.startswith(("date", "timestamp")):
        return "date"
    if word.startswith("bool"):
        return "boolean"
    if word.startswith("interval"):
        return "string"
    if word.startswith(("float", "double", "real", "decimal", "numeric", "number")):
        return "number"
    return "integer" if "int" in word or word == "hugeint" else "string"


def _fields(kind: str) -> Iterable[str]:
    yield f'type = "{kind}"'
    if kind in ("integer", "number", "date"):
        yield f"minimum = {_TODO}"
        yield f"maximum = {_TODO}"
    if kind == "number":
        yield f"bins = {_TODO}"
    if kind == "string":
        yield f"enum = [{_TODO}]"
