"""What was promised, what was spent on what, and what is not protected.

The certificate is a function of the run's settings and its ledger. It holds nothing else of the
private table, so it may be published with the release.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from markupsafe import escape
from pydantic import TypeAdapter

from admeasure.notebooks import BLUE, bars, cell, folded, largest, row, stamp, table
from admeasure.plain import large_and_rest
from admeasure.privacy.cost import Cost
from admeasure.privacy.ledger import Charge

SEEDED = "NOT PRIVATE: made with a seeded random generator, for tests and research only"

UNPROTECTED = (
    "the schema: column names, bounds, bins, categories, structural zeros",
    "the workload and the mechanism's options",
    "the time and the memory the run took, the size of its files, that it reached a limit",
    "that a run was refused because the table does not satisfy the schema",
)

WITHOUT_BOOK = (
    "what other releases of the same table spend, and draws of an interrupted run that was resumed "
    "from an older copy of its folder: no budget book was used"
)


@dataclass(frozen=True)
class Line:
    """Like charges of the ledger added up."""

    what: str
    times: int
    rho: float
    delta: float = 0.0


@dataclass(frozen=True, repr=False)
class Certificate:
    """The guarantee of one release, dated by the day.

    `epsilon` and `delta` are what was asked for; `rho` is the zCDP budget they allow by the tight
    conversion (Canonne, Kamath and Steinke 2020); `rho_spent` is what the ledger charged, and
    `epsilon_spent` what that means at `delta`. `delta_spent` is the part of `delta` that steps
    which may fail have used up, such as a threshold; only the rest of it converts rho.
    """

    mechanism: str
    options: dict[str, Any]
    epsilon: float
    delta: float
    rho: float
    rho_spent: float
    epsilon_spent: float
    neighbours: str
    unit: str
    max_rows_per_unit: int
    private: bool
    noise: str
    charges: tuple[Line, ...]
    unprotected: tuple[str, ...]
    created: str
    version: str
    dataset: str | None = None
    delta_spent: float = 0.0
    notes: tuple[str, ...] = ()
    accuracy: str = ""
    """What is known of the release's mean error, in one sentence, where that was bought."""

    @property
    def stamp(self) -> str:
        """What every page and file of the release must show; empty for a private release."""
        return "" if self.private else SEEDED

    @property
    def promise(self) -> str:
        """The guarantee in one sentence."""
        if not self.private:
            return SEEDED + "."
        change = (
            f"adding or removing all rows of one {self.unit}"
            if self.neighbours == "add-remove"
            else f"replacing all rows of one {self.unit} by another's"
        )
        share = f" and {self.delta_spent:.6g} of delta" if self.delta_spent else ""
        return (
            f"({self.epsilon:g}, {self.delta:g})-differential privacy under {change} "
            f"(at most {self.max_rows_per_unit} row{'s' if self.max_rows_per_unit > 1 else ''} "
            f"each), spent {self.rho_spent:.6g} of rho {self.rho:.6g}{share}."
        )

    def large_charges(self, most: int) -> tuple[list[Line], list[Line]]:
        """The charges to show, so many of the largest, and the rest."""
        shown, rest = large_and_rest([line.rho for line in self.charges], most)
        return [self.charges[i] for i in shown], [self.charges[i] for i in rest]

    def __repr__(self) -> str:
        """A few lines: whose it is, its promise, and what was spent on what."""
        spent = largest((line.what, line.rho / (self.rho or 1.0)) for line in self.charges)
        shown = (
            f"Certificate of a release by {self.mechanism}, {self.created}",
            self.promise,
            f"Spent on: {spent or 'nothing'}",
            self.accuracy,
        )
        return "\n".join(filter(None, shown))

    def _repr_html_(self) -> str:
        """The promise, and what was spent on what."""
        most = max((line.rho for line in self.charges), default=1.0) or 1.0
        spent = [
            row(
                cell(line.what, "th"),
                cell(f"{line.times:,}"),
                cell(f"{100 * line.rho / (self.rho or 1.0):.1f}%"),
                bars((line.rho / most, BLUE)),
            )
            for line in sorted(self.charges, key=lambda line: -line.rho)
        ]
        listed = "".join(f"<li>{escape(text)}</li>" for text in self.unprotected)
        return (
            f"<div>{stamp(self.stamp)}<p>{escape(self.promise)}</p><p>{escape(self.accuracy)}</p>"
            + table(("spent on", "times", "of the budget", ""), spent)
            + folded("not protected", f"<ul>{listed}</ul>")
            + "</div>"
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "stamp": self.stamp, "promise": self.promise}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Certificate:
        """The certificate of a record; `ValueError` where a field is missing or of another type."""
        known = {k: v for k, v in raw.items() if k in cls.__dataclass_fields__}
        found = _READER.validate_python(known)
        numbers = (found.epsilon, found.delta, found.rho, found.rho_spent, found.epsilon_spent)
        charged = (x for c in found.charges for x in (c.rho, c.delta))
        if not all(math.isfinite(x) and x >= 0 for x in (*numbers, found.delta_spent, *charged)):
            raise ValueError("a budget is not a number")
        return found


