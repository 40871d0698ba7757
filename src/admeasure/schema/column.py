"""What every column has: levels, codes, labels, and the code of a single value.

A column is public: every bound, category and bin in it is written by the steward. Its `rules` say
how values are read, by docs/reference/schema.md; `code_of` applies them to one value and gives its
code or a `Refusal`, and all other encoders are translations of them (`admeasure.schema.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from admeasure.errors import SchemaError
from admeasure.schema import select, values
from admeasure.schema.forms import Form
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.inside import Inside
from admeasure.schema.problems import Refusal
from admeasure.schema.rules import Reads, Rules
from admeasure.schema.storage import Storage, storage_of_plain

MAX_LEVELS = 65_536
PRIVATE = "private"
"""In the place of bins or levels that a run is to find, for a charge."""

CODEBOOK = "from the codebook rather than from the data"


def _or_private(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    return value if value == PRIVATE else read(value)


OrPrivate = WrapValidator(_or_private)
"""Of a field that may hold `PRIVATE` too."""


class Part(BaseModel):
    """What all parts of a schema share: strict types, no unknown fields, no changes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy derives everything anew: what was derived from the old fields (whom a guarantee
        protects, say) must not outlive them."""
        made = super().model_copy(update=update, deep=deep)
        kept = vars(made)
        for name in set(kept) - set(type(self).model_fields):
            kept.pop(name)
        return made

    def changed(self, **fields: Any) -> Self:
        """The same with other fields, checked anew."""
        known = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate({**known, **fields})


class Column(Part):
    """One column. Regular levels come first, then `other`, then `missing`."""

    name: Annotated[str, Field(min_length=1)]
    title: str | None = None
    description: str | None = None
    source: Annotated[str | None, Field(description="Where the public facts come from.")] = None
    missing_values: Annotated[
        tuple[str, ...] | None,
        Field(strict=False, description="Texts that mean missing. May be empty."),
    ] = None
    other: Annotated[bool, Field(description="Any other value gets a level.")] = False

    type: Any  # each kind narrows it to one word

    has_numbers: ClassVar[bool] = False
    """Whether its values are numbers or days, which have means and quantiles."""
    holds_reals: ClassVar[bool] = False
    """Whether these are doubles; else they are whole."""
    holds_days: ClassVar[bool] = False

    @property
    def regular(self) -> int:
        """How many levels there are besides `other` and `missing`."""
        raise NotImplementedError

    @property
    def levels(self) -> int:
        return self.regular + self.other + (self.missing_values is not None)

    @property
    def other_code(self) -> int | None:
        return self.regular if self.other else None

    @property
    def missing_code(self) -> int | None:
        return None if self.missing_values is None else self.levels - 1

    @property
    def dtype(self) -> np.dtype:
        """The smallest storage for the codes."""
        return np.dtype(np.uint8 if self.levels <= 256 else np.uint16)

    @property
    def is_open(self) -> bool:
        """Whether its levels are still to be found, by a charged step of a run."""
        return False

    @property
    def is_sought(self) -> bool:
        """Whether its levels are sought among the texts of the table, which is read again by the
        schema that has them."""
        return False

    def refuse_open(self, what: str, instead: str) -> None:
        """Refuse to say what a run is still to find, and tell what to write instead."""
        if self.is_open:
            raise SchemaError(
                f"Column {values.quoted(self.name)} has private {what}, which a fit finds. Where "
                "they must be known before, for a public table, a predicate or a comparison, give "
                f"it {instead}, or use the schema of a release."
            )

    @cached_property
    def sought_form(self) -> Form | None:
        """How its levels are spelled while they are sought, where texts may be the same level."""
        return None

    def as_read(self) -> Column:
        """The column by which a table is read: itself, where it is not open. Of one that is open,
        what a charged step needs to find its levels."""
        return self

    def unasked(self) -> Column:
        """The column where no question is about it: itself, or where it is open with the fewest
        levels that public facts give."""
        return self

    @property
    def grid(self) -> OrdinalGrid | RealGrid | None:
        """The bins of a column that has any."""
        return None

    @property
    def bounds_text(self) -> str:
        return "[]"

    def regular_label(self, code: int) -> str:
        """A regular level in words."""
        raise NotImplementedError

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Every level in words, for reports: public."""
        words = [self.regular_label(i) for i in range(self.regular)]
        words += ["other"] if self.other else []
        words += ["missing"] if self.missing_values is not None else []
        return tuple(words)

    @property
    def listed(self) -> Sequence[Any] | None:
        """The value of each regular level, of a column whose levels are single values."""
        return None

    @property
    def held(self) -> Sequence[Any] | None:
        """The values that a table can hold, of a column that lists them."""
        return self.listed

    @cached_property
    def of_held(self) -> np.ndarray | None:
        """The level of each value of `held`, of a column whose levels may hold several."""
        return None

    def fits(self, inside: Inside) -> bool:
        """Whether this says how values lie inside the levels of the column, and is sound."""
        if self.of_held is not None:
            return inside.fits_leaves(len(self.of_held))
        return self.grid is not None and inside.fits(self.grid)

    def span_of(self, value: object) -> tuple[int, int] | None:
        """Of a column with a hierarchy, the first of the values of `held` that a code or a group
        stands for, and the one after the last; None for what is neither."""
        return None

    @cached_property
    def form(self) -> Form | None:
        """How the table spells its values, where that is not the standard."""
        return None

    spelling_fields: ClassVar[str] = "`missing_values = […]`"
    """The fields that say how the table spells values, for advice."""

    @property
    def spelling(self) -> str:
        """How texts must be spelled, for a message; nothing where it goes without saying."""
        return ""

    def spelled(self, value: Any) -> str:
        """A value of this type as the table's texts have it."""
        return Reads.TEXT.reader(value) if self.form is None else self.form.spelled(value)

    def form_problems(self) -> Iterator[str]:
        """What is wrong with the form, as `problems`; with one that is wrong nothing is read."""
        yield from ()

    @cached_property
    def rules(self) -> Mapping[Storage, Rules]:
        """How values are read, for each storage that can be read."""
        raise NotImplementedError

    def code_of(self, value: object) -> int:
        """The code of one value as it is stored, or the mark of why it has none."""
        try:
            read = values.plain(value)
        except values.UnreadableStorage:
            return Refusal.WRONG_STORAGE
        if read is None:
            return Refusal.MISSING
        rules = self.rules.get(storage_of_plain(read))
        return Refusal.WRONG_STORAGE if rules is None else rules.code(read)

    def ordinal_of(self, value: object) -> int | float | None:
        """A value as the grid's number, bounds aside; None where there is none."""
        try:
            read = values.plain(value)
        except values.UnreadableStorage:
            return None
        rules = None if read is None else self.rules.get(storage_of_plain(read))
        found = None if rules is None or self.grid is None else rules.read(read)
        return None if found != found else found

    def values_of(self, numbers: np.ndarray) -> np.ndarray:
        """The grid's numbers as values of this type."""
        return numbers

    @property
    def span_unit(self) -> str:
        """What the difference of two values is counted in, where the values do not tell."""
        return ""

    def written(self, number: float, rounded: Callable[[float], int] = round) -> Any:
        """A number of the grid's scale, such as a mean, as a person writes it."""
        return number

    def codes_of(self, selection: object) -> np.ndarray:
        """The codes that a value, a list or a range stands for: see `admeasure.schema.select`."""
        return select.codes_of(self, selection)

    @property
    def coarser(self) -> str:
        """What gives the column fewer levels, as a sentence without its end."""
        return "Use `bins = …` or `edges = […]`"

    def problems(self) -> Iterator[str]:
        """What contradicts itself, as ends of the sentence "Column 'x' …"."""
        if self.levels > MAX_LEVELS:
            yield (
                f"would have {self.levels:,} levels and the limit is {MAX_LEVELS:,}. {self.coarser}"
            )

    @model_validator(mode="after")
    def _is_sound(self) -> Column:
        found = list(self.form_problems()) or list(self.problems())
        if "\0" in self.name:
            found.append("has a name with a NUL character, which no database reads. Rename it")
        if found:
            raise PydanticCustomError("column", "{lines}", {"lines": "\n".join(found)})
        return self
