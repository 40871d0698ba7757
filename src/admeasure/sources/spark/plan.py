"""What a DataFrame or view of Spark may do: give the same rows whenever it is read.

Spark runs a plan anew for every count whose codes are not kept, and for every task that is lost.
Rows that depend on chance, on the clock, on partitions, or on a number of rows that is cut off,
would make the rows that are counted of one unit depend on those of others. So the analysed plan is
compared with a list of what is known to be a function of the stored rows alone; whatever is not on
the list is refused. What was written into a table is fixed, and is read.

Code of the user (UDFs that are said to be deterministic, RDDs) is taken at its word: it must give
each row by itself, and the same whenever it runs.

No row is looked at here. Messages name a step of the plan and never a constant of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from admeasure.sources.kind import NotFixed, refusal
from admeasure.sources.spark.job import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STEPS = """
Project Filter SubqueryAlias View LogicalRelation LogicalRDD LocalRelation HiveTableRelation
UnresolvedCatalogRelation DataSourceV2Relation DataSourceV2ScanRelation RelationV2 Relation
OneRowRelation Range Union Join
Aggregate Deduplicate Distinct Intersect Except Repartition RepartitionByExpression
RebalancePartitions Sort ResolvedHint UnresolvedHint WithCTE CTERelationDef CTERelationRef
InMemoryRelation
"""
_AGGREGATES = {"count", "min", "max", "bool_and", "bool_or", "every", "some", "any"}
"""Aggregates that neither an order nor rounding changes."""
_CHANGING = re.compile(
    r"\b(current_\w+|now|curdate|localtimestamp|unix_timestamp|user|session_user|session_window|"
    r"any_value|scalar-subquery|lateral-subquery|variablereference)\b[ (#]"
)
_FUNCTION = re.compile(r"([A-Za-z_][\w.]*)\(")
_WORDS = {
    "GlobalLimit": "it has a limit",
    "LocalLimit": "it has a limit",
    "Offset": "it has an offset",
    "Sample": "it draws a sample",
    "Window": "it has a window function",
}
_WHOLE = {"tinyint", "smallint", "int", "bigint"}


def check_fixed(frame: DataFrame, ordered: DataFrame, words: str, unit: str | None) -> None:
    """Raises a `DataError` unless a frame gives the same rows at every scan. `ordered` is the frame
    with columns that order the rows of a unit, which may look at a row and nothing else; or the
    same frame. Units that a union brings to one type by itself are refused: that merges some of
    them and splits others."""
    try:
        if is_remote(frame):
            remote: Any = ordered
            check_text(remote._explain_string(extended=True))
            return
        _check(_analysed(frame), unit, _java(frame).expressions.Cast)
        if ordered is not frame:
            _check_order(_analysed(ordered))
    except NotFixed as found:
        raise refusal(words, found, "a table or a file first") from None


def _java(frame: Any) -> Any:
    return frame.sparkSession._jvm.org.apache.spark.sql.catalyst


def _analysed(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _check_order(plan: Any) -> None:
    if plan.nodeName() != "Project" or not plan.deterministic():
        raise NotFixed("order_by depends on chance or on other rows")
    _check_expressions(plan)


def _check(plan: Any, unit: str | None, casts: Any) -> None:
    if not plan.deterministic():
        raise NotFixed("it depends on chance, on partitions or on the order of rows")
    for step in _steps(plan):
        name = step.nodeName()
        if name not in _STEPS.split():
            raise NotFixed(_WORDS.get(name, f"it has a step {name!r}, which is not on the list"))
        _check_expressions(step)
        if name == "Aggregate":
            _check_aggregates(step)
        if name == "Deduplicate" and step.keys().size() < step.output().size():
            raise NotFixed("it drops duplicates by some of its columns")
        if name == "Union" and unit is not None:
            _check_union(step, unit, casts)
    below = plan.subqueriesAll()
    for i in range(below.size()):
        _check(below.apply(i), None, casts)


def _steps(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for i in range(children.size()):
        yield from _steps(children.apply(i))


def _check_expressions(step: Any) -> None:
    if found := _CHANGING.search(step.expressions().mkString(" ; ").lower() + " "):
        raise NotFixed(f"it has {found[1]!r}, which is not on the list")


def _check_aggregates(step: Any) -> None:
    expressions = step.aggregateExpressions()
    for i in range(expressions.size()):
        for found in _aggregates(expressions.apply(i)):
            if found.lower() not in _AGGREGATES:
                raise NotFixed(f"it has {found!r}, which is not on the list")


def _aggregates(expression: Any) -> Iterator[str]:
    if expression.getClass().getSimpleName() == "AggregateExpression":
        yield expression.aggregateFunction().prettyName()
        return
    children = expression.children()
    for i in range(children.size()):
        yield from _aggregates(children.apply(i))


def _check_union(step: Any, unit: str, companion: Any) -> None:
    """Whether Spark itself brought the units of a union to one type. Where none of its columns has
    the unit's name, any may be the unit."""
    output, children = step.output(), step.children()
    names = [output.apply(i).name().lower() for i in range(output.size())]
    places = [i for i, name in enumerate(names) if name == unit.lower()] or range(len(names))
    for i in range(children.size()):
        child = children.apply(i)
        if child.nodeName() != "Project":
            continue
        if any(_is_widened(child.projectList().apply(j), companion) for j in places):
            raise NotFixed("parts of a union store its units in different types")


def _is_widened(expression: Any, companion: Any) -> bool:
    """Whether a column is a cast that nobody asked for, to other than a larger whole number."""
    if expression.getClass().getSimpleName() != "Alias":
        return False
    cast = expression.child()
    if cast.getClass().getSimpleName() != "Cast":
        return False
    if not cast.getTagValue(companion.USER_SPECIFIED_CAST()).isEmpty():
        return False
    return not {cast.dataType().catalogString(), cast.child().dataType().catalogString()} <= _WHOLE


def check_text(text: str) -> None:
    """The same of an explained plan: Spark Connect shows no more. Only steps that are plain are
    read."""
    analysed = text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized")[0]
    lines = analysed.strip().splitlines()[1:]
    if not lines:
        raise NotFixed("its plan is not shown")
    for line in lines:
        step = line.lstrip(" :+-")
        name = step.partition(" ")[0].partition("[")[0]
        if name not in _STEPS.split() or name in {"Aggregate", "Deduplicate", "Union"}:
            raise NotFixed(_WORDS.get(name, f"it has a step {name!r}, which is not on the list"))
        if name in {"Project", "Filter", "Join", "Sort"} and (
            " more fields" in step or set(_FUNCTION.findall(step)) - {"cast", "isnotnull", "isnull"}
        ):
            raise NotFixed("it computes columns")
