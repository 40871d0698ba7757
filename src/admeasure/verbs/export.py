"""`export`: a release in the forms of other tools. What is written was paid for: it costs nothing,
and may be published as the release may.

- `frictionless`: a folder with a data package (`datapackage.json`), its table of synthetic rows,
  and the certificate.
- `sdv`: a JSON file of SDV's metadata, which describes such rows.
- `csv`: the noisy measurements, a line for each number, with the levels it counts and its sigma.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from admeasure.certificate import registry_yaml
from admeasure.errors import UsageError
from admeasure.files import refuse_to_overwrite, write_text
from admeasure.queries import Marginal
from admeasure.queries.record import kind_of
from admeasure.release import Release
from admeasure.release.store import check_free
from admeasure.schema.exports import sdv_metadata, table_schema
from admeasure.verbs.given import GivenRelease, release_of
from admeasure.verbs.sample import sample_file

ExportForm = Literal["frictionless", "sdv", "csv"]
HEAD = ("measurement", "kind", "columns", "codes", "levels", "value", "sigma")


def export(
    release: GivenRelease,
    path: str | Path,
    form: ExportForm,
    *,
    rows: int | None = None,
    seed: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the release in a form of another tool; the path that was written. `rows` and `seed` are
    for the synthetic rows of a data package.

    >>> export("release", "package", "frictionless")  # doctest: +SKIP
    """
    if form not in get_args(ExportForm):
        raise UsageError(f"A release is exported as {', '.join(get_args(ExportForm))}.")
    target = Path(path)
    if form == "frictionless":
        check_free(target)
        _write_package(release_of(release), target, rows, seed)
        return target
    if rows is not None or seed is not None:
        raise UsageError("Rows and a seed are for a data package (--as frictionless).")
    refuse_to_overwrite(target, force=overwrite)
    made = release_of(release)
    if form == "csv":
        write_text(target, measurements_csv(made))
    else:
        write_text(target, _json(sdv_metadata(made.schema, made.schema.stored_names)))
    return target


def measurements_csv(release: Release) -> str:
    """Every number that was measured, with the query it answers."""
    text = io.StringIO()
    written = csv.writer(text, lineterminator="\n")
    written.writerow(HEAD)
    for number, measurement in enumerate(release.measurements, start=1):
        query, sigma = measurement.query, repr(float(measurement.sigma))
        head = (number, kind_of(query), ";".join(query.columns))
        values = measurement.values.ravel().tolist()
        for (codes, levels), value in zip(_cells(release, query), values, strict=False):
            written.writerow((*head, codes, levels, repr(float(value)), sigma))
    return text.getvalue()


def _cells(release: Release, query: Any) -> Iterator[tuple[str, str]]:
    """Codes and levels in words of each number of a marginal; of another query, its place."""
    if not isinstance(query, Marginal):
        yield from ((str(place), "") for place in itertools.count())
        return
    labels = [release.schema.column(name).labels for name in query.columns]
    for codes in itertools.product(*(range(len(own)) for own in labels)):
        words = (own[code] for own, code in zip(labels, codes, strict=True))
        yield ";".join(map(str, codes)), ";".join(words)


def _write_package(release: Release, target: Path, rows: int | None, seed: int | None) -> None:
    """The folder appears whole or not at all."""
    name = re.sub(r"[^a-z0-9._-]+", "-", release.schema.table.name.lower()).strip("-") or "release"
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(6)}.new")
    fresh.mkdir()
    try:
        table = sample_file(release, fresh / "rows.csv", rows, seed=seed)
        c = release.certificate
        package = {
            "name": name,
            "profile": "tabular-data-package",
            "title": f"Synthetic rows of {release.schema.table.name}",
            "description": f"{c.stamp} {c.promise}".strip(),
            "created": f"{c.created[:10]}T00:00:00Z",
            "resources": [
                {
                    "name": "rows",
                    "path": "rows.csv",
                    "profile": "tabular-data-resource",
                    "format": "csv",
                    "mediatype": "text/csv",
                    "encoding": "utf-8",
                    "schema": table_schema(release.schema, table.columns),
                }
            ],
            "admeasure": c.to_json(),
        }
        write_text(fresh / "datapackage.json", _json(package))
        columns = release.schema.domain.columns
        write_text(fresh / "certificate.yaml", registry_yaml(c, name, columns))
        os.rename(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n"
