"""Parts of a release as what its files hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from admeasure.schema import Schema
from admeasure.schema.inside import Inside
from admeasure.selectors.evidence import Selection


def leaf_arrays(inside: Mapping[str, Inside], schema: Schema) -> dict[str, np.ndarray]:
    """By the numbers of the columns: an array's name must be a file's."""
    arrays = {}
    for i, name in enumerate(schema.names):
        if name in inside:
            of = inside[name]
            arrays |= {f"starts{i}": of.starts, f"shares{i}": of.shares}
            if of.counts is not None:
                arrays |= {f"counts{i}": of.counts, f"sigma{i}": np.array(of.sigma)}
    return arrays


def selection_record(selection: Selection) -> dict[str, Any]:
    """As `admeasure.release.reading` reads it."""
    record = asdict(selection)
    for key in ("weights", "distances"):
        record[key] = [[list(c), v] for c, v in record[key].items()]
    return record
