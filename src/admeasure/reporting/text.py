"""A release in plain text: what it is, what it promises, what it cost, how good it says it is.

Everything comes from the release, so the text may be published as the release may. True errors
come in only where they are handed in, and then NOT PRIVATE stands at the top and at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from admeasure.bounds import Answer, Bound, share
from admeasure.conclusions import Verdict
from admeasure.domain import Columns
from admeasure.errors import UsageError
from admeasure.evaluation.errors import Errors
from admeasure.plain import table
from admeasure.published import Published
from admeasure.queries import Cell
from admeasure.reporting.facts import gather
from admeasure.reporting.html import stamps_of, sure
from admeasure.reporting.summary import summarise
from admeasure.workload import Question

LEVELS_SHOWN = 12
BOUNDS_SHOWN = 30
CHARGES_SHOWN = 30


def text_report(
    release: Published, *, confidence: float = 0.95, errors: Errors | None = None
) -> str:
    """The report; with `errors`, the internal one."""
    stamps = [f"*** {stamp} ***" for stamp in stamps_of(release, internal=errors is not None)]
    parts = [
        *stamps,
        *_head(release),
        *_summary(release, confidence),
        *_charges(release),
        *(_errors(errors) if errors else ()),
        *_bounds(release, confidence),
        *_columns(release, confidence),
        *stamps,
    ]
    return "\n".join(parts) + "\n"


def _title(text: str) -> list[str]:
    return ["", text, "-" * len(text)]


def _head(release: Published) -> Iterator[str]:
    c, table = release.certificate, release.schema.table
    yield f"Release of {table.name!r} by {c.mechanism}, admeasure {c.version}, {c.created}"
    if table.description:
        yield table.description
    if c.accuracy:
        yield c.accuracy
    yield from _title("What is promised")
    yield c.promise
    yield f"Noise: {c.noise}."
    if c.dataset:
        yield f"Charged to the data set {c.dataset!r} in a budget book."
    yield f"The table has about {release.rows:,} rows, by this release's own belief."
    yield "Not protected: " + "; ".join(c.unprotected) + "."
    yield from c.notes


def _summary(release: Published, confidence: float) -> Iterator[str]:
    summary = summarise(gather(release, confidence=confidence), release.certificate.unit)
    yield from _title("What it is good for")
    yield f"Safe for: {summary.safe}"
    yield f"Not safe for: {summary.unsafe}"
    yield summary.trust


def _charges(release: Published) -> Iterator[str]:
    c = release.certificate
    yield from _title("What was spent")
    if not c.charges:
        yield "Nothing was charged."
        return
    shown, rest = c.large_charges(CHARGES_SHOWN)
    for line in shown:
        times = f" in {line.times} charges" if line.times > 1 else ""
        share = f", and {line.delta:.3g} of delta" if line.delta else ""
        yield f"{line.rho:12.6g}  {line.what}{times}{share}"
    if rest:
        yield f"{sum(line.rho for line in rest):12.6g}  {len(rest)} more; release.json lists all"
    share = f", and {c.delta_spent:.3g} of delta {c.delta:g}" if c.delta_spent else ""
    yield f"{c.rho_spent:12.6g}  of rho {c.rho:.6g}{share}"


def _errors(errors: Errors) -> Iterator[str]:
    yield from _title("True errors (NOT PRIVATE)")
    within = f" ± {errors.standard_error:.2g}" if errors.standard_error else ""
    yield f"Workload error {errors.workload_error:.5f}{within}: {errors.in_words}."
    yield (
        f"Over {errors.queries:,} queries in {errors.looked_at}: largest "
        f"{errors.max_error:.5f}, mean {errors.mean_error:.3g}, rmse {errors.rmse:.3g} (of shares)."
    )
    yield from (f"{w.error:12.5f}  {w.query}" for w in errors.worst)


def _bounds(release: Published, confidence: float) -> Iterator[str]:
    yield from _title(f"The workload, worst first ({100 * confidence:g}% bounds, each by itself)")
    yield "The L1 distance between the true marginal and the release's is at most, as a share of"
    yield "the rows (2 says nothing):"
    bounds = release.bounds(confidence=confidence)
    ranked = sorted(bounds.items(), key=lambda item: (-item[1].error, item[0]))
    for columns, bound in ranked[:BOUNDS_SHOWN]:
        yield f"{share(bound.error, release.rows):12.4f}  {', '.join(columns)} ({bound.kind})"
    if len(ranked) > BOUNDS_SHOWN:
        yield f"{'':12}  and {len(ranked) - BOUNDS_SHOWN} better ones"


def _columns(release: Published, confidence: float) -> Iterator[str]:
    yield from _title(f"The columns, worst known first ({100 * confidence:g}% intervals, in rows)")
    known: list[tuple[str, Bound]] = []
    silent: list[str] = []
    for column in release.schema.columns:
        try:
            bound = release.evidence.bounds([(column.name,)], confidence)[(column.name,)]
            known.append((column.name, bound))
        except UsageError:  # answers only, and this column was not asked about
            silent.append(column.name)
    for name, bound in sorted(known, key=lambda item: (-item[1].error, item[0])):
        yield ""
        yield f"{name}: within {share(bound.error, release.rows):.4f} in all ({bound.kind})"
        yield from _levels(release, name, confidence)
    if silent:
        yield ""
        yield "The release does not answer: " + ", ".join(silent) + "."


def _levels(release: Published, name: str, confidence: float) -> Iterator[str]:
    labels = release.schema.column(name).labels
    columns: Columns = (name,)
    (counts,) = release.model.marginals([columns])
    largest = sorted(range(len(labels)), key=lambda code: (-float(counts[code]), code))
    shown = sorted(largest[:LEVELS_SHOWN])
    answers = release.evidence.answers(
        [Question(labels[code], Cell(columns, (code,))) for code in shown], confidence
    )
    width = max(len(a.name) for a in answers)
    yield from (f"  {_line(a, width)}" for a in answers)
    if len(labels) > len(shown):
        yield f"  and {len(labels) - len(shown):,} rarer levels"


def _line(answer: Answer, width: int) -> str:
    return (
        f"{answer.name:<{width}}  {answer.value:>12,.0f}  [{answer.low:,.0f}, {answer.high:,.0f}]"
    )


def verdict_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """A table of the verdicts, and what its words mean; nothing where there are none."""
    if not verdicts:
        return []
    rows = [
        [v.name, v.verdict, "agrees" if v.in_release else "disagrees", sure(v)] for v in verdicts
    ]
    confidence = f"{100 * verdicts[0].confidence:g}%"
    return [
        "",
        *table(["conclusion", "verdict", "release", "sure up to"], rows, left=3),
        "",
        f"A verdict is about the private table and stands with {confidence} confidence, for one "
        "conclusion at a",
        "time. sure up to: the largest confidence at which the table can be said to do as the "
        "release does.",
    ]
