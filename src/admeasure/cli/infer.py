"""`infer`: means, proportions, correlations and regressions with intervals, which cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from admeasure.cli.arguments import Confidence, Json, ReleasePath, conditions, option
from admeasure.errors import UsageError

if TYPE_CHECKING:
    from admeasure.analyses import Analysis, Inferred, Variable


def infer(
    release: ReleasePath,
    mean: Annotated[
        list[str] | None, option("V", "The mean of a column; of conditions, the share.")
    ] = None,
    difference: Annotated[
        tuple[str, str, str] | None,
        option(
            "V GROUP OTHER",
            "The mean in one group less that in another: age \"sex = 'F'\" \"sex = 'M'\".",
        ),
    ] = None,
    correlation: Annotated[tuple[str, str] | None, option("V V", "Pearson's correlation.")] = None,
    linear: Annotated[
        list[str] | None, option("FORMULA", "Least squares: \"hours ~ age + sex = 'F'\".")
    ] = None,
    logistic: Annotated[
        list[str] | None, option("FORMULA", "Log odds: \"income = '>50K' ~ age + hours\".")
    ] = None,
    where: Annotated[str | None, option("CONDITIONS", "For --mean and --correlation.")] = None,
    confidence: Confidence = 0.95,
    *,
    json: Json = False,
) -> None:
    """Estimates with intervals for the table and for the population. Costs no budget.

    V is a column of numbers or days, or conditions: 1 where a row meets them all, else 0.
    """
    from admeasure.analyses import infer as inferred
    from admeasure.release import Release
    from admeasure.terminal.console import banner, say, say_json, say_table

    asked = _asked(mean or (), difference, correlation, linear or (), logistic or (), where)
    loaded = Release.load(release)
    found = [
        (kind, one)
        for kind, analysis in asked
        for one in inferred(loaded, analysis, confidence=confidence)
    ]
    stamp = loaded.certificate.stamp
    if json:
        estimates = [{"statistic": kind, **asdict(one)} for kind, one in found]
        say_json({"stamp": stamp, "confidence": confidence, "estimates": estimates})
        return
    banner(stamp)
    lines = [
        [kind, _of(one), *map(_shown, (one.value, *one.noise, *one.noise_and_sampling))]
        for kind, one in found
    ]
    titles = ["statistic", "of", "estimate", "table from", "to", "population from", "to"]
    say_table(titles, lines)
    say()
    say(
        f"At {100 * confidence:g}%. For the table's own value the intervals allow for noise; for "
        "the population, of which the table's rows are an independent sample, for sampling too. "
        "They are measured to hold, not proved; those of `admeasure answer` are proved."
    )
    widened = dict.fromkeys(f"{kind} {one.name}" for kind, one in found if one.unmeasured)
    if widened:
        say(f"Wider, since columns were not measured together: {'; '.join(widened)}.")
    binned = [
        f"{kind} {one.name} by {one.inside:.3g} {one.unit}".rstrip()
        for kind, one in found
        if one.inside
    ]
    if binned:
        say(
            "Wider on either side, since nothing says where in their bins values lie, or how that "
            f"goes together with other columns: {'; '.join(binned)}."
        )


def _asked(
    means: Sequence[str],
    difference: tuple[str, str, str] | None,
    correlation: tuple[str, str] | None,
    linear: Sequence[str],
    logistic: Sequence[str],
    where: str | None,
) -> list[tuple[str, Analysis]]:
    """The statistics that the options name, with their kinds."""
    from admeasure import analyses

    met = conditions(where)
    asked: list[tuple[str, Analysis]] = [
        ("mean", analyses.Mean(_variable(v, "--mean"), met)) for v in means
    ]
    if difference is not None:
        of = _variable(difference[0], "--difference")
        one, other = (conditions(group, "--difference") for group in difference[1:])
        asked.append(("difference", analyses.MeanDifference(of, one, other)))
    if correlation is not None:
        a, b = (_variable(v, "--correlation") for v in correlation)
        asked.append(("correlation", analyses.Correlation(a, b, met)))
    if met and not asked:
        raise UsageError("--where is for --mean and --correlation. Name one.")
    for text in linear:
        asked.append(("linear", analyses.LinearRegression(*_formula(text, "--linear"))))
    for text in logistic:
        of, on = _formula(text, "--logistic")
        if isinstance(of, str):
            raise UsageError(f"A logistic regression is of conditions. Write {of} = … for {of}.")
        asked.append(("logistic", analyses.LogisticRegression(of, on)))
    if not asked:
        raise UsageError("There is nothing to estimate. Name a statistic, such as --mean COLUMN.")
    return asked


def _of(one: Inferred) -> str:
    """What an estimate is of, and what its numbers count where they do not say so themselves."""
    return f"{one.name} ({one.unit})" if one.unit and isinstance(one.value, float) else one.name


def _shown(value: object) -> str:
    return f"{value:,.5g}" if isinstance(value, float) else str(value)


def _variable(text: str, option: str) -> Variable:
    return conditions(text, option) if "=" in text else text.strip()


def _formula(text: str, option: str) -> tuple[Variable, Sequence[Variable]]:
    """`of ~ on + on`, apart from what stands in quotes."""
    sides = _split(text, "~")
    if len(sides) != 2 or not all(side.strip() for side in sides):
        raise UsageError(f"{option} needs what is explained, ~, and by what: hours ~ age + height.")
    of, on = sides
    terms = _split(on, "+")
    if not all(term.strip() for term in terms):
        raise UsageError(f"{option}: a variable is missing beside a +.")
    return _variable(of, option), [_variable(term, option) for term in terms]


def _split(text: str, mark: str) -> list[str]:
    """The parts between marks that are not inside quotes.

    >>> _split("income = '>50K+' ~ age", "~")
    ["income = '>50K+' ", ' age']
    >>> _split("a = '1+' + b", "+")
    ["a = '1+' ", ' b']
    """
    parts, quote = [""], ""
    for letter in text:
        if letter == mark and not quote:
            parts.append("")
            continue
        if letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        parts[-1] += letter
    return parts
