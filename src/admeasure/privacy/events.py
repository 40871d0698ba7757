"""What a line of a journal, or of a release's log, must be before anything is made of it.

A log may come from anybody, and a journal from a disk that is failing. `read_event` gives back an
event that every reader can rely on: costs are exact numbers, scales are finite and positive, and
queries are queries. Whether an event is true is for the audit to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from admeasure.errors import AdmeasureError, ReleaseError
from admeasure.queries import from_record
from admeasure.untrusted import parse_json, rational

Event = dict[str, Any]

LARGEST_SIGMA = 1e150
"""Its square is a double."""


def read_event(line: bytes, name: str) -> Event:
    """The event of a line; a `ReleaseError` where it is none."""
    event = parse_json(line, f"A line of {name}", ReleaseError)
    check_event(event, name)
    return event


def check_event(event: Event, name: str) -> None:
    """A `ReleaseError` unless this is an event."""
    announced = event.get("event") == "intent"
    kind = event.get("of" if announced else "event")
    try:
        if not isinstance(kind, str) or kind not in _FIELDS:
            raise ValueError
        for field, check in _FIELDS[kind].items():
            if field in event or field not in _OPTIONAL:
                check(event[field])
    except (AdmeasureError, ValueError, TypeError, KeyError, OverflowError):
        raise ReleaseError(
            f"{name} holds a line that is no event. Fetch or restore the folder."
        ) from None


def _scale(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError
    if not (math.isfinite(value) and value <= LARGEST_SIGMA):
        raise ValueError


def _whole(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError


def _text(value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError


def _queries(value: Any) -> None:
    if not isinstance(value, list):
        raise ValueError
    for record in value:
        from_record(record)


def _texts(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError


_CHOICE: dict[str, Callable[[Any], object]] = {
    "rho": rational,
    "delta_share": rational,
    "epsilon": _scale,
    "sensitivity": _whole,
    "candidates": _whole,
    "k": _whole,
    "chosen": _queries,
}
_NOISE: dict[str, Callable[[Any], object]] = {
    "rho": rational,
    "delta_share": rational,
    "sigma": _scale,
    "l2_squared": _whole,
}
_FIELDS: dict[str, dict[str, Callable[[Any], object]]] = {
    "measure": {**_NOISE, "query": from_record},
    "statistic": {**_NOISE, "what": _text},
    "find": {**_NOISE, "column": _text, "threshold": _whole, "found": _texts},
    "choose": _CHOICE,
    "flip": _CHOICE,
}
KINDS = frozenset(_FIELDS)
"""The kinds of events, each of which an intent announces."""

_OPTIONAL = ("k", "chosen", "found", "delta_share")
"""`k` is left out where it is 1, a share of delta where it is 0, and an intent has no result."""
