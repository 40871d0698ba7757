"""The verbs that spend a budget, and the one that plans how: their options.

Each verb's work is in a module of its own, imported when it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from admeasure.cli.arguments import (
    CacheCodes,
    Data,
    Delta,
    Epsilon,
    Json,
    MaxMemory,
    MaxSeconds,
    SchemaPath,
    Show,
    WorkloadText,
)

EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The settings of a verb that takes the options of a mechanism too."""

_Mechanism = Annotated[
    str | None,
    typer.Option("--mechanism", metavar="M", help="auto (the default), aim-plus, mst, gem, …"),
]
_Public = Annotated[
    str | None, typer.Option("--public", metavar="DATA", help="A public table to learn from.")
]
_Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger", metavar="BOOK", help="The budget book to charge: a file, or postgres://…"
    ),
]
_Dataset = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="The data set in the book.")
]
_Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Repeatable noise, for tests: NOT PRIVATE."),
]
_Certify = Annotated[
    float | None,
    typer.Option(
        "--certify",
        metavar="SHARE",
        help="Of the budget, for a certificate of accuracy: 0.05 with auto, else 0.",
    ),
]
_Resume = Annotated[bool, typer.Option("--resume", help="Continue the interrupted run at DIR.")]


def plan(
    context: typer.Context,
    schema: SchemaPath,
    workload: WorkloadText,
    epsilon: Epsilon,
    delta: Delta = 1e-9,
    mechanism: _Mechanism = None,
    rows: Annotated[
        int | None, typer.Option("--rows", metavar="N", help="About how many rows, if public.")
    ] = None,
    public: _Public = None,
    certify: _Certify = None,
    *,
    json: Json = False,
) -> None:
    """How the budget would be split, expected error, memory, time. Touches no data.

    Options of the mechanism are given in the same way: --rounds 20.
    """
    from admeasure.cli.plan import show

    show(
        schema,
        workload,
        epsilon,
        delta,
        mechanism,
        rows,
        public,
        certify,
        context.args,
        _known(context),
        json=json,
    )


def fit(
    context: typer.Context,
    data: Data,
    schema: SchemaPath,
    workload: WorkloadText,
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The release's folder.")],
    mechanism: _Mechanism = None,
    delta: Delta = 1e-9,
    public: _Public = None,
    ledger: _Ledger = None,
    dataset: _Dataset = None,
    seed: _Seed = None,
    certify: _Certify = None,
    augment: Annotated[
        int | None,
        typer.Option(
            "--augment", metavar="N", help="Add N random queries to a workload that is a history."
        ),
    ] = None,
    max_memory: MaxMemory = None,
    max_seconds: MaxSeconds = None,
    cache_codes: CacheCodes = None,
    *,
    show_values: Show = False,
    resume: _Resume = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show where the time went.")] = False,
    json: Json = False,
) -> None:
    """Run a mechanism on a private table and write a release.

    Options of the mechanism are given in the same way, after DATA: --rounds 20 --measure cells.
    """
    from admeasure.cli.fit import FitArguments, show

    show(
        FitArguments(
            data=data,
            schema=schema,
            workload=workload,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            options=tuple(context.args),
            out=out,
            public=public,
            ledger=ledger,
            dataset=dataset,
            seed=seed,
            resume=resume,
            max_memory=max_memory,
            max_seconds=max_seconds,
            cache_codes=cache_codes,
            augment=augment,
            certify=certify,
            look=show_values,
        ),
        _known(context),
        profile=profile,
        json=json,
    )


def screen(
    data: Data,
    public: Annotated[
        list[str],
        typer.Option("--public", metavar="DATA", help="A public table; give one or more."),
    ],
    schema: SchemaPath,
    workload: WorkloadText,
    epsilon: Epsilon,
    delta: Delta = 1e-9,
    fit_epsilon: Annotated[
        float, typer.Option("--fit-epsilon", metavar="E", help="The budget of the fit to come.")
    ] = 1.0,
    marginals: Annotated[
        int, typer.Option("--marginals", metavar="N", help="Judge on at most so many queries.")
    ] = 256,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            metavar="SECONDS",
            help="Fail where a table takes longer; all is charged then, and nothing released.",
        ),
    ] = float("inf"),
    ledger: _Ledger = None,
    dataset: _Dataset = None,
    seed: _Seed = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Keep the result here; a run can be resumed then."
        ),
    ] = None,
    *,
    resume: _Resume = False,
    json: Json = False,
) -> None:
    """Rank public tables by what a reweighting of them could achieve. Costs EPSILON."""
    from admeasure.cli.screen import show

    show(
        data,
        public,
        schema,
        workload,
        epsilon,
        delta,
        fit_epsilon,
        marginals,
        time_limit,
        ledger,
        dataset,
        seed,
        out,
        resume=resume,
        json=json,
    )


def _known(context: typer.Context) -> list[str]:
    """The options that the verb itself has, for a hint where one is misspelled."""
    return [text for parameter in context.command.params for text in parameter.opts]
