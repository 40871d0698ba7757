"""Records of codes give back the codes that were put in, however Spark cuts and joins them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from admeasure.schema import Schema
from admeasure.sources.spark.codes import pack, unpack

SCHEMA = Schema.coded("toy", {"a": 5, "b": 300, "c": 40})
WIDTH = sum(column.dtype.itemsize for column in SCHEMA.columns)


def rows_of(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    return {c.name: rng.integers(0, c.levels, count).astype(c.dtype) for c in SCHEMA.columns}


@pytest.mark.parametrize("record", [1, WIDTH, 4096])
@pytest.mark.parametrize("most", [1, 700, 10**6])
@pytest.mark.parametrize("offsets", [pa.binary(), pa.large_binary()])
def test_codes_come_back_in_order_and_in_blocks_of_the_size_asked(
    record: int, most: int, offsets: pa.DataType
) -> None:
    """Records of one row, where a row has more bytes than a record should, and of many."""
    blocks = [rows_of(count) for count in (1, 1024, 1500, 2048, 2048)]
    packed = pa.concat_arrays([pack(block, SCHEMA.columns, record) for block in blocks])
    packed = packed.cast(offsets)
    longest = max(map(len, packed.to_pylist()))
    assert longest <= max(record, WIDTH)
    cut = len(packed) // 3  # not where a block ends, and the second piece has an offset
    wanted = ("b", "c")
    found = list(unpack([packed[:cut], packed[cut:]], SCHEMA.columns, wanted, most))
    assert all(rows <= max(most, longest // WIDTH) for _, rows in found)
    assert sum(rows for _, rows in found) == sum(len(block["a"]) for block in blocks)
    for name in wanted:
        true = np.concatenate([block[name] for block in blocks])
        assert np.concatenate([codes[name] for codes, _ in found]).tolist() == true.tolist()


def test_rows_are_counted_where_no_column_is_wanted() -> None:
    packed = pack(rows_of(2500), SCHEMA.columns)
    assert sum(rows for _, rows in unpack([packed], SCHEMA.columns, (), 600)) == 2500


def test_a_block_without_codes_is_one_empty_record() -> None:
    packed = pack({}, SCHEMA.columns)
    assert packed.to_pylist() == [b""]
    assert list(unpack([packed, packed[:0]], SCHEMA.columns, ("a",), 100)) == []
