"""The loaders of the package, each with sound files of its own (sound/), for test_untrusted.py and
fuzzing.py; and loaders of ours with one check taken out, which the fuzzing must catch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from admeasure.auditing.release import audit_release
from admeasure.cli.arguments import pairs
from admeasure.conclusions import load_conclusions
from admeasure.errors import AdmeasureError
from admeasure.mechanisms import build
from admeasure.planning.division import Task
from admeasure.privacy import events
from admeasure.public.read import read_public
from admeasure.release import Release
from admeasure.reporting.facts import rounds
from admeasure.run import Run
from admeasure.schema import Schema
from admeasure.sources.files.tables import locate
from admeasure.sources.warehouse.address import parse as parse_warehouse
from admeasure.studies import run
from admeasure.studies.lines import Lines
from admeasure.studies.plan import load_plan
from admeasure.studies.table import grid, summary
from admeasure.verbs.fit import FitRequest, fit
from admeasure.verbs.given import mechanism_of
from admeasure.workload import files, load_questions, parse_workload
from admeasure.workload.history import parse_future

SOUND = Path(__file__).with_name("sound")
TOY = Schema.coded("toy", {"a": 3, "b": 2})
DATA = {"a": np.array([0, 1, 2, 1]), "b": np.array([0, 0, 1, 1])}


def sound(name: str) -> bytes:
    """A file that nothing is wrong with."""
    return (SOUND / name).read_bytes()


class Loader:
    """A thing that is made of files (or of a text on the command line: a file without a name)."""

    table = False
    """Rows, of which there may be any number."""
    harmless: tuple[str, ...] = ()
    """Of the hostile files of test_untrusted.py those that are no damage here."""

    def __init__(
        self, folder: Path, files: dict[str, bytes], use: Callable[[], object], lines: int = 1
    ) -> None:
        self.folder, self.files, self.use, self.lines = folder, files, use, lines
        self.restore()

    def path(self, where: int) -> Path | None:
        return self.folder / list(self.files)[where]

    def restore(self) -> None:
        for where, content in enumerate(self.files.values()):
            self.write(where, content)

    def write(self, where: int, content: bytes) -> None:
        path = self.path(where)
        assert path is not None
        path.unlink(missing_ok=True)  # some file systems wait for the disk when a file is cut short
        path.write_bytes(content)

    def load(self) -> object:
        return self.use()

    def said_well(self, text: str) -> bool:
        """A sentence; a schema lists several problems, one a line."""
        rows = text.split("\n")
        return all(0 < len(row) < 1_000 for row in rows) and len(rows) <= self.lines


class Text(Loader):
    """What is given on the command line; the bytes that are no UTF-8 come as Python brings them."""

    def __init__(self, folder: Path, texts: list[str], use: Callable[[str], object]) -> None:
        self.take = use
        super().__init__(folder, {str(i): t.encode() for i, t in enumerate(texts)}, lambda: None)

    def path(self, where: int) -> Path | None:
        return None

    def write(self, where: int, content: bytes) -> None:
        self.text = content.decode(errors="surrogateescape").replace("\0", "")

    def load(self) -> object:
        return self.take(self.text)


class Folder(Loader):
    """A release: each file has the hash that release.json states, as a hostile author sees to."""

    def write(self, where: int, content: bytes) -> None:
        super().write(where, content)
        name = list(self.files)[where]
        if name != "release.json":
            head = json.loads(self.files["release.json"])
            head["sha256"][name] = hashlib.sha256(content).hexdigest()
            (self.folder / "release.json").write_text(json.dumps(head))

    def restore(self) -> None:
        for where, content in enumerate(self.files.values()):
            Loader.write(self, where, content)


def schema(folder: Path) -> Loader:
    path = folder / "s.toml"
    return Loader(
        folder,
        {"s.toml": sound("schema.toml")},
        lambda: Schema.load(path).domain,
        1_000,
    )


def relations(folder: Path) -> Loader:
    path = folder / "r.toml"

    def use() -> object:
        schema = Schema.load(path)
        assert Schema.loads(schema.dumps()) == schema
        return schema.zeros, schema.computed

    files = {"r.toml": sound("relations.toml"), "words.csv": sound("words.csv")}
    return Loader(folder, files, use, 1_000)


def workload(folder: Path) -> Loader:
    domain, path = Schema.load(SOUND / "schema.toml").domain, folder / "w.toml"
    return Loader(
        folder,
        {"w.toml": sound("workload.toml")},
        lambda: parse_workload(path, domain),
    )


def questions(folder: Path) -> Loader:
    known, path = Schema.load(SOUND / "schema.toml"), folder / "q.toml"
    return Loader(
        folder,
        {"q.toml": sound("questions.toml")},
        lambda: load_questions(path, known),
    )


def conclusions(folder: Path) -> Loader:
    known, path = Schema.load(SOUND / "schema.toml"), folder / "c.toml"
    return Loader(
        folder,
        {"c.toml": sound("conclusions.toml")},
        lambda: load_conclusions(path, known),
    )


def plan(folder: Path) -> Loader:
    (folder / "toy.toml").write_text(TOY.dumps())
    (folder / "toy.csv").write_text("a,b\n0,1\n2,0\n")
    return Loader(folder, {"p.toml": sound("plan.toml")}, lambda: load_plan(folder / "p.toml"))


def study(folder: Path) -> Loader:
    def use() -> object:
        rows = run.results(Lines(folder / "r.jsonl")).values()
        return [grid(summary(rows, m)) for m in ("workload_error", "seconds")]

    made = Loader(folder, {"r.jsonl": sound("study.jsonl")}, use)
    made.harmless = NO_WHOLE_LINE
    return made


NO_WHOLE_LINE = (
    *("nothing", "a byte order mark", "zero bytes", "an unclosed text", "Latin-1"),
    *("a long number in TOML", "a long hexadecimal number in TOML", "deep lists in TOML"),
    *("deep closed lists in TOML", "deep tables in TOML", "a name of very many parts"),
    *("a header of very many parts", "a quoted name of very many parts", "deep lists in JSON"),
    "deep objects in JSON",
)
"""A line that has no end is what a kill leaves: no result."""


def _release(folder: Path, mechanism: str, options: dict[str, str]) -> Path:
    out = folder / mechanism
    fit(
        DATA,
        TOY,
        workload="all-2way",
        mechanism=build(mechanism, options),
        epsilon=2.0,
        delta=1e-6,
        out=out,
    )
    return out


def _folder(folder: Path, mechanism: str, options: dict[str, str]) -> Loader:
    out = _release(folder, mechanism, options)
    names = ("release.json", "schema.toml", "workload.toml", "measurements.npz", "model.npz")
    files = {name: (out / name).read_bytes() for name in (*names, "log.jsonl")}

    def use() -> object:
        release = Release.load(out)
        for step in (
            lambda: rounds(release.log, release.certificate.rho),
            lambda: release.sample_columns(3, seed=0),
            release.bounds,
            lambda: audit_release(out),
        ):
            with contextlib.suppress(AdmeasureError):
                step()
        return release

    made = Folder(out, files, use)
    made.harmless = ("nothing",)  # a log of no events
    return made


def release_of_answers(folder: Path) -> Loader:
    return _folder(folder, "gaussian", {})


def release_of_weights(folder: Path) -> Loader:
    return _folder(folder, "mwem", {"rounds": "2", "passes": "2"})


def release_of_tree(folder: Path) -> Loader:
    return _folder(folder, "aim", {"rounds": "2"})


def interrupted_run(folder: Path) -> Loader:
    """A run that was killed between writing its release and settling: what `--resume` reads."""
    drop, Run._drop = Run._drop, lambda self: None
    try:
        out = _release(folder, "gaussian", {})
    finally:
        Run._drop = drop
    request = FitRequest(
        schema=TOY,
        workload=parse_workload("all-2way", TOY.domain),
        mechanism=build("gaussian"),
        epsilon=2.0,
        delta=1e-6,
    )
    partial = out.with_name("gaussian.partial")
    files = {n: (partial / n).read_bytes() for n in ("run.json", "finished.json", "journal.jsonl")}

    def use() -> object:
        resumed = Run(request, out, resume=True)
        resumed._drop = lambda: None
        return resumed.complete(Release.load)

    return Loader(partial, files, use)


def mechanism_options(folder: Path) -> Loader:
    texts = [
        "aim --rounds 20",
        "mwem --rounds=2 --passes 3",
        "gem --hidden 8,8 --product-rows 16 --steps 5",
        "rap --steps 5",
        "dualquery --rounds 3 --samples 3",
        "privbayes",
    ]
    work = parse_workload("all-2way", TOY.domain)

    def use(text: str) -> object:
        name, *rest = text.split() or [""]
        mechanism = mechanism_of(name, pairs(rest))
        return mechanism.check(Task.of(TOY, work))

    return Text(folder, texts, use)


def rules(folder: Path) -> Loader:
    domain = Schema.load(SOUND / "schema.toml").domain
    texts = [
        "all-2way",
        "target:age:2way",
        "skewed:16:2way:seed=1",
        "random:3:2way:seed=0",
        "threshold:1of2:3:seed=0",
        "history:zipf:1of2:8:seed=0:order=1",
        "zipf:1of2:drift=0.2:draws=5:seed=0",
    ]

    def use(text: str) -> object:
        return (parse_future if text.startswith("zipf") else parse_workload)(text, domain)

    return Text(folder, texts, use)


def addresses(folder: Path) -> Loader:
    texts = [
        "postgres://ann:pw@db.example:5432/census?table=s.people&connect_timeout=5",
        "bigquery://project/dataset?table=people",
        "snowflake://ann@account/db/schema?table=people&role=r",
        "duckdb:///people.duckdb?table=people",
        "people/*.parquet",
        "spark:shop.people?master=local[2]&format=csv",
        "spark:///data/people.parquet?keep=no",
    ]

    def use(text: str) -> object:
        kind = text.partition(":")[0].lower()
        if kind == "spark":
            from admeasure.sources.spark.tables import parse as parse_spark

            return parse_spark(text)
        warehouse = kind in ("postgres", "postgresql", "bigquery", "snowflake")
        return parse_warehouse(text) if warehouse else locate(text)

    made = Text(folder, texts, use)
    made.harmless = ("nothing", "zero bytes")  # the folder that one is in
    return made


def public_csv(folder: Path) -> Loader:
    known, path = Schema.load(SOUND / "schema.toml"), folder / "p.csv"
    made = Loader(
        folder,
        {"p.csv": sound("people.csv")},
        lambda: read_public(str(path), known),
    )
    made.table = True
    return made


def public_parquet(folder: Path) -> Loader:
    import duckdb

    known, path = Schema.load(SOUND / "schema.toml"), folder / "p.parquet"
    (folder / "p.csv").write_bytes(sound("people.csv"))
    with duckdb.connect() as connection:
        connection.execute(f"COPY (FROM read_csv('{folder / 'p.csv'}')) TO '{path}'")
    files = {"p.parquet": path.read_bytes()}
    made = Loader(folder, files, lambda: read_public(str(path), known))
    made.table = True
    return made


LOADERS: tuple[Callable[[Path], Loader], ...] = (
    *(
        schema,
        relations,
        workload,
        questions,
        conclusions,
        plan,
        study,
        rules,
        mechanism_options,
        addresses,
    ),
    *(release_of_answers, release_of_weights, release_of_tree, interrupted_run),
    *(public_csv, public_parquet),
)

# Loaders of ours with one check taken out. Fuzzing that does not find them is worth nothing.


def trusting_rows(folder: Path) -> Loader:
    """Rows of a study, without a look at what their fields are."""
    run.is_row = lambda record: "key" in record
    return study(folder)


def trusting_events(folder: Path) -> Loader:
    """A log whose costs are taken for numbers."""
    events.check_event = lambda event, name: None
    return release_of_answers(folder)


def trusting_toml(folder: Path) -> Loader:
    """TOML without limits."""

    def parse(text: str, name: str, error: type[AdmeasureError]) -> object:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            raise error(f"{name} is not valid TOML.") from None

    files.parse_toml = parse
    return workload(folder)


BROKEN = (trusting_rows, trusting_events, trusting_toml)