_READER = TypeAdapter(Certificate)


def lines(charges: tuple[Charge, ...]) -> tuple[Line, ...]:
    """Charges by what they were for, in the order of their first occurrence."""
    alike: dict[str, list[Cost]] = {}
    for charge in charges:
        alike.setdefault(charge.what, []).append(charge.cost)
    sums = {what: (len(costs), sum(costs[1:], costs[0])) for what, costs in alike.items()}
    return tuple(
        Line(what, times, float(cost), float(cost.delta_share))
        for what, (times, cost) in sums.items()
    )


def registry_yaml(certificate: Certificate, name: str, columns: tuple[str, ...]) -> str:
    """The certificate with the fields of the OpenDP deployments registry, to be completed.

    Field names follow github.com/opendp/deployments-registry-data (deployments/*.yaml). What only
    the steward knows is left as an empty text.
    """
    c = certificate
    listed = "\n".join(f"      - {_quoted(text)}" for text in c.unprotected)
    spent = "\n".join(f"      - {_quoted(_paid(line))}" for line in c.charges)
    return f"""\
# {_one_line(c.promise)}
deployment:
  basic:
    name: {_quoted(name)}
    data_curators:
      - data_curator_name: ''
        data_curator_type: ''
    description: {_quoted(f"Synthetic rows and answers made with admeasure {c.version}")}
    intended_use: ''
    data_product_type: Synthetic data
    data_product_region: ''
    data_product_sector: ''
    publication_date: {_quoted(c.created[:10])}
  dp_variant:
    variant_name: Approximate DP
    data_domain: {_quoted("Columns: " + ", ".join(columns))}
    unprotected_quantities:
{listed}
  privacy_loss:
    privacy_unit: {_quoted(c.unit)}
    privacy_unit_details: {_quoted(f"{c.neighbours}; at most {c.max_rows_per_unit} row(s) each")}
    privacy_parameters:
      epsilon: {c.epsilon!r}
      delta: {c.delta!r}
      rho: {c.rho!r}
    privacy_parameters_details:
{spent or "      - nothing was charged"}
  deployment_model:
    model_name: Central
    release_type: One release
    data_source_type: Static
    access_type: Non-interactive
  implementation:
    mechanisms: {_quoted(f"{c.mechanism} {c.options}; {c.noise}")}
    preprocessing_and_hyperparameter_tuning: {_quoted("none but what is charged above")}
    justification: ''
  administrative:
    status: Draft
    registry_authors: []
"""


def _paid(line: Line) -> str:
    share = f" and delta {line.delta:.6g}" if line.delta else ""
    return f"{line.what}: rho {line.rho:.6g}{share} in {line.times} charge(s)"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    """A YAML single-quoted scalar on one line."""
    return "'" + _one_line(text).replace("'", "''") + "'"
