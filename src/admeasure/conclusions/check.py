"""Whether a conclusion holds in the private table, told from its release alone, with confidence.

A claim is s > 0 for a weighted sum s of counts. An interval for s comes in two ways, and half of
beta is kept for each, so that both hold together and the tighter end of either may be used:

- *together*: where all columns of the claim were measured in one marginal, s is a linear map of
  that marginal's estimate, with noise of scale σ ||w||. Noise that two groups share is counted
  once.
- *apart*: each group's own interval (`Evidence.answers`), each at its part of that half.

A conclusion of m claims gives beta/m to each. It *holds* where every interval lies above 0, *does
not hold* where one lies at or below 0, and else *cannot be told*. `sure` is the largest confidence
at which the release still decides the same way; intervals are nested in the confidence, so it may
be quoted as such. Everything here is computed from the release and costs no budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from admeasure.bounds.evidence import error_probability
from admeasure.conclusions.files import Claim, Conclusion, Term
from admeasure.domain import Columns, canonical
from admeasure.errors import UsageError
from admeasure.workload import Question

if TYPE_CHECKING:
    from admeasure.bounds import Evidence
    from admeasure.published import Published

Judgement = Literal["holds", "does not hold", "cannot be told"]
LEAST, MOST = 0.5, 1 - 1e-9
"""The confidences between which `sure` is looked for."""


@dataclass(frozen=True)
class Margin:
    """One claim: the release's own value of its sum, and an interval for the true one, in rows."""

    words: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """What can be said of a conclusion at `confidence`.

    `in_release`: whether the release's own numbers agree with it. `sure`: the largest confidence at
    which the table can be said to do as the release does; None where even one half is too much.
    """

    name: str
    verdict: Judgement
    confidence: float
    in_release: bool
    sure: float | None
    margins: tuple[Margin, ...]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "verdict": self.verdict,
            "confidence": self.confidence,
            "in_release": self.in_release,
            "sure": self.sure,
            "claims": [vars(m) for m in self.margins],
            "note": self.note,
        }


def check_all(
    release: Published, conclusions: Sequence[Conclusion], *, confidence: float = 0.95
) -> list[Verdict]:
    """Each conclusion by itself at this confidence."""
    return [check(release, conclusion, confidence=confidence) for conclusion in conclusions]


def check(release: Published, conclusion: Conclusion, *, confidence: float = 0.95) -> Verdict:
    """Whether one conclusion holds in the table, at this confidence."""
    beta = error_probability(confidence)
    evidence = release.evidence
    try:
        margins = _margins(evidence, conclusion, beta)
    except UsageError as error:  # a release of answers only, which was not asked about these
        return Verdict(
            conclusion.name,
            "cannot be told",
            confidence,
            in_release=False,
            sure=None,
            margins=(),
            note=str(error),
        )
    agrees = all(m.value > 0 for m in margins)
    wanted: Judgement = "holds" if agrees else "does not hold"

    def decided(level: float) -> bool:
        return _outcome(_margins(evidence, conclusion, 1 - level)) == wanted

    return Verdict(
        conclusion.name, _outcome(margins), confidence, agrees, _largest(decided), margins
    )


def _outcome(margins: Sequence[Margin]) -> Judgement:
    if all(m.low > 0 for m in margins):
        return "holds"
    return "does not hold" if any(m.high <= 0 for m in margins) else "cannot be told"


def _largest(decided: Any) -> float | None:
    """The largest confidence at which it is decided, to a tenth of its distance from 1."""
    if not decided(LEAST):
        return None
    if decided(MOST):
        return MOST
    low, high = math.log(1 - LEAST), math.log(1 - MOST)
    while low - high > 0.1:
        middle = (low + high) / 2
        low, high = (middle, high) if decided(1 - math.exp(middle)) else (low, middle)
    return 1 - math.exp(low)


def _margins(evidence: Evidence, conclusion: Conclusion, beta: float) -> tuple[Margin, ...]:
    claims = conclusion.claims
    return tuple(_margin(evidence, claim, beta / len(claims)) for claim in claims)


def _margin(evidence: Evidence, claim: Claim, beta: float) -> Margin:
    value, low, high = _apart(evidence, claim.terms, beta / 2)
    joint = _together(evidence, claim.terms, beta / 2)
    if joint is not None:
        low, high = max(low, joint[0]), min(high, joint[1])
    # The two can miss each other only where one of them is wrong, which beta allows for.
    return Margin(claim.words, value, min(low, high), max(low, high))


def _apart(evidence: Evidence, terms: Sequence[Term], beta: float) -> tuple[float, float, float]:
    questions = [Question(str(term.group), term.group) for term in terms]
    answers = evidence.answers(questions, 1 - beta / len(terms))
    value = low = high = 0.0
    for term, answer in zip(terms, answers, strict=True):
        ends = sorted((term.weight * answer.low, term.weight * answer.high))
        value += term.weight * answer.value
        low, high = low + ends[0], high + ends[1]
    return value, low, high


def _together(evidence: Evidence, terms: Sequence[Term], beta: float) -> tuple[float, float] | None:
    columns = canonical({c for term in terms for c in term.group.columns})
    found = evidence.estimate(columns)
    if found is None:
        return None
    estimate, _ = found
    weights = np.zeros(estimate.shape)
    for term in terms:
        counted = term.group.spread(np.ones(()), evidence.domain)
        weights += term.weight * _widened(np.asarray(counted), term.group.columns, columns)
    centre = float((weights * estimate).sum())
    half = evidence.tail(columns, weights, beta / 2)
    return centre - half, centre + half


def _widened(array: np.ndarray, columns: Columns, wider: Columns) -> np.ndarray:
    """An array over some columns as one that broadcasts over more of them."""
    sizes = dict(zip(columns, array.shape, strict=True))
    return array.reshape([sizes.get(c, 1) for c in wider])
