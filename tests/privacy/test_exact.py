"""The exact decisions: integer bounds against mpmath, and draws that floating point cannot decide.

`Scripted` hands out chosen words, so that a draw falls into the very cell of [0, 1) in which the
floating-point answer is in doubt, and the words read afterwards settle it one way or the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.privacy import samplers
from admeasure.privacy.bits import SeededBits
from admeasure.privacy.exact import LazyUniform, exp_bounds, floor_exponential, log_bounds

ONES = 2**64 - 1
DIGITS = 400


class Scripted:
    """Hands out the given words in order, then zeros; counts what was asked for."""

    def __init__(self, words: Iterable[int]) -> None:
        self._left = list(words)
        self.asked = 0

    def words(self, count: int) -> np.ndarray:
        self.asked += count
        taken, self._left = self._left[:count], self._left[count:]
        return np.array(taken + [0] * (count - len(taken)), dtype=np.uint64)


def exp_digits(x: Fraction) -> mpmath.mpf:
    return mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)


def first_bits(value: mpmath.mpf, bits: int) -> int:
    return int(mpmath.floor(mpmath.ldexp(value, bits)))


rationals = st.builds(
    Fraction, st.integers(0, 10**12), st.integers(1, 10**12) | st.sampled_from([1, 3, 2**40])
)


@settings(deadline=None)
@given(rationals.filter(lambda x: x < 500), st.integers(1, 400))
def test_exp_lies_between_its_integer_bounds_which_are_at_most_two_apart(x, bits):
    with mpmath.workdps(DIGITS):
        low, high = exp_bounds(x, bits)
        assert low <= mpmath.ldexp(exp_digits(x), bits) <= high
        assert high - low <= 2


def test_exp_of_a_huge_number_is_between_nought_and_one_unit():
    assert exp_bounds(Fraction(10) ** 30, 200) == (0, 1)


@settings(deadline=None)
@given(rationals.filter(lambda y: y > 0), st.integers(1, 400))
def test_log_lies_between_its_integer_bounds_which_are_at_most_two_apart(y, bits):
    with mpmath.workdps(DIGITS):
        low, high = log_bounds(y, bits)
        value = mpmath.ldexp(mpmath.log(mpmath.mpf(y.numerator) / y.denominator), bits)
        assert low <= value <= high
        assert high - low <= 2


@settings(deadline=None)
@given(rationals.filter(lambda x: 0 < x < 30), st.integers(0, 3), st.booleans())
def test_a_uniform_that_agrees_with_exp_for_many_words_is_still_told_apart(x, words, below):
    """The first 64 `words` + 52 bits of U are those of exp(-x); the next word decides."""
    with mpmath.workdps(DIGITS):
        target = exp_digits(x)
        shared = first_bits(target, 52 + 64 * words)
        script = [shared >> 64 * i & ONES for i in range(words)][::-1]
        uniform = LazyUniform(Scripted([*script, 0 if below else ONES]), shared >> 64 * words, 52)
        # The next 64 bits of exp(-x) are neither all 0 nor all 1, so these two words do decide.
        assert 0 < first_bits(target, 116 + 64 * words) & ONES < ONES
        assert uniform.below_exp(x) is below


@settings(deadline=None)
@given(
    st.integers(0, 2**52 - 1),
    st.floats(0.01, 1e9),
    st.integers(-1000, 10**9),
    st.lists(st.integers(0, ONES), min_size=6, max_size=6),
)
def test_the_guess_does_not_change_the_floor(prefix, scale, guess, tail):
    with mpmath.workdps(DIGITS):
        u = mpmath.mpf(prefix)
        for word in tail:
            u = u * 2**64 + word
        u = mpmath.ldexp(u + mpmath.mpf(1) / 2, -52 - 64 * len(tail))
        expected = int(mpmath.floor(-mpmath.mpf(scale) * mpmath.log(u)))
        uniform = LazyUniform(Scripted([*tail, 2**63]), prefix, 52)
        assert floor_exponential(uniform, Fraction(scale), guess) == expected


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 1000.0, 1e6, 1e9])
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize(("tail", "offset"), [(0, 0), (ONES, -1)])
def test_a_magnitude_on_a_boundary_is_settled_by_the_next_word(scale, k, tail, offset):
    """U starts with the bits of exp(-k / scale): below it the magnitude is k, above it k - 1."""
    with mpmath.workdps(DIGITS):
        cell = first_bits(mpmath.exp(-k / mpmath.mpf(scale)), 52)
    bits = Scripted([cell << 12, tail])
    magnitude, negative = samplers.magnitudes_and_signs(bits, scale, 1)
    assert magnitude.tolist() == [k + offset]
    assert negative.tolist() == [False]
    assert bits.asked == 2


@pytest.mark.parametrize("scale", [2.0**-40, 0.01, 1.0])
def test_the_first_cell_is_never_decided_by_floating_point(scale):
    bits = Scripted([0, ONES])
    magnitude, _ = samplers.magnitudes_and_signs(bits, scale, 1)
    with mpmath.workdps(DIGITS):
        expected = mpmath.floor(-mpmath.mpf(scale) * mpmath.log(mpmath.mpf(2) ** -52))
    assert bits.asked >= 2
    assert magnitude[0] == expected


@pytest.mark.parametrize("slip", [0, 2.0**-48, -(2.0**-48)])
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 1000.0, 1e6, 2.0**40])
def test_magnitudes_near_every_boundary_agree_with_400_digits(monkeypatch, scale, slip):
    """Cells around exp(-k / scale), and ordinary ones; further words are zero.

    Also with a logarithm that errs as much as the proof allows.
    """
    log = np.log
    monkeypatch.setattr(np, "log", lambda u: log(u) * (1 + slip))
    rng = np.random.default_rng(1)
    with mpmath.workdps(DIGITS):
        cells = [int(n) for n in rng.integers(1, 2**52, 100)] + [1, 2, 2**52 - 1, 2**52 - 2]
        for k in {1, 2, 3, *(int(v) for v in np.ceil(scale * rng.exponential(size=20)))}:
            cell = first_bits(mpmath.exp(-k / mpmath.mpf(scale)), 52)
            cells += [n for n in range(cell - 2, cell + 3) if 0 < n < 2**52]
        got, _ = samplers.magnitudes_and_signs(Scripted(n << 12 for n in cells), scale, len(cells))
        for n, value in zip(cells, got, strict=True):
            # Where floating point decides, the whole cell has one magnitude; where it does not,
            # the words that follow are zeros and U is the lower end of the cell.
            u = mpmath.ldexp(mpmath.mpf(n), -52)
            at_end = int(mpmath.floor(-mpmath.mpf(scale) * mpmath.log(u)))
            assert value == at_end, (scale, n)


@pytest.mark.parametrize("sigma", [0.4, 0.5, 1.0, 3.7, 50.25, 1e6])
@pytest.mark.parametrize("tail", [0, ONES])
@pytest.mark.parametrize("slip", [0, 2.0**-44, -(2.0**-44)])
def test_an_acceptance_on_its_boundary_is_settled_by_the_next_word(monkeypatch, sigma, tail, slip):
    """Also with an exponential that errs as much as the proof allows."""
    exp = np.exp
    monkeypatch.setattr(np, "exp", lambda x: exp(x) + slip)
    m = round(sigma)
    for a in {0, m + 1, m + 2, int(3 * sigma) + 1} - {m}:
        s = Fraction(sigma)
        x = (a - m) * (a + m - 2 * s) / (2 * s * s)
        if x == 0:  # both neighbours of a half are as likely: nothing is in doubt
            continue
        with mpmath.workdps(DIGITS):
            cell = first_bits(exp_digits(x), 32)
        bits = Scripted([cell, tail])
        accepted = samplers.gaussian_accepts(bits, sigma, np.array([float(a)]))
        assert bits.asked == 2
        assert accepted.tolist() == [tail == 0]


@pytest.mark.parametrize("sigma", [2.0**-40, 0.01, 0.49999999999999994, 0.5, 0.7, 1.5, 1e6 + 0.5])
def test_no_acceptance_probability_passes_one(sigma):
    """The exponent is not negative at any integer, also where sigma is midway between two."""
    s, m = Fraction(sigma), round(sigma)
    for a in range(max(0, m - 3), m + 4):
        assert (a - m) * (a + m - 2 * s) >= 0


@pytest.mark.parametrize(("tails", "winner"), [((0, ONES), 1), ((ONES, 0), 0)])
def test_a_tie_in_the_race_is_settled_by_the_next_words(tails, winner):
    """The larger U arrives earlier."""
    word = 12345 << 40
    bits = Scripted([word, word, *tails])
    assert samplers.race(bits, np.zeros(2, np.int64), Fraction(1), 1) == [winner]
    assert bits.asked == 4


def test_only_the_tied_candidates_of_a_race_are_looked_at_again():
    early, late, tied = ONES - 2**40, 2**50, 2**63
    bits = Scripted([early, tied, late, tied, 0, 5])
    assert samplers.race(bits, np.zeros(4, np.int64), Fraction(1), 2) == [0, 3]
    assert bits.asked == 6


@pytest.mark.parametrize(("tails", "winner"), [((0, ONES), 1), ((ONES, 0), 0)])
def test_overlapping_arrivals_in_unlike_cells_are_settled_by_the_next_words(tails, winner):
    """In units of 2^-52 the first arrives at 1 to 2, the second at exp(-0.3) times 2 to 3."""
    bits = Scripted([2**52 - 2 << 12, 2**52 - 3 << 12, *tails])
    assert samplers.race(bits, np.array([0, 3]), Fraction(1, 10), 1) == [winner]
    assert bits.asked == 4


@pytest.mark.parametrize(
    ("tails", "winners"), [((0, ONES, ONES), [1, 2]), ((ONES, 0, ONES), [0, 2])]
)
def test_the_likeliest_of_three_overlapping_arrivals_may_still_lose(tails, winners):
    bits = Scripted([2**52 - 2 << 12, 2**52 - 3 << 12, 2**52 - 3 << 12, *tails])
    assert samplers.race(bits, np.array([0, 32, 30]), Fraction(1, 100), 2) == winners


def test_the_race_agrees_with_60_digits():
    rng = np.random.default_rng(3)
    with mpmath.workdps(60):
        for trial in range(60):
            size = int(rng.integers(1, 40))
            scores = rng.integers(-50, 50, size)
            step = Fraction(int(rng.integers(0, 40)), 13)
            k = int(rng.integers(1, size + 1))
            drawn = SeededBits(trial).words(size)
            arrivals = [
                mpmath.log(-mpmath.log(mpmath.ldexp((int(w) >> 12) + mpmath.mpf(1) / 2, -52)))
                - mpmath.mpf(step.numerator) / step.denominator * int(score)
                for w, score in zip(drawn, scores, strict=True)
            ]
            expected = sorted(sorted(range(size), key=lambda i: arrivals[i])[:k])
            assert samplers.race(SeededBits(trial), scores, step, k) == expected


def test_the_race_takes_scores_from_both_ends_of_int64():
    ends = np.array([-(2**63), 2**63 - 1, 0], np.int64)
    assert samplers.race(SeededBits(0), ends, Fraction(1), 1) == [1]
    assert samplers.race(SeededBits(0), ends, Fraction(2**64), 2) == [1, 2]


def test_numpy_computes_exp_and_log_within_the_errors_that_the_proof_assumes():
    """docs/explanations/noise.md assumes 2^-48 relative for log, 2^-44 absolute for exp of x <= 0.

    Arrays of one and of many elements, which numpy may compute by different instructions.
    """
    rng = np.random.default_rng(2)
    cells = np.concatenate(
        [
            rng.integers(0, 2**52, 1000),
            2 ** rng.integers(0, 52, 300) - 1,
            2**52 - 2 ** rng.integers(0, 52, 300),
        ]
    )
    middles = (cells + 0.5) * 2.0**-52
    negatives = -np.concatenate([rng.exponential(size=1000), 10 ** rng.uniform(-20, 3, 500)])
    with mpmath.workdps(60):
        for points, many, exact, relative in [
            (middles, np.log(middles), mpmath.log, True),
            (-np.log(middles), np.log(-np.log(middles)), mpmath.log, True),
            (negatives, np.exp(negatives), mpmath.exp, False),
        ]:
            one = [np.log(p) if relative else np.exp(p) for p in points[:, None]]
            for point, a, b in zip(points, many, one, strict=True):
                truth = exact(mpmath.mpf(float(point)))
                bound = abs(truth) * mpmath.mpf(2) ** -48 if relative else mpmath.mpf(2) ** -44
                assert abs(a - truth) <= bound
                assert abs(float(b[0]) - truth) <= bound


def test_the_middles_of_cells_are_not_rounded():
    words = np.array([0, ONES, 2**63, 4096, 4095, 123456789 << 20], np.uint64)
    expected = [Fraction(2 * (int(w) >> 12) + 1, 2**53) for w in words]
    assert [Fraction(float(v)) for v in samplers.middles(words)] == expected
