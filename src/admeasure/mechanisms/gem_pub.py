"""GEM-Pub: GEM from a network fitted to a public table (Liu, Vietri and Wu 2021, section 6).

The network is pretrained on public data alone, without privacy and without cost, over the
workload's marginals (and those of subsets of their columns) as far as the public table has their
columns; then GEM runs from there. So the public table may lack columns, and, unlike PMW-Pub, the
run can learn records that the public table does not have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from admeasure.domain import Columns
from admeasure.errors import DataError, UsageError
from admeasure.families.network.family import start
from admeasure.families.network.generator import Generator
from admeasure.families.products.tensor import Layout
from admeasure.parts.generator import NetworkMechanism, check_memory
from admeasure.planning.division import Task
from admeasure.planning.mechanism import NOT_AN_OPTION, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.public.table import PublicTable
from admeasure.schema import Zero
from admeasure.workload import Workload

PRETRAINING_RATE = 2e-3


@dataclass(frozen=True)
class GemPub(NetworkMechanism):
    """`pretrain_steps`: steps of pretraining. `pretrain_on`: the workload's marginals inside the
    common columns, or all pairs of them. `generator`: a file with a pretrained network, instead of
    a public table; `save_generator`: where to write the one that was pretrained. The other options
    are those of `gem`.
    """

    pretrain_steps: int = 2000
    pretrain_on: Literal["workload", "pairs"] = "workload"
    generator: str | None = None
    save_generator: str | None = None
    public: PublicTable | None = field(default=None, repr=False, metadata=NOT_AN_OPTION)

    name: ClassVar[str] = "gem-pub"
    summary: ClassVar[str] = "gem from a network that was fitted to a public table"
    informed: ClassVar[bool] = True
    fills_public: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "pretrain_steps")
        if self.generator and self.save_generator:
            raise UsageError(
                "gem-pub: generator is a network that is stored already; leave save_generator out."
            )

    def with_public(self, public: PublicTable) -> Self:
        return replace(self, public=public)

    def check(self, task: Task) -> None:
        self.check_network(task)
        if self.generator is not None:
            if self.public is not None:
                raise UsageError(
                    "gem-pub takes a public table or a stored generator, not both. Leave one out."
                )
            check_memory(self.name, Generator.load(self.generator, task.domain).size, task.domain)
            return
        if self.public is None:
            raise UsageError(
                "gem-pub needs a public table or a pretrained generator. Give --public DATA or "
                "--generator FILE (in Python: public=…), or use gem, which needs neither."
            )
        self.public.check(task.domain, task.zeros)
        self._queries(task.workload)
        if self.save_generator is not None and not Path(self.save_generator).parent.is_dir():
            raise UsageError(
                f"The folder of {self.save_generator} does not exist. Name another place."
            )

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        made = self.planned(task, budget, rows)
        notes = (*(self.public.notes if self.public is not None else ()), *made.notes)
        return replace(made, seconds=made.seconds + 0.04 * self.pretrain_steps, notes=notes)

    def begun(self, task: Task) -> tuple[Generator, Sequence[str]]:
        if self.generator is not None:
            network = Generator.load(self.generator, task.domain)
            digest = hashlib.sha256(Path(self.generator).read_bytes()).hexdigest()
            return network, (f"Started from the stored generator of sha256 {digest}.",)
        assert self.public is not None
        network = self.pretrained(task.workload, task.zeros)
        if self.save_generator is not None:
            network.save(self.save_generator, task.domain)
        return network, self.public.check(task.domain, task.zeros)

    def pretrained(self, workload: Workload, zeros: Sequence[Zero] = ()) -> Generator:
        """The network fitted to the public table, which its `save` stores for another run. Built
        from public data only."""
        from admeasure.families.network.pretraining import fitted

        if self.public is None:
            raise UsageError("gem-pub: there is no public table to pretrain on. Give public=….")
        table, domain = self.public, self.public.domain
        believed, size = table.start(float(table.rows), zeros), self.size(domain)
        first = start(Generator.first(Layout.of(domain), size), domain, float(table.rows), zeros)
        rate = self.learning_rate or PRETRAINING_RATE
        how = replace(self.training(), steps=self.pretrain_steps, least=0, patience=25)
        how = replace(how, learning_rate=rate)
        made = fitted(first, believed, self._queries(workload), table.rows, how)
        if not made.sound:
            raise DataError(
                "Pretraining on the public table produced a number that is not finite. Lower "
                "--learning-rate."
            )
        return made.generator.knowing(Layout.of(domain), table.held)

    def _queries(self, workload: Workload) -> list[Columns]:
        """The marginals to pretrain on."""
        assert self.public is not None
        held = set(self.public.held)
        inside = [c for c in workload.closure() if held.issuperset(c)]
        if self.pretrain_on == "pairs":
            inside = [c for c in inside if len(c) <= 2]
        if not inside:
            raise DataError(
                f"{self.public.name} has no column that the workload asks about. Give a public "
                "table that shares columns with the workload, or use gem."
            )
        return inside
