"""The fields of ordered columns: types of bounds, bins, scale and clamping, and what contradicts
itself in them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from admeasure.schema import values
from admeasure.schema.column import PRIVATE, OrPrivate

MAX_WHOLE = 2**53
MOST_BINS = 64
"""Of a column whose bins are private: all that is checked and planned before they are known."""

USELESS_SCALE = (
    'has a scale, which only private bins are cut by. Leave `scale` out, or use `bins = "private"`'
)


def _iso_date(value: Any) -> Any:
    """TOML has dates of its own; an ISO text is as good. A datetime is not a day."""
    if isinstance(value, datetime.datetime):
        return str(value)
    is_day = isinstance(value, str) and len(value) == len("2024-12-31")
    return (values.date_from_text(value) or value) if is_day else value


Whole = Annotated[int, Field(ge=-MAX_WHOLE, le=MAX_WHOLE)]
Real = Annotated[float, Field(allow_inf_nan=False)]
Day = Annotated[datetime.date, BeforeValidator(_iso_date)]
Bins = Annotated[
    int,
    Field(ge=1),
    OrPrivate,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer", "minimum": 1}, {"const": PRIVATE}],
            "description": 'Bins of equal width; or "private": found by the run, for a charge.',
        }
    ),
]
Scale = Annotated[
    Literal["log"] | None,
    Field(description="Private bins are cut from a grid that is finer near zero."),
]
Clamp = Annotated[
    bool, Field(description="Values outside the bounds go to the first or last level.")
]


def edge_problems(
    bins: object, edges: Sequence[Any], minimum: object, maximum: object
) -> Iterator[str]:
    """What is wrong with edges, as ends of the sentence "Column 'x' …"."""
    if bins is not None:
        yield "has both bins and edges. Keep one of them"
    if len(edges) < 2:
        yield "has fewer than two edges. k + 1 edges make k bins"
    elif any(a >= b for a, b in pairwise(edges)):
        yield "has edges that do not ascend. Write each edge once, smallest first"
    else:
        for field, bound, edge in (("minimum", minimum, edges[0]), ("maximum", maximum, edges[-1])):
            if bound not in (None, edge):
                yield f"has a {field} that is not its outer edge. Leave `{field}` out"


def not_ascending(*, below: bool) -> str:
    word = "below" if below else "at most"
    return f"has a minimum that is not {word} its maximum. Correct one of them"
