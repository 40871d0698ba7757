"""AIM as its paper describes it (McKenna, Mullins, Sheldon and Miklau 2022, section 4)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

import admeasure.mechanisms.aim as aim_module
from admeasure.errors import AdmeasureError, ResourceError, UsageError
from admeasure.families.graphical.family import GraphicalFamily
from admeasure.mechanisms import build
from admeasure.planning.division import Task
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Marginal, Threshold, from_record
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.unit import Unit
from admeasure.workload import Workload, parse_workload

RHO = Fraction(1, 7)


def schema_of(levels, *, neighbours="add-remove", zeros=()) -> Schema:
    """A schema of integer codes; zeros are dicts of column to impossible codes."""
    lines = ['[table]\nname = "toy"', f'[privacy]\nunit = "person"\nneighbours = "{neighbours}"']
    lines += [
        f'[[column]]\nname = "{c}"\ntype = "integer"\nminimum = 0\nmaximum = {n - 1}'
        for c, n in levels.items()
    ]
    for zero in zeros:
        where = ", ".join(f"{c} = {list(codes)}" for c, codes in zero.items())
        lines.append(f"[[zero]]\ncolumns = {sorted(zero)}\nwhere = {{{where}}}".replace("'", '"'))
    return Schema.loads("\n".join(lines))


def chain_codes(levels, rows=2000, seed=0):
    """Each column mostly follows the one before."""
    rng = np.random.default_rng(seed)
    codes, last = {}, rng.integers(0, 1000, rows)
    for c, n in levels.items():
        last = np.where(rng.random(rows) < 0.25, rng.integers(0, 1000, rows), last)
        codes[c] = last % n
    return codes


def run(schema, codes, workload, mechanism="aim", options=None, rho=RHO, seed=0):
    source = MemorySource.from_codes(codes, schema)
    curator = Curator(source, Ledger(rho), SeededNoise(seed))
    built = build(mechanism, options)
    if isinstance(workload, str):
        workload = parse_workload(workload, schema.domain)
    task = Task.of(schema, workload)
    built.check(task)
    return built.run(task, curator), curator


LEVELS = {"a": 2, "b": 3, "c": 4, "d": 3, "e": 2}


@pytest.mark.parametrize("rho", [Fraction(1, 1000), RHO, Fraction(3)], ids=float)
def test_the_whole_budget_is_spent_and_not_a_hair_more(rho):
    _, curator = run(schema_of(LEVELS), chain_codes(LEVELS), "all-3way", rho=rho)
    assert curator.ledger.spent.rho == rho
    assert sum((c.cost.rho for c in curator.ledger.charges), Fraction(0)) == rho


def test_the_one_way_marginals_of_the_closure_come_first_and_cost_what_was_measured():
    """σ_0 = sqrt(T / 2 α ρ) with T = 16 d, for the columns of the workload and no others."""
    workload = Workload([Marginal(("a", "c")), Marginal(("c", "d"))])
    _, curator = run(schema_of(LEVELS), chain_codes(LEVELS), workload)
    events = [e for e in curator.journal.events if e["event"] == "measure"]
    first = [e["query"]["columns"] for e in events[:3]]
    assert sorted(first) == [["a"], ["c"], ["d"]]
    sigma_0 = math.sqrt(16 * len(LEVELS) / (2 * 0.9 * RHO))
    assert [e["sigma"] for e in events[:3]] == pytest.approx([sigma_0] * 3, rel=1e-12)
    each = Fraction(0.9) * RHO / (16 * len(LEVELS))
    assert [c.cost.rho for c in curator.ledger.charges[:3]] == [each] * 3


def test_every_round_chooses_and_measures_at_the_paper_s_rates_and_anneals_by_four():
    """ε_t²/8 : 1/2σ_t² is 1 - α : α; a round costs as much as the last one or four times as much,
    and the last one takes what is left."""
    _, curator = run(schema_of(LEVELS), chain_codes(LEVELS), "all-3way")
    charges = curator.ledger.charges[len(LEVELS) :]
    assert len(charges) % 2 == 0
    alpha = Fraction(0.9)
    costs = []
    for choice, measurement in zip(charges[::2], charges[1::2], strict=True):
        assert choice.what.startswith("choice")
        assert measurement.what.startswith("measurement")
        cost = choice.cost.rho + measurement.cost.rho
        assert (choice.cost.rho, measurement.cost.rho) == ((1 - alpha) * cost, alpha * cost)
        costs.append(cost)
    assert costs[0] == RHO / (16 * len(LEVELS))
    steps = [later / earlier for earlier, later in pairwise(costs[:-1])]
    assert set(steps) <= {Fraction(1), Fraction(4)}
    # Before the last round there was too little for two more at the new cost.
    assert costs[-1] <= 8 * costs[-2]


def test_only_subsets_of_the_workload_s_marginals_are_measured():
    workload = Workload([Marginal(("a", "b", "c")), Marginal(("d", "e"))])
    _, curator = run(schema_of(LEVELS), chain_codes(LEVELS), workload, rho=Fraction(2))
    measured = [e["query"]["columns"] for e in curator.journal.events if e["event"] == "measure"]
    assert all(set(m) <= set("abc") or set(m) <= set("de") for m in measured)


class Recorder:
    """A graphical family that notes what share of its limit each round may use."""

    def __init__(self, max_megabytes: float) -> None:
        self.family = GraphicalFamily(max_megabytes)
        self.rounds: list[tuple[float, float, float]] = []
        self.share = 0.0

    def __getattr__(self, name):
        return getattr(self.family, name)

    def fitting(self, model, candidates, share):
        self.share = share
        return self.family.fitting(model, candidates, share)

    def update(self, model, log):
        after = self.family.update(model, log)
        if self.share:
            self.rounds.append((self.share, megabytes(model), megabytes(after)))
        return after


def megabytes(model) -> float:
    """JT-SIZE by its definition: 8 bytes for each cell of each maximal clique."""
    levels = model.core.levels
    return sum(8 * math.prod(levels[a] for a in node) for node in model.core.tree.nodes) / 2**20


def test_the_model_never_passes_the_part_of_its_limit_that_the_budget_used_allows(monkeypatch):
    levels = dict.fromkeys("abcdefgh", 6)
    limit = 0.02
    recorder = Recorder(limit)
    monkeypatch.setattr(aim_module, "GraphicalFamily", lambda *_: recorder)
    outcome, _ = run(
        schema_of(levels),
        chain_codes(levels, rows=20_000),
        "all-3way",
        options={"max-megabytes": str(limit)},
        rho=Fraction(2),
    )
    assert len(recorder.rounds) == outcome.rounds > 5
    for share, before, after in recorder.rounds:
        # A round in which nothing larger fits measures again what the tree holds already.
        assert after <= max(share * limit, before) * (1 + 1e-9)
    shares = [share for share, _, _ in recorder.rounds]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    # The limit was felt: unlimited, the same run ends with a larger model.
    monkeypatch.undo()
    free, _ = run(schema_of(levels), chain_codes(levels, rows=20_000), "all-3way", rho=Fraction(2))
    assert megabytes(free.model) > limit >= megabytes(outcome.model)


def test_a_replaced_person_costs_root_two_more_noise():
    codes = chain_codes(LEVELS)
    sigmas = {}
    for relation in ("add-remove", "replace"):
        _, curator = run(schema_of(LEVELS, neighbours=relation), codes, "all-2way")
        sigmas[relation] = next(
            e["sigma"] for e in curator.journal.events if e["event"] == "measure"
        )
    assert sigmas["replace"] == pytest.approx(math.sqrt(2) * sigmas["add-remove"], rel=1e-12)


def test_thresholds_are_served_through_the_marginals_of_their_columns():
    """With a large budget the answers of a threshold workload are nearly exact."""
    codes = chain_codes(LEVELS)
    workload = Workload([Threshold(("a", "b", "c"), 2), Threshold(("b", "d"), 1)])
    outcome, curator = run(schema_of(LEVELS), codes, workload, rho=Fraction(10**6))
    asked = [from_record(e["query"]) for e in curator.journal.events if e["event"] == "measure"]
    assert all(isinstance(query, Marginal) for query in asked)
    for query in workload.queries:
        counts = np.zeros([LEVELS[c] for c in query.columns], dtype=np.int64)
        np.add.at(counts, tuple(codes[c] for c in query.columns), 1)
        (believed,) = outcome.model.marginals([query.columns])
        assert np.abs(query.answer(believed) - query.answer(counts)).max() < 5


ZEROS = ({"a": [0], "b": [1, 2]}, {"c": [3], "d": [0]})


@pytest.mark.parametrize("mechanism", ["aim", "mst", "mwem-pgm", "privbayes", "independent"])
@pytest.mark.parametrize("rho", [Fraction(1, 500), Fraction(1)], ids=float)
def test_structural_zeros_hold_exactly_in_the_model_and_in_the_rows(mechanism, rho):
    schema = schema_of(LEVELS, zeros=ZEROS)
    codes = chain_codes(LEVELS)
    impossible = (codes["a"] == 0) & (codes["b"] > 0) | (codes["c"] == 3) & (codes["d"] == 0)
    codes = {c: v[~impossible] for c, v in codes.items()}
    outcome, _ = run(schema, codes, "all-2way", mechanism, rho=rho)
    ab, cd = outcome.model.marginals([("a", "b"), ("c", "d")])
    assert ab[0, 1] == ab[0, 2] == cd[3, 0] == 0
    # Beyond the pairs themselves, in a marginal that holds both rules.
    (wide,) = outcome.model.marginals([("a", "b", "c", "d")])
    assert np.all(wide[0, 1:] == 0)
    assert np.all(wide[:, :, 3, 0] == 0)
    rows = outcome.model.sample(5000, np.random.default_rng(0))
    assert not np.any((rows["a"] == 0) & (rows["b"] > 0))
    assert not np.any((rows["c"] == 3) & (rows["d"] == 0))


@pytest.mark.parametrize("mechanism", ["aim", "mst", "mwem-pgm", "privbayes", "independent"])
def test_zeros_that_leave_nothing_possible_are_refused_before_anything_is_charged(mechanism):
    """a is 0 or 1; the first rule forbids a = 0 with any b, the second a = 1 with any c. A schema
    refuses the two together where it sees it; here the mechanism is given them without one."""
    rules = ({"a": [0], "b": [0, 1, 2]}, {"a": [1], "c": [0, 1, 2, 3]})
    zeros = tuple(zero for rule in rules for zero in schema_of(LEVELS, zeros=(rule,)).zeros)
    domain = schema_of(LEVELS).domain
    task = Task(domain, parse_workload("all-2way", domain), zeros, Unit())
    with pytest.raises(AdmeasureError, match="possible"):
        build(mechanism).check(task)


def test_a_column_that_the_workload_never_names_is_noted():
    outcome, _ = run(schema_of(LEVELS), chain_codes(LEVELS), Workload([Marginal(("a", "b"))]))
    (note,) = outcome.notes
    assert "c, d, e" in note
    (unknown,) = outcome.model.marginals([("c",)])
    assert unknown == pytest.approx(np.full(4, outcome.model.total / 4))


def test_a_workload_that_cannot_fit_is_served_by_what_fits():
    """The 5-way marginal of 16^5 cells would take 8 MB; the limit is 0.05."""
    levels = dict.fromkeys("abcde", 16)
    codes = chain_codes(levels, rows=5000)
    workload = Workload([Marginal(tuple("abcde"))])
    outcome, curator = run(
        schema_of(levels), codes, workload, options={"max-megabytes": "0.05"}, rho=Fraction(1)
    )
    assert megabytes(outcome.model) <= 0.05
    assert curator.ledger.remaining.rho == 0
    measured = [e["query"]["columns"] for e in curator.journal.events if e["event"] == "measure"]
    assert max(map(len, measured)) >= 2


def test_a_limit_too_small_for_one_way_marginals_is_refused():
    schema = schema_of({"a": 1000, "b": 1000})
    built = build("aim", {"max-megabytes": "0.001"})
    with pytest.raises(ResourceError, match="MB"):
        built.check(Task.of(schema, parse_workload("all-2way", schema.domain)))


def test_fewer_rounds_than_columns_are_refused_and_as_many_are_enough():
    """Theorem 1 asks for T >= d: the one-way marginals alone would overspend otherwise."""
    schema = schema_of(LEVELS)
    workload = parse_workload("all-2way", schema.domain)
    with pytest.raises(UsageError, match="rounds must be at least"):
        build("aim", {"rounds": "4"}).check(Task.of(schema, workload))
    _, curator = run(schema, chain_codes(LEVELS), workload, options={"rounds": "5"})
    assert curator.ledger.spent.rho == RHO


@pytest.mark.parametrize(
    ("option", "value"), [("alpha", "0"), ("alpha", "1"), ("max-megabytes", "0")]
)
def test_options_out_of_range_are_refused(option, value):
    with pytest.raises(UsageError, match=option):
        build("aim", {option: value})


def test_all_triples_of_two_hundred_columns_are_accepted_by_a_sample_of_them():
    schema = schema_of({f"c{i:03}": 3 for i in range(200)})
    workload = parse_workload("all-3way", schema.domain)
    assert workload.asked == math.comb(200, 3)
    assert workload.sampled
    assert len(workload) < workload.asked
    build("aim").check(Task.of(schema, workload))


@pytest.mark.parametrize("columns", [1, 2])
def test_small_tables_are_served(columns):
    levels = dict(list(LEVELS.items())[:columns])
    outcome, curator = run(schema_of(levels), chain_codes(levels), f"all-{columns}way")
    assert curator.ledger.remaining.rho == 0
    assert outcome.rounds >= 1


def test_a_large_budget_makes_every_marginal_of_the_workload_nearly_exact():
    codes = chain_codes(LEVELS)
    outcome, _ = run(schema_of(LEVELS), codes, "all-2way", rho=Fraction(10**6))
    for pair in combinations(LEVELS, 2):
        counts = np.zeros([LEVELS[c] for c in pair], dtype=np.int64)
        np.add.at(counts, tuple(codes[c] for c in pair), 1)
        (believed,) = outcome.model.marginals([pair])
        assert np.abs(believed - counts).sum() < 0.01 * 2000


def test_a_final_pass_measures_the_largest_chosen_marginals_again_and_spends_the_rest() -> None:
    levels = {"a": 3, "b": 4, "c": 2, "d": 3}
    schema = schema_of(levels)
    source = MemorySource.from_codes(chain_codes(levels), schema)
    curator = Curator(source, Ledger(Fraction(1, 20)), SeededNoise(3))
    workload = parse_workload("all-2way", schema.domain)
    build("aim", {"final_pass": "0.25"}).run(Task.of(schema, workload), curator)
    assert curator.remaining.rho == 0
    measured = [e for e in curator.journal.events if e["event"] == "measure"]
    chosen = [e for e in curator.journal.events if e["event"] == "choose"]
    loop = measured[: len(schema.domain) + len(chosen)]
    again = measured[len(loop) :]
    sets = {frozenset(e["query"]["columns"]) for e in loop}
    largest = {s for s in sets if not any(s < other for other in sets)}
    assert {frozenset(e["query"]["columns"]) for e in again} == largest
    assert len(again) == len(largest)
    assert sum(Fraction(e["rho"]) for e in again) == Fraction(1, 80)
