"""A generator network: its rows, its losses and gradients, its training, its file."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import DataError, ReleaseError, UsageError
from admeasure.families.network.family import NetworkFamily, NetworkModel, averaged
from admeasure.families.network.generator import Generator, Size, blocks_of, product_rows
from admeasure.families.network.measured import absolute, merged, record, squared
from admeasure.families.network.training import TrainingOptions
from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement
from admeasure.queries import Cell, Marginal, Query, ThresholdCell

DOMAIN = Domain(("b", "a", "d", "c"), (3, 4, 2, 5))
LAYOUT = Layout.of(DOMAIN)
SIZE = Size((8, 6), 3, 10)
TOTAL = 200.0
WHOLES = [Marginal(["a"]), Marginal(["a", "b"]), Marginal(["c", "d"]), Marginal(["a", "c", "d"])]
SINGLES = [Cell(["a", "b", "c"], [1, 2, 4]), Cell(["a"], [2]), ThresholdCell(["b", "d"], 1, [0, 0])]


def generator(seed: int = 0, size: Size = SIZE) -> Generator:
    """A network whose rows differ clearly: the last layer is drawn as the others are."""
    made = Generator.first(LAYOUT, size, seed)
    return made.with_parameters([*made.parameters[:-1], (made.weights[-1] * 3, made.biases[-1])])


def model(seed: int = 0, size: Size = SIZE, total: float = TOTAL) -> NetworkModel:
    first = NetworkFamily(TrainingOptions()).init(DOMAIN, total, size)
    return first.with_generator(generator(seed, size))


def measured(query: Query, seed: int = 0, sigma: float = 2.0) -> Measurement:
    values = np.random.default_rng(seed).integers(0, 60, size=query.shape(DOMAIN))
    return Measurement(query, np.asarray(values), sigma)


def brute_force(P: np.ndarray) -> np.ndarray:
    """The joint distribution over all cells, cell by cell and row by row; axes in LAYOUT order."""
    joint = np.zeros(LAYOUT.levels)
    for codes in itertools.product(*(range(n) for n in LAYOUT.levels)):
        lines = [LAYOUT.starts[c] + v for c, v in zip(LAYOUT.columns, codes, strict=True)]
        joint[codes] = np.prod(P[lines].astype(float), axis=0).mean()
    return joint


def share(joint: np.ndarray, query: Query) -> np.ndarray:
    drop = tuple(i for i, c in enumerate(LAYOUT.columns) if c not in query.columns)
    return query.answer(joint.sum(axis=drop))


def test_every_row_is_a_distribution_over_each_column() -> None:
    P = generator().rows(LAYOUT)
    assert P.shape == (LAYOUT.width, SIZE.rows)
    for column in LAYOUT.columns:
        assert np.allclose(P[LAYOUT.span(column)].sum(axis=0), 1, atol=1e-6)


def test_rows_are_the_perceptron_written_out() -> None:
    made = generator(3)
    h = np.maximum(made.noise @ made.weights[0] + made.biases[0], 0)
    h = np.maximum(h @ made.weights[1] + made.biases[1], 0)
    logits = h @ made.weights[2] + made.biases[2]
    P = made.rows(LAYOUT)
    for column in LAYOUT.columns:
        grown = np.exp(logits[:, LAYOUT.span(column)])
        assert np.allclose(P[LAYOUT.span(column)].T, grown / grown.sum(axis=1, keepdims=True))


def test_answers_agree_with_brute_force_over_all_cells() -> None:
    believed = model(1)
    joint = brute_force(believed.products.P)
    subsets = [c for k in range(1, 5) for c in itertools.combinations(LAYOUT.columns, k)]
    for columns, table in zip(subsets, believed.marginals(subsets), strict=True):
        assert np.allclose(table, TOTAL * share(joint, Marginal(columns)), atol=1e-3)


def test_the_first_network_is_always_the_same_and_nearly_independent() -> None:
    first = Generator.first(LAYOUT, SIZE)
    assert np.array_equal(first.rows(LAYOUT), Generator.first(LAYOUT, SIZE).rows(LAYOUT))
    joint = brute_force(first.rows(LAYOUT))
    pair, one, two = (share(joint, Marginal(c)) for c in (["a", "b"], ["a"], ["b"]))
    assert np.abs(pair - np.multiply.outer(one, two)).max() < 0.01


def test_squared_errors_are_those_of_every_number_in_units_of_its_noise() -> None:
    believed = model(2)
    log = [measured(q, i, sigma=1.0 + i) for i, q in enumerate([*WHOLES, *SINGLES])]
    joint = brute_force(believed.products.P)
    chi, numbers = 0.0, 0
    for m in log:
        apart = (TOTAL * share(joint, m.query) - m.values) / m.sigma
        chi += float(np.sum(apart**2))
        numbers += np.size(m.values)
    got = squared(believed.products.P, record(log, LAYOUT, TOTAL))
    assert float(got) == pytest.approx(chi / numbers, rel=1e-4)


def test_absolute_errors_are_the_mean_over_those_of_at_least_gamma() -> None:
    """Algorithm 3: (1/|J|) Σ over J = {j : |c_j| >= γ} of |c_j|."""
    believed = model(4)
    log = [measured(q, i) for i, q in enumerate(SINGLES)]
    joint = brute_force(believed.products.P)
    c = [abs(float(m.values) / TOTAL - float(share(joint, m.query))) for m in log]
    data = record(log, LAYOUT, TOTAL).cells
    assert data is not None
    for gamma in (0.0, sorted(c)[1] - 1e-6, max(c) + 0.1):
        kept = [x for x in c if x >= gamma]
        value, worst = absolute(believed.products.P, data, gamma)
        assert float(value) == pytest.approx(np.mean(kept) if kept else 0.0, abs=1e-6)
        assert float(worst) == pytest.approx(max(c), abs=1e-6)


@pytest.mark.parametrize("which", ["squared", "absolute"])
def test_gradients_agree_with_finite_differences(which: str) -> None:
    import jax

    with jax.enable_x64(True):
        made = generator(5)
        parameters = [(w.astype(float), b.astype(float) + 0.05) for w, b in made.parameters]
        z, blocks = made.noise.astype(float), blocks_of(LAYOUT)
        log = [measured(q, i) for i, q in enumerate([*WHOLES, *SINGLES])]
        data = record(log, LAYOUT, TOTAL)

        @jax.jit
        def value(p):
            P = product_rows(p, z, blocks)
            return squared(P, data) if which == "squared" else absolute(P, data.cells, 1e-3)[0]

        slope = jax.grad(value)(parameters)
        rng = np.random.default_rng(6)
        for _ in range(5):
            way = [(rng.standard_normal(w.shape), rng.standard_normal(b.shape)) for w, b in slope]

            def moved(step, way=way):
                return value(
                    [
                        (w + step * v, b + step * c)
                        for (w, b), (v, c) in zip(parameters, way, strict=True)
                    ]
                )

            expected = sum(
                float(np.sum(s * d))
                for pair, ways in zip(slope, way, strict=True)
                for s, d in zip(pair, ways, strict=True)
            )
            got = float(moved(1e-6) - moved(-1e-6)) / 2e-6
            assert got == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_measurements_of_one_query_are_merged_by_their_precision() -> None:
    q = Marginal(["a"])
    log = [
        Measurement(q, np.array([10, 0, 0, 2]), 1.0),
        Measurement(Marginal([]), np.asarray(12), 1.0),
        Measurement(q, np.array([20, 5, 0, 2]), 2.0),
    ]
    (one,) = merged(log)
    assert np.allclose(one.values, [12, 1, 0, 2])
    assert one.sigma == pytest.approx(1 / np.sqrt(1 + 1 / 4))


def test_training_reaches_answers_that_rows_can_give() -> None:
    truth = model(7, replace(SIZE, rows=40), 1000.0)
    columns = [("a", "b"), ("c",), ("a", "c", "d")]
    tables = truth.marginals(columns)
    log = [Measurement(Marginal(c), t, 1.0) for c, t in zip(columns, tables, strict=True)]
    family = NetworkFamily(TrainingOptions(3e-3, steps=600))
    fitted = family.update(family.init(DOMAIN, 1000.0, Size((32, 32), 8, 60)), log)
    assert fitted.sound
    for expected, got in zip(tables, fitted.marginals(columns), strict=True):
        assert np.abs(expected - got).max() < 20


def test_training_stops_at_the_noise_and_not_before_the_least_steps() -> None:
    import jax

    from admeasure.families.network.training import fit

    believed = model(8)
    (table,) = believed.marginals([("a", "b")])
    data = record([Measurement(Marginal(["a", "b"]), table, 1.0)], LAYOUT, TOTAL)
    how = TrainingOptions(1e-3, steps=100, patience=5)
    made = fit(believed.state, blocks_of(LAYOUT), data, how)
    assert int(made.steps) == 0
    for before, after in zip(
        jax.tree.leaves(believed.generator.parameters), jax.tree.leaves(made.parameters),
        strict=True,
    ):  # fmt: skip
        assert np.array_equal(before, after)
    longer = fit(believed.state, blocks_of(LAYOUT), data, replace(how, least=20))
    assert int(longer.steps) == 20


def test_numbers_that_are_not_finite_stop_training_and_leave_a_sound_state() -> None:
    believed = model(9)
    family = NetworkFamily(TrainingOptions(1e30, steps=50, patience=5))
    after = family.update(believed, [measured(q) for q in WHOLES])
    assert not after.sound
    assert np.isfinite(after.products.P).all()
    assert all(np.isfinite(w).all() for w in after.generator.weights)
    assert family.update(after, [measured(q) for q in WHOLES]) is after


def test_noise_drawn_anew_in_every_step_learns_too() -> None:
    log = [Measurement(Marginal(["c"]), np.array([100, 40, 30, 20, 10]), 1.0)]
    family = NetworkFamily(TrainingOptions(1e-2, steps=200, resample=True))
    fitted = family.update(family.init(DOMAIN, TOTAL, Size((16,), 4, 50)), log)
    (got,) = fitted.marginals([("c",)])
    assert np.abs(got - log[0].values).max() < 8


def test_a_run_of_many_measurements_compiles_a_handful_of_times() -> None:
    from admeasure.families.network import training

    size = Size((7,), 3, 11)  # sizes that no other test has
    family = NetworkFamily(TrainingOptions(1e-3, steps=5, patience=5))
    believed, log = family.init(DOMAIN, TOTAL, size), []
    before = training._fit._cache_size()
    subsets = [c for k in range(1, 4) for c in itertools.combinations(LAYOUT.columns, k)]
    for columns in subsets:
        log.append(measured(Marginal(columns)))
        believed = NetworkFamily(replace(family.how, learning_rate=1e-3 / len(log))).update(
            believed, log
        )
    assert training._fit._cache_size() - before <= 2


def test_an_average_of_weights_moves_by_one_part_to_the_newest() -> None:
    one, two = generator(1), generator(2)
    assert averaged(None, one, 0.9) is one
    mean = averaged(one, two, 0.9)
    assert np.allclose(mean.weights[0], 0.9 * one.weights[0] + 0.1 * two.weights[0])


def test_a_model_read_back_from_its_arrays_answers_as_it_did() -> None:
    believed = replace(model(10), curve=np.ones((3, 3)), loss=0.5)
    again = NetworkModel.load(DOMAIN, believed.arrays())
    (one,), (two,) = believed.marginals([("a", "b")]), again.marginals([("a", "b")])
    assert np.array_equal(one, two)
    assert np.array_equal(again.curve, believed.curve)
    assert again.generator.size == believed.generator.size


@pytest.mark.parametrize("broken", ["weights0", "biases1", "noise", "curve"])
def test_arrays_that_are_no_network_are_refused(broken: str) -> None:
    arrays = dict(model().arrays())
    arrays[broken] = arrays[broken].ravel()[:2]
    with pytest.raises(ReleaseError):
        NetworkModel.load(DOMAIN, arrays)


def test_a_stored_network_makes_the_same_rows(tmp_path: Path) -> None:
    made = generator(11)
    made.save(tmp_path / "g.npz", DOMAIN)
    again = Generator.load(tmp_path / "g.npz", DOMAIN)
    assert np.array_equal(made.rows(LAYOUT), again.rows(LAYOUT))


def test_a_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    generator().save(path, DOMAIN)
    with pytest.raises(DataError, match="other columns or levels"):
        Generator.load(path, Domain(("b", "a", "d", "c"), (3, 4, 2, 6)))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="does not hold a generator"):
        Generator.load(path, DOMAIN)
    np.savez(path, format=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="does not hold a generator"):
        Generator.load(path, DOMAIN)
    with pytest.raises(UsageError, match="no generator"):
        Generator.load(tmp_path / "none.npz", DOMAIN)
