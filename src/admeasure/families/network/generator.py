"""The network: weights, noise, and the product rows that it makes of them.

A plain perceptron with ReLU between its layers, and a softmax for every column's block of levels
at its end. It starts from a seed that is public and fixed, so a run can be replayed.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from admeasure.domain import Domain
from admeasure.errors import DataError, ResourceError, UsageError
from admeasure.extras import need
from admeasure.families.products.tensor import Layout
from admeasure.untrusted import read_bytes

FORMAT = "admeasure generator 1"
MOST_NUMBERS = 1 << 28
"""Numbers of a network that may be read from a file: 1 GB in single precision."""

LAST_LAYER = 0.3
"""Much smaller, and training takes long to tell the rows apart at all."""


@dataclass(frozen=True)
class Size:
    """How large a network is: `hidden` units layer by layer, `noise` numbers for each of `rows`."""

    hidden: tuple[int, ...]
    noise: int
    rows: int

    def units(self, width: int) -> tuple[int, ...]:
        return (self.noise, *self.hidden, width)

    def weights(self, width: int) -> int:
        units = self.units(width)
        return sum((a + 1) * b for a, b in pairwise(units))

    def megabytes(self, width: int) -> float:
        """What training takes: weights, gradient, two moments, the last good and the averaged
        state; the activations of a batch with their gradients; rows, gradients and parts of
        answers."""
        kept = 6 * self.weights(width) + self.rows * (2 * sum(self.units(width)) + 12 * width)
        return 4 * kept / 2**20


@dataclass(frozen=True, eq=False)
class Generator:
    """`weights[i]` (inputs, outputs) and `biases[i]` of layer i; `noise` (rows, inputs)."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    noise: np.ndarray

    @classmethod
    def first(cls, layout: Layout, size: Size, seed: int = 0) -> Generator:
        """Random weights (He et al. 2015) and noise, of a public seed.

        The last layer's are small, so that all rows are nearly alike and columns nearly
        independent at first: correlations that nobody measured would otherwise stay as they were
        drawn.
        """
        rng = np.random.default_rng(seed)
        units = size.units(layout.width)
        weights = tuple(
            (rng.standard_normal((a, b)) * math.sqrt(2 / a)).astype(np.float32)
            for a, b in pairwise(units)
        )
        weights = (*weights[:-1], weights[-1] * np.float32(LAST_LAYER))
        biases = tuple(np.zeros(b, np.float32) for b in units[1:])
        noise = rng.standard_normal((size.rows, size.noise)).astype(np.float32)
        return cls(weights, biases, noise)

    @property
    def size(self) -> Size:
        hidden = tuple(b.size for b in self.biases[:-1])
        return Size(hidden, self.noise.shape[1], self.noise.shape[0])

    @property
    def parameters(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return list(zip(self.weights, self.biases, strict=True))

    def with_parameters(self, parameters: Any, noise: Any = None) -> Generator:
        """The same network with other weights, and other noise where it is given."""
        weights = tuple(np.asarray(w, np.float32) for w, _ in parameters)
        biases = tuple(np.asarray(b, np.float32) for _, b in parameters)
        return Generator(weights, biases, self.noise if noise is None else np.asarray(noise))

    def knowing(self, layout: Layout, columns: Iterable[str]) -> Generator:
        """The same network with every other column uniform and independent of all.

        What a network was never fitted to depends on its noise in some way nobody asked for, and
        the more so the larger its hidden values have grown; noise in measurements then cannot
        mend it.
        """
        known = np.isin(layout.column_of, [layout.columns.index(c) for c in columns])
        last = np.where(known, self.weights[-1], np.float32(0)), np.where(known, self.biases[-1], 0)
        return self.with_parameters([*self.parameters[:-1], last])

    def known(self, layout: Layout) -> tuple[str, ...]:
        """The columns that depend on the noise; the others are as `knowing` leaves them."""
        moved = np.any(self.weights[-1] != 0, axis=0)
        return tuple(c for c in layout.columns if moved[layout.span(c)].any())

    def rows(self, layout: Layout) -> np.ndarray:
        """P, of shape (width, rows)."""
        need("jax", "gradient", "A model that is a network")
        from jax import numpy as jnp

        made = product_rows(self.parameters, jnp.asarray(self.noise), blocks_of(layout))
        return np.asarray(made, np.float32)

    def arrays(self) -> dict[str, np.ndarray]:
        kept: dict[str, np.ndarray] = {"noise": self.noise}
        for i, (w, b) in enumerate(self.parameters):
            kept |= {f"weights{i}": w, f"biases{i}": b}
        return kept

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], width: int) -> Generator:
        """The network of `arrays`; ValueError where they are none for so many levels."""
        noise = np.asarray(arrays["noise"], np.float32)
        weights, biases = [], []
        while f"weights{len(weights)}" in arrays:
            i = len(weights)
            weights.append(np.asarray(arrays[f"weights{i}"], np.float32))
            biases.append(np.asarray(arrays[f"biases{i}"], np.float32))
        sizes = [noise.shape[-1] if noise.ndim == 2 else 0, *(b.size for b in biases)]
        fits = bool(weights) and noise.size > 0 and sizes[-1] == width
        for w, b, a in zip(weights, biases, sizes, strict=False):
            fits = fits and b.ndim == 1 and w.shape == (a, b.size)
        if not (fits and all(np.all(np.isfinite(x)) for x in (noise, *weights, *biases))):
            raise ValueError("no network over these levels")
        return cls(tuple(weights), tuple(biases), noise)

    def save(self, path: str | Path, domain: Domain) -> None:
        """Write the network to an .npz file, with the columns and levels that it is for.

        It was built from public data alone if it comes from `pretrained`, and may then be given
        to anyone; one taken from a release is as private as the release.
        """
        layout = Layout.of(domain)
        kept = {
            "format": np.asarray(FORMAT),
            "columns": np.asarray(layout.columns),
            "levels": np.asarray(layout.levels),
            **self.arrays(),
        }
        content = io.BytesIO()
        np.savez(content, **kept)  # pyright: ignore[reportArgumentType]
        try:
            Path(path).write_bytes(content.getvalue())
        except OSError as error:
            raise UsageError(
                f"{path} could not be written: {error.strerror}. Name another place."
            ) from None

    @classmethod
    def load(cls, path: str | Path, domain: Domain) -> Generator:
        """The network of a file, for a table of this domain. Nothing is unpickled."""
        layout = Layout.of(domain)
        content = read_bytes(Path(path), called="generator")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as stored:
                if sum(member.file_size for member in stored.infolist()) > 4 * MOST_NUMBERS:
                    raise ResourceError(
                        f"The generator {path} has more than {MOST_NUMBERS:,} numbers. Pretrain a "
                        "smaller one."
                    )
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            if str(arrays["format"]) != FORMAT:
                raise ValueError("another format")
            columns = tuple(str(c) for c in arrays["columns"])
            levels = tuple(int(n) for n in arrays["levels"])
            if (columns, levels) != (layout.columns, layout.levels):
                raise DataError(
                    f"The generator {path} was made for other columns or levels than the schema "
                    "has. Pretrain one under this schema."
                )
            return cls.from_arrays(arrays, layout.width)
        except (DataError, ResourceError):
            raise
        except Exception:  # whatever a foreign file provokes in the readers of its parts
            raise DataError(
                f"{path} does not hold a generator. Give a file that `pretrained` saved."
            ) from None


@lru_cache(maxsize=16)
def blocks_of(layout: Layout) -> Any:
    """Which level belongs to which column, as the softmax of `families.products` takes it."""
    from admeasure.families.products.optimise import Blocks

    column = layout.column_of.astype(np.int32)
    member = (column[None, :] == np.arange(len(layout.levels))[:, None]).astype(np.float32)
    return Blocks(member, column)


def product_rows(parameters: Any, noise: Any, blocks: Any) -> Any:
    """G(z) for a batch of noise: (width, rows), differentiable in the parameters."""
    import jax
    from jax import numpy as jnp

    from admeasure.families.products.optimise import softmax

    found = noise
    for i, (w, b) in enumerate(parameters):
        found = jnp.matmul(found, w) + b
        if i < len(parameters) - 1:
            found = jax.nn.relu(found)
    return softmax(found.T, blocks)
