"""What reports and conclusions read of a release. A `Release` has it; they stand below it."""

from __future__ import annotations

from typing import Any, Protocol

from admeasure.bounds import Bound, Evidence
from admeasure.certificate import Certificate
from admeasure.domain import Columns
from admeasure.families import Model
from admeasure.measurement import Measurement
from admeasure.schema import Schema
from admeasure.workload import Workload


class Published(Protocol):
    """A model of the table, what it came from, and what it cost."""

    @property
    def schema(self) -> Schema: ...
    @property
    def workload(self) -> Workload: ...
    @property
    def model(self) -> Model: ...
    @property
    def measurements(self) -> tuple[Measurement, ...]: ...
    @property
    def certificate(self) -> Certificate: ...
    @property
    def log(self) -> tuple[dict[str, Any], ...]: ...
    @property
    def rows(self) -> int: ...
    @property
    def evidence(self) -> Evidence: ...
    def bounds(self, *, confidence: float = 0.95) -> dict[Columns, Bound]: ...
