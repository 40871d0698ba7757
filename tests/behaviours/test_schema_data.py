"""Encoding a real table gives the codes that others published for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from admeasure.schema import Schema, encode_frame

pytestmark = pytest.mark.data


def described(column: dict[str, Any]) -> dict[str, Any]:
    """A column of the published discretisation as a column of ours."""
    if column["kind"] == "categorical":
        return {"name": column["name"], "type": "string", "enum": column["categories"]}
    bins = column["bins"]
    return {
        "name": column["name"],
        "type": "integer",
        "minimum": bins["low"],
        "maximum": bins["high_exclusive"] - 1,
        "bins": bins["count"],
    }


@pytest.mark.parametrize("stored", ["as numbers", "as texts"])
def test_adult_is_encoded_as_the_aim_paper_has_it(shared_data: Path, stored: str):
    columns = json.loads((shared_data / "adult_aim.schema.json").read_text("utf-8"))["columns"]
    raw = pl.read_parquet(shared_data / "adult_raw.parquet")
    published = pl.read_parquet(shared_data / "adult_aim.parquet")
    usable = [c for c in columns if c["name"] in raw.columns]
    assert len(usable) >= 14
    schema = Schema.model_validate(
        {
            "table": {"name": "adult"},
            "privacy": {"unit": "person"},
            "column": [described(c) for c in usable],
        }
    )
    frame = raw.cast(pl.String) if stored == "as texts" else raw
    codes = encode_frame(frame, schema)
    for name in schema.names:
        assert (codes[name] == published[name].to_numpy()).all(), name
