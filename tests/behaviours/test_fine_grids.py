"""Columns without bounds in files: they are read on grids of thousands of leaves."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admeasure.schema import Schema
from admeasure.sources.open import open_source

OPEN = Schema.loads(
    '[table]\nname = "open"\n[privacy]\nunit = "person"\n'
    + "".join(
        f'[[column]]\nname = "{name}"\ntype = "{kind}"\n'
        for name, kind in (("day", "date"), ("whole", "integer"), ("real", "number"))
    )
)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_values_at_and_beside_every_leaf_of_a_fine_grid_get_their_own(tmp_path, suffix):
    """By numpy's search of the starts, one column after the other."""
    for name, column in ((c.name, c.as_read()) for c in OPEN.columns):
        starts = column.grid.starts
        if name == "real":
            at = np.concatenate([starts, np.nextafter(starts[1:], -np.inf)])
            stored = pa.array(at)
        else:
            at = np.concatenate([starts, starts[1:] - 1])
            stored = pa.array(at)
            stored = stored.cast(pa.int32()).cast(pa.date32()) if name == "day" else stored
        schema = Schema(table=OPEN.table, privacy=OPEN.privacy, column=(column,))
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "csv":
            lines = [str(v) if name == "day" else repr(v) for v in stored.to_pylist()]
            path.write_text("\n".join([name, *lines]) + "\n")
        else:
            pq.write_table(pa.table({name: stored}), path)
        expected = np.bincount(np.searchsorted(starts, at, side="right") - 1, minlength=len(starts))
        assert open_source(path, schema).counts([(name,)])[0].tolist() == expected.tolist()


def test_fine_grids_take_no_more_memory_than_is_planned_for(tmp_path):
    """A process of its own that counts seven columns without bounds. It held 1.1 GB when every
    start of a leaf was an expression of the query."""
    columns = "".join(f'[[column]]\nname = "n{i}"\ntype = "number"\n' for i in range(7))
    schema = '[table]\nname = "t"\n[privacy]\nunit = "person"\n' + columns
    rows = "\n".join(
        ",".join(str((i * 7919 + c) % 10_000 / 10) for c in range(7)) for i in range(3000)
    )
    path = tmp_path / "t.csv"
    path.write_text(",".join(f"n{c}" for c in range(7)) + "\n" + rows + "\n")
    code = (
        "import sys\n"
        "from admeasure.limits import peak\n"
        "from admeasure.schema import Schema\n"
        "from admeasure.sources.open import open_source\n"
        "schema = Schema.loads(sys.argv[1]).as_read\n"
        "open_source(sys.argv[2], schema).counts([(c,) for c in schema.domain.columns])\n"
        "print(peak())\n"
    )
    command = [sys.executable, "-c", code, schema, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 300
