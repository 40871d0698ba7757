"""Where the time of a run of `rap` goes. Wraps the functions of a run while it is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

PARTS = {
    "select": "admeasure.privacy.curator.Curator.top_k",
    "measure": "admeasure.privacy.curator.Curator.measure",
    "race": "admeasure.privacy.race.Race.add",
    "counts": "admeasure.privacy.reading.AnswerReader.__call__",
    "copies": "admeasure.privacy.scores.accelerator._placed",
    "send": "admeasure.privacy.scores.tiles.scored",
    "wait": "admeasure.privacy.scores.accelerator.fetched",
    "at": "admeasure.privacy.scores.accelerator.DeviceScores.at",
    "fit": "admeasure.families.products.family.ProductFamily.update",
}
"""Seconds inside each; `race` and `select` include what they call."""

COMPILED = "/jax/core/compile/backend_compile_duration"


@contextmanager
def split(*, waiting: bool = False) -> Iterator[dict[str, Any]]:
    """Seconds and calls of each part, and of compilations. With `waiting` a fit is waited for,
    so that its time does not show up in the next choice."""
    import jax
    import jax.monitoring

    found: dict[str, Any] = {}

    def timed(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            made = inner(*args, **kwargs)
            if waiting and name == "fit":
                jax.block_until_ready(made.P)
            found[name] = found.get(name, 0.0) + time.perf_counter() - start
            found[f"{name}_n"] = found.get(f"{name}_n", 0) + 1
            return made

        return call

    def compiled(event: str, duration_secs: float, **kwargs: Any) -> None:
        del kwargs
        if event == COMPILED and not over:
            found["compile"] = found.get("compile", 0.0) + duration_secs
            found["compile_n"] = found.get("compile_n", 0) + 1

    over: list[bool] = []
    jax.monitoring.register_event_duration_secs_listener(compiled)
    with ExitStack() as stack:
        for name, target in PARTS.items():
            owner, attribute = target.rsplit(".", 1)
            inner = getattr(_resolve(owner), attribute)
            stack.enter_context(patch.object(_resolve(owner), attribute, timed(name, inner)))
        yield found
    over.append(True)


def _resolve(path: str) -> Any:
    import importlib

    module, _, attribute = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), attribute)


def shown(found: dict[str, Any]) -> str:
    return " ".join(
        f"{name}={value:.2f}s/{found[f'{name}_n']}"
        for name, value in found.items()
        if f"{name}_n" in found
    )
