"""What a run will hold at once, from public facts: what cannot fit is refused before it is charged.

Two things can be known beforehand. A table of counts beyond `COUNTED_CELLS` is never counted whole,
on any machine: `check` refuses it. And how many bytes a mechanism holds for a cell of the workload
was measured (tables of 3 to 60 columns of 100 to 1,500 levels): `Mechanism.needs` says what a run
cannot do without, and `Request` compares it with what the limits and the machine leave.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import combinations

from admeasure.domain import Columns, Domain, about, canonical
from admeasure.errors import ResourceError
from admeasure.limits import COUNTED_CELLS, MEGABYTE, room_in_addresses
from admeasure.workload import Workload

COUNTS = 8
"""Bytes of a count, and of a model's answer."""

JAX_MEGABYTES = 170
"""What JAX takes when it starts."""

JAX_ADDRESSES = 700 + 150 * (os.cpu_count() or 1)
"""Megabytes of addresses that JAX wants, more for each of its threads; refused, it may end the
process. (On two cores a run went well with 917 and not with 715.)"""


def check_counted(domain: Domain, marginals: Iterable[Columns], who: str) -> None:
    """Refuse marginals of which exact counts are needed whole and cannot be had."""
    for columns in marginals:
        cells = domain.cells(columns)
        if cells > COUNTED_CELLS:
            raise ResourceError(
                f"{who}: the marginal of {', '.join(columns)} has {about(cells)} cells, and at "
                f"most {about(COUNTED_CELLS)} are counted. Leave it out, or give its columns "
                "fewer bins."
            )


def check_listed(workload: Workload, who: str) -> None:
    """Refuse a workload of which only a sample is looked at: answers are all that there will be."""
    if workload.sampled:
        raise ResourceError(
            f"{who} answers what it measures and nothing else, and the workload is "
            f"{workload.rule}: too many to measure. Name the marginals that matter, ask for "
            "smaller ones, or use aim-plus."
        )


def start_jax(who: str) -> None:
    """Start JAX, before anything is charged. Refuse where it may not have the addresses that it
    wants (ulimit): it would end the process."""
    there = room_in_addresses()
    if there < JAX_ADDRESSES:
        raise ResourceError(
            f"{who} learns with JAX, which needs about {JAX_ADDRESSES:,} MB of addresses, and the "
            f"process may have {max(0.0, there):,.0f} MB more (ulimit -v). Raise that limit, or "
            "use aim."
        )
    try:
        import jax
        import optax  # noqa: F401
        from jax import numpy as jnp

        jax.jit(jnp.dot)(jnp.ones((8, 8)), jnp.ones(8)).block_until_ready()
    except (ImportError, MemoryError, RuntimeError) as error:
        raise ResourceError(
            f"{who} learns with JAX, which does not start here ({type(error).__name__}). Try "
            "`python -c 'import jax; print(jax.devices())'`, or use aim."
        ) from None


def pairs(domain: Domain, most_cells: float) -> tuple[Columns, ...]:
    """Pairs of columns whose table has no more cells than that."""
    found = (canonical(pair) for pair in combinations(domain.columns, 2))
    return tuple(pair for pair in found if domain.cells(pair) <= most_cells)


def of_columns(domain: Domain) -> float:
    """Megabytes of the one-way marginals."""
    return megabytes(domain, [(c,) for c in domain.columns], each=40)


def megabytes(
    domain: Domain, marginals: Sequence[Columns], *, each: float, largest: float = 0.0
) -> float:
    """`each` bytes for every cell of the marginals, `largest` more for those of the largest."""
    sizes = [domain.cells(columns) for columns in marginals]
    return (each * sum(sizes) + largest * max(sizes, default=0)) / MEGABYTE
