"""What every Noise promises, checked on each of them."""

from __future__ import annotations

import copy
import math
import os
from fractions import Fraction

import numpy as np
import pytest

from admeasure.errors import UsageError
from admeasure.privacy.noise import ExactNoise, Noise, SeededNoise


@pytest.fixture(params=[ExactNoise, lambda: SeededNoise(5)], ids=["ExactNoise", "SeededNoise"])
def noise(request) -> Noise:
    return request.param()


@pytest.mark.parametrize("kind", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("scale", [2.0**-40, 0.01, 1, np.float64(3.5), np.int64(7), 1e6, 2.0**40])
def test_draws_are_int64_of_the_size_asked_for(noise, kind, scale):
    for size in (0, 1, 10, np.int64(300)):
        draws = getattr(noise, kind)(scale, size)
        assert draws.dtype == np.int64
        assert draws.shape == (size,)
        draws += 1  # the array is the caller's own


@pytest.mark.parametrize("size", [8191, 8192, 20_001])
def test_draws_longer_than_a_block_are_filled_to_the_end(noise, size):
    """At sigma = 1e9 a zero has probability 4e-10 and an unfilled end would be constant."""
    draws = noise.discrete_gaussian(1e9, size)
    assert len(np.unique(draws)) > 0.99 * size


def test_both_signs_and_zero_are_drawn(noise):
    """Missing one has probability below 1e-40."""
    for draws in (noise.discrete_gaussian(1.0, 1000), noise.discrete_laplace(1.0, 1000)):
        assert {-1, 0, 1} <= set(draws.tolist())


def test_successive_calls_differ(noise):
    assert (noise.discrete_gaussian(1e6, 20) != noise.discrete_gaussian(1e6, 20)).any()


@pytest.mark.parametrize("kind", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, 2.0**41, 2.0**-41, "3", None])
def test_a_scale_out_of_range_is_refused_by_name(noise, kind, scale):
    with pytest.raises(
        UsageError, match=r"(sigma|scale) must be a number from 2\^-40 to 2\^40; it"
    ):
        getattr(noise, kind)(scale, 3)


def test_a_fraction_that_is_no_float_is_refused_rather_than_rounded(noise):
    with pytest.raises(UsageError, match="sigma must be a float"):
        noise.discrete_gaussian(Fraction(1, 3), 3)
    assert len(noise.discrete_gaussian(Fraction(1, 4), 3)) == 3


def test_a_negative_size_is_refused(noise):
    with pytest.raises(UsageError, match="size must not be negative; it is -1"):
        noise.discrete_gaussian(1.0, -1)


def test_a_choice_is_a_position(noise):
    assert noise.exponential_choice([7], Fraction(1)) == 0
    assert noise.exponential_choice(np.array([3, 1, 2]), Fraction(1)) in (0, 1, 2)
    assert type(noise.exponential_choice(np.array([3, 1, 2]), Fraction(1))) is int


def test_a_candidate_far_ahead_is_chosen(noise):
    """The others have probability exp(-1000)."""
    scores = np.zeros(10_000, np.int64)
    scores[4321] = 1000
    assert noise.exponential_choice(scores, Fraction(1)) == 4321


def test_the_top_are_k_different_positions_in_order(noise):
    scores = np.arange(20_000) % 100
    for k in (1, 2, 100, 19_999, 20_000):
        picked = noise.top(scores, Fraction(1, 10), k)
        assert len(set(picked)) == k
        assert picked == sorted(picked)
        assert 0 <= picked[0] <= picked[-1] < 20_000
        assert all(type(i) is int for i in picked)


def test_the_scores_are_left_as_they_were(noise):
    scores = np.arange(10)
    scores.flags.writeable = False
    noise.top(scores, Fraction(1), 3)
    assert scores.tolist() == list(range(10))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.int64])
def test_every_integer_type_that_fits_is_taken(noise, dtype):
    assert noise.exponential_choice(np.array([0, 100, 0], dtype), Fraction(100)) == 1


@pytest.mark.parametrize("k", [0, -1, 4])
def test_k_must_fit_the_candidates(noise, k):
    with pytest.raises(UsageError, match=f"number of candidates, 3; it is {k}"):
        noise.top([1, 2, 3], Fraction(1), k)


@pytest.mark.parametrize("step", [0.5, Fraction(-1, 2), 2**64 + 1, "1"])
def test_a_step_that_is_no_fraction_in_range_is_refused(noise, step):
    with pytest.raises(UsageError, match=r"step must be a Fraction from 0 to 2\^64; it is"):
        noise.exponential_choice([1, 2], step)


@pytest.mark.parametrize(
    "scores", [[], [0.25, 98765.5], [2**63], [[1, 2], [3, 4]], np.array([True]), ["98765"]]
)
def test_scores_that_are_no_row_of_int64_are_refused_without_showing_them(noise, scores):
    with pytest.raises(UsageError, match="scores must be") as error:
        noise.exponential_choice(scores, Fraction(1))
    assert "98765" not in str(error.value)


def test_only_noise_from_the_operating_system_is_private():
    assert ExactNoise().private is True
    assert SeededNoise(5).private is False


def test_whether_noise_is_private_cannot_be_set(noise):
    with pytest.raises(AttributeError):
        noise.private = True


def test_exact_noise_takes_no_seed():
    with pytest.raises(TypeError):
        ExactNoise(5)  # type: ignore[call-arg]


def test_a_copy_of_exact_noise_does_not_repeat_it():
    noise = ExactNoise()
    noise.discrete_gaussian(1e6, 20)
    twin = copy.deepcopy(noise)
    assert (noise.discrete_gaussian(1e6, 20) != twin.discrete_gaussian(1e6, 20)).any()


def test_the_same_seed_repeats_and_another_does_not():
    def draw(seed: int) -> list:
        noise = SeededNoise(seed)
        return [
            noise.discrete_gaussian(1e6, 10).tolist(),
            noise.discrete_laplace(1e6, 10).tolist(),
            noise.top(np.arange(50), Fraction(1, 50), 10),
        ]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@pytest.mark.parametrize("seed", [-1, None, 0.5])
def test_a_seed_is_a_number_that_is_not_negative(seed):
    with pytest.raises((UsageError, TypeError)):
        SeededNoise(seed)


def test_every_bit_of_exact_noise_comes_from_the_operating_system(monkeypatch):
    """With `os.urandom` replaced by the seeded words, the two kinds of noise draw the same, and
    numpy's generators, made to fail, are never touched."""
    seeded = SeededNoise(5)
    words = np.random.PCG64(5)
    monkeypatch.setattr(os, "urandom", lambda n: words.random_raw(n // 8).tobytes())
    drawn = {}
    for name, noise in (("seeded", seeded), ("exact", ExactNoise())):
        if name == "exact":
            for generator in ("PCG64", "default_rng", "Generator", "random", "normal", "integers"):
                monkeypatch.setattr(np.random, generator, _never, raising=False)
        drawn[name] = [
            noise.discrete_gaussian(1e6, 20_000).tolist(),
            noise.discrete_laplace(3.5, 50).tolist(),
            noise.top(np.arange(9000) % 7, Fraction(1, 3), 20),
            noise.exponential_choice([1, 2, 3], Fraction(1)),
        ]
    assert drawn["exact"] == drawn["seeded"]


def _never(*_args, **_options):
    raise AssertionError("numpy's generator was used for a private draw")
