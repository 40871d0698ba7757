"""RAP's search for T and K (Avent and Korolova 2023, 3.4.2 and 4.3.1): every combination of a grid,
the least mean error at each setting, and what the paper says of where it lies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from common import Record
from papers.experiment import Claim, Found, Panel, Point, Runs, judged, lines, share_judged

ERROR = "max_error"


def adaptive(record: Record) -> bool:
    return record["mechanism"] == "rap" and "rounds" in dict(record["options"])


def size_of(record: Record) -> int:
    kind, *parts = record["workload"].split(":")
    return int(parts[0] if kind in ("random", "filtered") else parts[1])


def r_of(record: Record) -> int:
    return int(record["workload"].split(":")[1].split("of")[0])


def with_fields(runs: Runs, **fields: Any) -> Runs:
    """Runs with more fields, each made of the record."""
    return Runs(tuple({**r, **{k: f(r) for k, f in fields.items()}} for r in runs.records))


def grid_of(runs: Runs) -> dict[str, list[Point]]:
    """A line of errors over K for each T, in the order of T."""
    with_k = with_fields(runs, K=lambda r: int(dict(r["options"])["queries"]))
    drawn = lines(with_k, ERROR, x="K", line=lambda r: f"T = {dict(r['options'])['rounds']}")
    return dict(sorted(drawn.items(), key=lambda item: int(item[0].split()[-1])))


def heat(by: str, fixed: str) -> Callable[[Runs], list[Panel]]:
    """Errors at every T and K, a panel for each workload size, epsilon or r. What is `fixed` is an
    epsilon of 0.1 or the largest workload, as in the paper's Figures 3, 4 and 8."""

    def draw(runs: Runs) -> list[Panel]:
        shown = with_fields(runs.having(adaptive), size=size_of, r=r_of if by == "r" else size_of)
        level = 0.1 if fixed == "epsilon" else max(shown.values("size"), default=0)
        return [
            Panel(f"{table}, {by} {value:g}", "K", "T", grid_of(mine), heat=True)
            for (table, value), mine in shown.where(**{fixed: level}).groups("table", by)
        ]

    return draw


def best_pairs(points: Iterable[Point]) -> list[str]:
    """The (T, K) of the least mean, to stand at each point of a line, as in Figure 2."""
    given = [dict(part.split("=") for part in p.note.split()) for p in points]
    return [f"({g['rounds']}, {g['queries']})" if "queries" in g else "" for g in given]


def product_of(record: Record) -> int:
    given = dict(record["options"])
    return int(given["rounds"]) * int(given["queries"])


def one_product(runs: Runs) -> Found | None:
    """How far errors at one T K lie apart, against those of all T K."""
    same, all_ = [], []
    for _, mine in with_fields(runs.having(adaptive), TK=product_of).groups("table", "workload",
                                                                      "epsilon"):  # fmt: skip
        errors = [m.mean(ERROR) or 0.0 for _, m in mine.groups("options")]
        if len(errors) > 1:
            all_.append(max(errors) / min(errors))
        for _, part in mine.groups("TK"):
            each = [m.mean(ERROR) or 0.0 for _, m in part.groups("options")]
            if len(each) > 1:
                same.append(max(each) / min(each))
    if not same:
        return None
    a, b = statistics.median(same), statistics.median(all_)
    ours = f"median of largest / smallest: {a:.2f} at one T K, {b:.2f} over all"
    return judged(ours, holds=a < 0.75 * b, partly=a < b)


def product_grows(runs: Runs) -> Found | None:
    found: dict[float, list[int]] = {}
    for (_, _, epsilon), mine in runs.having(adaptive).groups("table", "workload", "epsilon"):
        means = {product_of(m.records[0]): m.mean(ERROR) or 0.0 for _, m in mine.groups("options")}
        found.setdefault(epsilon, []).append(min(means, key=lambda p: means[p]))
    if len(found) < 2:
        return None
    means = [math.exp(statistics.fmean(map(math.log, found[e]))) for e in sorted(found)]
    ours = "; ".join(f"{e:g}: {m:.0f}" for e, m in zip(sorted(found), means, strict=True))
    return judged(f"best T K by epsilon {ours}", holds=means == sorted(means))


def best_at_k(runs: Runs) -> Found | None:
    found = {}
    for (r,), mine in with_fields(runs.having(adaptive), r=r_of).groups("r"):
        best = [m.best(ERROR) for _, m in mine.groups("workload", "epsilon")]
        found[r] = statistics.fmean(b.mean for b in best if b)
    if len(found) < 2:
        return None
    ours = "; ".join(f"r = {r}: {e:.3f}" for r, e in found.items())
    return judged(ours, holds=min(found, key=lambda r: found[r]) == max(found))


def many_rounds(runs: Runs) -> Found | None:
    """For r < k the least error has more rounds than queries a round."""
    won = []
    for (r, _), mine in with_fields(runs.having(adaptive), r=r_of).groups("r", "workload"):
        best = mine.best(ERROR)
        if best and r < 4:
            given = dict(best.setting[0])  # type: ignore[index]
            won.append(int(given["rounds"]) >= int(given["queries"]))
    if not won:
        return None
    return share_judged(f"{sum(won)} of {len(won)} workloads", statistics.fmean(won), 0.8)


def both_claims() -> Iterable[Claim]:
    yield Claim("errors at one T K are alike", "3.4.2", "diagonal bands", one_product)
    yield Claim("the best T K grows with epsilon", "3.4.2", "", product_grows)
