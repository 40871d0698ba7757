"""A release as one HTML file: publishable, or internal with the private table beside it.

The file is complete in itself: its style, its drawings and its text are inside, it asks for nothing
from anywhere and runs no script. All names are escaped by the template engine. `html_report`
without `truth` is computed from the release alone and may be published as the release may; with
`truth` it holds true counts, and NOT PRIVATE stands on every page of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import jinja2

from admeasure.conclusions import Conclusion, Verdict, check_all
from admeasure.evaluation import NOT_PRIVATE
from admeasure.evaluation.errors import CountsOf
from admeasure.privacy.account import Account
from admeasure.published import Published
from admeasure.reporting import charts, columns, facts, truth
from admeasure.reporting.summary import summarise

SURE_SHOWN = 0.999999


def html_report(
    release: Published,
    *,
    confidence: float = 0.95,
    conclusions: Sequence[Conclusion] = (),
    account: Account | None = None,
    private_counts: CountsOf | None = None,
) -> str:
    """The report as HTML. `account` is the data set in a budget book, for what was ever spent on
    it. With `private_counts`, the counts of the private table, it is the internal report."""
    gathered = facts.gather(release, confidence=confidence)
    seen = None
    if private_counts is not None:
        seen = truth.look(release, private_counts, gathered.ranked, gathered.pairs)
    return _page(
        "report.html.j2",
        release,
        internal=seen is not None,
        facts=gathered,
        truth=seen,
        confidence=confidence,
        verdicts=check_all(release, conclusions, confidence=confidence),
        account=account,
        limits=facts,
        grades=columns,
        summary=summarise(gathered, release.certificate.unit),
    )


def certificate_page(release: Published) -> str:
    """The certificate as one printable page."""
    return _page("certificate.html.j2", release, internal=False)


def _page(template: str, release: Published, *, internal: bool, **values: Any) -> str:
    stamps = stamps_of(release, internal=internal)
    known = {"c": release.certificate, "table": release.schema.table, "stamps": stamps}
    made = environment("admeasure.reporting").get_template(template)
    return made.render(release=release, **known, **values)


def stamps_of(release: Published, *, internal: bool) -> list[str]:
    """What must stand on every page of a report."""
    return [s for s in (NOT_PRIVATE if internal else "", release.certificate.stamp) if s]


@cache
def environment(package: str) -> jinja2.Environment:
    """The templates of a package, with the words and charts that reports and pages share."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(rows=rows, percent=percent, small=small, sure=sure, factor=factor)
    environment.filters.update(shortened=charts.shortened)
    environment.globals.update(
        interval_bar=charts.interval_bar,
        plain_bar=charts.plain_bar,
        twin_bars=charts.twin_bars,
        heat_map=charts.heat_map,
        histogram=charts.histogram,
        scatter=charts.scatter,
    )
    return environment


def rows(count: float) -> str:
    """A count of rows.

    >>> rows(1234.4), rows(-0.2)
    ('1,234', '0')
    """
    return f"{round(count) + 0:,}" if math.isfinite(count) else "any number"


def percent(share: float) -> str:
    """A share in percent, with as many digits as say something.

    >>> percent(0.12345), percent(0.0012), percent(0)
    ('12.3%', '0.12%', '0%')
    """
    value = 100 * share
    if value == 0:
        return "0%"
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 1 else 2
    return f"{value:.{digits}f}%"


def small(value: float | None) -> str:
    """A number below ten or so: an error, a rho, a sigma."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def sure(verdict: Verdict) -> str:
    """The largest confidence at which a verdict stands, in words."""
    if verdict.sure is None:
        return "less than 50%"
    if verdict.sure >= SURE_SHOWN:
        return f"more than {100 * SURE_SHOWN:.4f}%"
    digits = max(0, math.ceil(-math.log10(1 - verdict.sure)) - 2) + 1
    # Rounded down: what is quoted must have been reached.
    scale = 10**digits
    return f"{math.floor(100 * verdict.sure * scale) / scale:.{digits}f}%"


def factor(epsilon: float) -> str:
    """e to the epsilon, as a factor of odds."""
    return f"{math.exp(epsilon):.3g}" if epsilon < 20 else f"e^{epsilon:g}"
