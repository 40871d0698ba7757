"""What the audit suites share: every registered mechanism in a small form, and the counts.

A suite adds what it did to a tally; the sums are printed at the end (`make audit`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from admeasure.errors import AdmeasureError
from admeasure.mechanisms import LearnsFromPublic, Mechanism, build
from admeasure.planning.division import Task
from admeasure.public import PublicTable
from admeasure.schema import Schema
from admeasure.workload import Workload, parse_workload

OPTIONS: dict[str, dict[str, str]] = {
    "aim": {"rounds": "4"},
    "aim-plus": {"rounds": "4"},
    "aim-plus in batches": {"rounds": "4", "batch": "2"},
    "mwem": {"rounds": "2", "passes": "2"},
    "mwem-pgm": {"rounds": "2"},
    "mwem-rp": {"rounds": "2", "product-rows": "16", "steps": "25"},
    "privsyn": {"iterations": "5"},
    "rap": {"product-rows": "16", "steps": "25"},
    "rap-softmax": {"product-rows": "16", "steps": "25"},
    "rap-box": {"product-rows": "16", "steps": "25"},
    "rap without choices": {"measure": "all-cells", "product-rows": "16", "steps": "25"},
    "gaussian by cells": {"measure": "cells"},
    "privbayes of conditionals": {"estimate": "conditionals"},
    "dualquery": {"rounds": "3", "samples": "3"},
    "fem": {"rounds": "3", "samples": "2"},
    "gem": {"rounds": "4", "hidden": "8,8", "product-rows": "16", "steps": "5"},
    "gem-pub": {
        "rounds": "4",
        "hidden": "8,8",
        "product-rows": "16",
        "steps": "5",
        "pretrain-steps": "20",
    },
}
"""Options that make a mechanism quick. One that is not named runs with its defaults."""

WORKLOADS = ("all-2way", "all-3way", "all-1way", "threshold:1of2:2:seed=0")


def _workload(mechanism: Mechanism, schema: Schema) -> Workload:
    """The first of a few workloads that the mechanism serves."""
    refused: Exception | None = None
    for text in WORKLOADS:
        try:
            workload = parse_workload(text, schema.domain)
            mechanism.check(Task.of(schema, workload))
        except AdmeasureError as error:
            refused = error
        else:
            return workload
    raise AssertionError(f"{mechanism.name} serves none of {WORKLOADS}: {refused}")


def _small(name: str, schema: Schema) -> Mechanism:
    mechanism = build(name.split()[0], OPTIONS.get(name, {}))
    if isinstance(mechanism, LearnsFromPublic):
        rng = np.random.default_rng(0)
        codes = {c: rng.integers(0, schema.domain[c], 30) for c in schema.domain.columns}
        mechanism = mechanism.with_public(PublicTable.from_codes(codes, schema.domain))
    return mechanism


@pytest.fixture(scope="session")
def small() -> Callable[[str, Schema], Mechanism]:
    """A registered mechanism by name, with options that make it quick, and with a public table of
    made-up rows where it needs one."""
    return _small


@pytest.fixture(scope="session")
def served() -> Callable[[Mechanism, Schema], Workload]:
    """A workload that a mechanism serves."""
    return _workload
