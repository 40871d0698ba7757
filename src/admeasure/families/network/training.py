"""Gradient steps on a network's weights: when they stop, and what is kept when they fail.

Two ways, each one compiled loop over padded shapes, so that few compilations serve a run:

- `fit`: Adam on the squared errors in units of their noise (`measured.squared`), for whole
  marginals. After the `least` steps it ends when the loss is what noise alone explains, and always
  after `steps`.
- `fit_worst`: Algorithm 3 of Liu, Vietri and Wu (2021), GEM-UPDATE: Adam on the mean absolute error
  of the queries whose error is at least γ, until none is or T_max steps were made.

Neither looks at the clock, so a run can be replayed. After every `patience` steps the numbers are
checked: once one is not finite, training stops. The best state among those looked at is returned,
so never one that is not sound.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from admeasure.families.network.family import TrainingOptions
from admeasure.families.network.generator import product_rows
from admeasure.families.network.measured import Measured, absolute, squared
from admeasure.families.products import loss


class Trained(NamedTuple):
    """The best parameters and the noise and loss that belong to them; whether all numbers stayed
    finite; how many steps were made; and the optimiser's memory, for the next fit."""

    parameters: Any
    memory: Any
    noise: Any
    loss: Any
    sound: Any
    steps: Any


def finite(tree: Any) -> Any:
    """Whether every number of a tree is finite."""
    return jnp.all(jnp.array([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


class Pace(NamedTuple):
    """The numbers of the options that may differ from fit to fit without another compilation."""

    learning_rate: Any
    steps: Any
    least: Any

    @classmethod
    def of(cls, how: TrainingOptions) -> tuple[Pace, TrainingOptions]:
        pace = cls(np.float32(how.learning_rate), np.int32(how.steps), np.int32(how.least))
        return pace, replace(how, learning_rate=0.0, steps=0, least=0)


class TrainingState(NamedTuple):
    """Where a fit begins: parameters, noise, and what Adam remembers (None: nothing yet)."""

    parameters: Any
    noise: Any
    memory: Any = None


def fit(state: TrainingState, blocks: Any, data: Measured, how: TrainingOptions) -> Trained:
    """Train on squared errors until they are those of noise."""
    return _fit(_ready(state), blocks, data, *Pace.of(how))


def fit_worst(
    state: TrainingState, blocks: Any, data: Measured, gamma: float, how: TrainingOptions
) -> Trained:
    """Train on the absolute errors of at least `gamma`, in shares, until there is none."""
    return _fit_worst(_ready(state), blocks, data, np.float32(gamma), *Pace.of(how))


def _ready(state: TrainingState) -> TrainingState:
    p = jax.tree.map(jnp.asarray, state.parameters)
    memory = state.memory
    if memory is None:
        memory = optax.scale_by_adam().init(p)
    return TrainingState(p, jnp.asarray(state.noise), memory)


@partial(jax.jit, static_argnames="how", compiler_options=loss.QUICK)
def _fit(
    state: TrainingState, blocks: Any, data: Measured, pace: Pace, how: TrainingOptions
) -> Trained:
    def objective(p: Any, z: Any) -> Any:
        value = squared(product_rows(p, z, blocks), data)
        return value, value

    # χ² for each number has mean 1 and deviates by sqrt(2 / numbers): twice that may be chance.
    limit = 1 + 2 * jnp.sqrt(2 / data.numbers)
    return _loop(state, objective, lambda value: value > limit, pace, how)


@partial(jax.jit, static_argnames="how", compiler_options=loss.QUICK)
def _fit_worst(
    state: TrainingState, blocks: Any, data: Measured, gamma: Any, pace: Pace, how: TrainingOptions
) -> Trained:
    def objective(p: Any, z: Any) -> Any:
        assert data.cells is not None
        return absolute(product_rows(p, z, blocks), data.cells, gamma)

    return _loop(state, objective, lambda worst: worst >= gamma, pace, how)


def _loop(
    state: TrainingState, objective: Any, more: Any, pace: Pace, how: TrainingOptions
) -> Trained:
    """`objective` gives the loss and the number that `more` and the choice of the best go by."""
    adam = optax.scale_by_adam()
    key = jax.random.key(0)
    judged = jax.value_and_grad(objective, has_aux=True)

    def batch(done: Any) -> Any:
        if not how.resample:
            return state.noise
        return jax.random.normal(jax.random.fold_in(key, done), state.noise.shape)

    def step(i: Any, inner: tuple[Any, ...]) -> tuple[Any, ...]:
        p, memory, done = inner
        (_, _), slope = judged(p, batch(done + i))
        change, memory = adam.update(slope, memory)
        p = jax.tree.map(lambda x, c: x - pace.learning_rate * c, p, change)
        return p, memory, done

    def several(now: tuple[Any, ...]) -> tuple[Any, ...]:
        done, p, memory, best, lowest, _, _ = now
        p, kept, _ = jax.lax.fori_loop(0, how.patience, step, (p, memory, done))
        done += how.patience
        judge = objective(p, batch(done))[1]
        sound = finite(p) & jnp.isfinite(judge)
        better = sound & (judge <= lowest)
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), p, best)
        lowest = jnp.where(better, judge, lowest)
        memory = jax.tree.map(lambda new, old: jnp.where(sound, new, old), kept, memory)
        return done, p, memory, best, lowest, judge, sound

    def going(now: tuple[Any, ...]) -> Any:
        done, _, _, _, _, value, sound = now
        return sound & (done < pace.steps) & ((done < pace.least) | more(value))

    p = state.parameters
    first = objective(p, batch(0))[1]
    # With new noise in every step the first loss and a later one are of different batches.
    lowest = jnp.asarray(jnp.inf) if how.resample else first
    sound = finite(p) & jnp.isfinite(first)
    start = (0, p, state.memory, p, lowest, first, sound)
    done, _, memory, best, lowest, _, sound = jax.lax.while_loop(going, several, start)
    return Trained(best, memory, batch(done), jnp.minimum(lowest, first), sound, done)
