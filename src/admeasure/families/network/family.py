"""The model of a generator network, and its update.

A network's answers are those of the product rows that it makes of its batch of noise: the model
wraps `ProductModel` and adds the weights. Both are functions of measurements (and of public data)
alone and may be published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import ReleaseError
from admeasure.families import Codes
from admeasure.families.network.generator import Generator, Size, blocks_of
from admeasure.families.products.family import ProductModel
from admeasure.families.products.placement import Tiling
from admeasure.families.products.sampling import ProductRows
from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement
from admeasure.queries import Predicate
from admeasure.schema import Zero

if TYPE_CHECKING:
    from admeasure.families.network.training import Trained, TrainingState


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """`products`: the rows that `generator` makes, a model of their own, which also answers in
    blocks and scores on a device. `sound`: whether training stayed finite; where
    it did not, this is the last state that was. `loss`: what the last training ended at.
    `curve`: a line for each round of a run, see `admeasure.parts.generator`. `memory`: what
    the optimiser remembers while a run lasts; it is not stored."""

    products: ProductModel
    generator: Generator
    loss: float = 0.0
    sound: bool = True
    curve: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    memory: Any = None
    kind: ClassVar[str] = "network"
    adds_up: ClassVar[bool] = True

    @property
    def domain(self) -> Domain:
        return self.products.domain

    @property
    def total(self) -> float:
        return self.products.total

    @property
    def layout(self) -> Layout:
        return self.products.layout

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        return self.products.marginals(columns)

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        return self.products.sample(rows, rng)

    def without(self, cells: Sequence[Zero]) -> ProductRows:
        return self.products.without(cells)

    def with_generator(self, generator: Generator) -> NetworkModel:
        """The same belief about the number of rows, with another network."""
        P = generator.rows(self.layout)
        return replace(self, products=replace(self.products, P=P), generator=generator)

    @property
    def state(self) -> TrainingState:
        """Where training goes on."""
        from admeasure.families.network.training import TrainingState

        return TrainingState(self.generator.parameters, self.generator.noise, self.memory)

    def trained(self, made: Trained) -> NetworkModel:
        """The model after training."""
        after = self.with_generator(
            self.generator.with_parameters(made.parameters, np.asarray(made.noise))
        )
        return replace(after, loss=float(made.loss), sound=bool(made.sound), memory=made.memory)

    def arrays(self) -> Mapping[str, np.ndarray]:
        return {
            **self.products.arrays(),
            **self.generator.arrays(),
            "loss": np.asarray(self.loss),
            "sound": np.asarray(self.sound),
            "curve": self.curve,
        }

    @classmethod
    def load(cls, domain: Domain, arrays: Mapping[str, np.ndarray]) -> NetworkModel:
        products = ProductModel.load(domain, arrays)
        try:
            generator = Generator.from_arrays(arrays, products.layout.width)
        except (KeyError, ValueError):
            raise ReleaseError(
                "model.npz does not hold a network for the schema's columns."
            ) from None
        curve = np.asarray(arrays["curve"], float)
        loss, sound = float(arrays["loss"]), bool(arrays["sound"])
        if curve.ndim != 2 or len(generator.noise) != products.P.shape[1]:
            raise ReleaseError("model.npz holds a network that does not fit its rows.")
        return cls(products, generator, loss, sound, curve)


@dataclass(frozen=True)
class TrainingOptions:
    """How a network is trained."""

    learning_rate: float = 1e-3
    steps: int = 200
    least: int = 0
    patience: int = 25
    resample: bool = False


@dataclass(frozen=True)
class NetworkFamily:
    """A network trained on everything measured, from where the last round left it.

    `anchors` are marginals that are believed without being measured (in rows; their sigma is not
    used): each stays in the loss, as if measured with twice the noise of what was, until a measured
    marginal holds its columns. They keep what a network knew from being forgotten while it learns
    the rest.
    """

    how: TrainingOptions
    anchors: tuple[Measurement, ...] = ()

    def init(
        self, domain: Domain, total: float, size: Size, zeros: Sequence[Zero] = ()
    ) -> NetworkModel:
        return start(Generator.first(Layout.of(domain), size), domain, total, zeros)

    def update(self, model: NetworkModel, log: Sequence[Measurement]) -> NetworkModel:
        from admeasure.families.network.measured import record
        from admeasure.families.network.training import fit

        data = record([*log, *self._anchored(log)], model.layout, model.total)
        own = [m for m in log if isinstance(m.query, Predicate)]
        if not model.sound or not (data.numbers or own):
            return model
        if own:
            return self._with_predicates(model, data, own)
        return model.trained(fit(model.state, blocks_of(model.layout), data, self.how))

    def _anchored(self, log: Sequence[Measurement]) -> Iterator[Measurement]:
        measured = [set(m.query.columns) for m in log]
        sigma = 2 * max((m.sigma for m in log), default=1.0)
        for anchor in self.anchors:
            if not any(m.issuperset(anchor.query.columns) for m in measured):
                yield replace(anchor, sigma=sigma)

    def _with_predicates(
        self, model: NetworkModel, data: Any, own: Sequence[Measurement]
    ) -> NetworkModel:
        """The same steps, rows drawn anew after each `patience` of them."""
        from admeasure.families.network.arbitrary import drawn
        from admeasure.families.network.training import fit

        how, rng = self.how, np.random.default_rng(len(own))
        whole = data._replace(numbers=data.numbers + np.float32(len(own)))
        for stage in range(max(1, how.steps // how.patience)):
            samples = drawn(np.asarray(model.products.P), model.layout, own, model.total, rng)
            part = replace(
                how,
                steps=how.patience,
                least=how.patience,
                learning_rate=how.learning_rate * 0.97**stage,
            )
            made = fit(
                model.state, blocks_of(model.layout), whole._replace(arbitrary=samples), part
            )
            model = model.trained(made)
        return model

    def fitting(
        self, model: NetworkModel, candidates: Sequence[Columns], share: float
    ) -> list[Columns]:
        """All of them: a network does not grow with what it learns."""
        return list(candidates)


@dataclass
class WorstFamily:
    """GEM-UPDATE (Algorithm 3) on single queries. Remembers γ.

    γ is half of a moving average (β = 1/2) of the errors that the sampled queries had when they
    were measured (B.2), from noisy answers.
    """

    how: TrainingOptions
    _error: float | None = None

    def update(self, model: NetworkModel, log: Sequence[Measurement]) -> NetworkModel:
        from admeasure.families.network.measured import record
        from admeasure.families.network.training import fit_worst

        newest = log[-1]
        (table,) = model.marginals([newest.query.columns])
        apart = float(np.abs(newest.query.answer(table) - newest.values)) / model.total
        self._error = apart if self._error is None else (self._error + apart) / 2
        if not model.sound:
            return model
        data = record(log, model.layout, model.total)
        blocks = blocks_of(model.layout)
        return model.trained(fit_worst(model.state, blocks, data, self._error / 2, self.how))


def averaged(mean: Generator | None, newest: Generator, beta: float) -> Generator:
    """β θ_mean + (1 - β) θ_newest: one step of a moving average of weights."""
    if mean is None:
        return newest
    return newest.with_parameters(
        [
            (beta * w + (1 - beta) * v, beta * b + (1 - beta) * c)
            for (w, b), (v, c) in zip(mean.parameters, newest.parameters, strict=True)
        ]
    )


def start(
    generator: Generator,
    domain: Domain,
    total: float,
    zeros: Sequence[Zero] = (),
    accelerator: Tiling | None = None,
) -> NetworkModel:
    """The model of a network that was not trained on anything private."""
    P = generator.rows(Layout.of(domain))
    return NetworkModel(ProductModel(domain, P, total, tuple(zeros), accelerator), generator)
