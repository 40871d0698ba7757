"""`draft`: a schema with names and storage types, from a table's header and public documents."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from admeasure.errors import UsageError
from admeasure.public.read import check_apart
from admeasure.schema.draft import draft as draft_text
from admeasure.schema.imports import KnownColumns, of_codebook, of_hierarchy, of_json
from admeasure.schema.infer import fields_of
from admeasure.schema.values import quoted
from admeasure.sources.kinds import installed_kind
from admeasure.untrusted import read_json, read_text


def draft(
    data: str,
    *,
    public: str | Path | Iterable[str | Path] = (),
    out: str | Path | None = None,
) -> str:
    """The text of a schema; every bound that no public document gives is a TODO that fails
    validation.

    `data` is a path or an address of a table. No value of any row is looked at. `public` names
    files that need no protection, the first that knows a column decides: a table like this one
    (last year's release), from which types, levels and bounds are taken; a codebook as CSV, with a
    column `name` and `type`, `minimum`, `maximum`, `values`, `missing`, `format`, or `value`; a
    hierarchy of codes as CSV (`levels_of`); a Table Schema of Frictionless, metadata of SDV or a
    domain of mbi as JSON. `out` is where the schema will lie, which names a hierarchy from there.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "people.csv").write_text("age,sex\\n20,f\\n")
    ...     print(draft(f"{folder}/people.csv").count("TODO") > 0)
    True
    """
    kind = installed_kind(data)
    header = kind.storage_types(data)
    names = [name for name, _ in header]
    facts: KnownColumns = {}
    for file in [public] if isinstance(public, (str, Path)) else public:
        check_apart(data, str(file))
        found = _facts(str(file), names, Path(out or "").parent)
        if not set(found) & set(names):
            raise UsageError(
                f"{quoted(str(file))} knows none of the table's columns. Compare their names; the "
                "first column of a hierarchy is called like the column whose codes it has."
            )
        facts = found | facts
    return draft_text(header, name=kind.table_name(data), facts=facts)


def _facts(file: str, names: list[str], folder: Path) -> KnownColumns:
    if file.lower().endswith(".json"):
        return of_json(read_json(Path(file)), Path(file).name)
    if file.lower().endswith(".csv"):
        text = read_text(Path(file), called="public file")
        found = of_codebook(text)
        if found is not None and set(found) & set(names):
            return found
        tree = of_hierarchy(text, names, Path(os.path.relpath(file, folder)).as_posix())
        if tree is not None:
            return tree
    kind = installed_kind(file)
    stored = {name for name, _ in kind.storage_types(file)}
    read = {n: fields_of(kind.distinct_values(file, n, None)) for n in names if n in stored}
    return {name: fields for name, fields in read.items() if fields is not None}
