"""Files that no loader may choke on: each ends in an error of ours, at once and in little memory.

Every loader of the package is tried with every file here. A new loader belongs into `LOADERS` of
loaders.py, where test_fuzz.py takes it from too.
"""

from __future__ import annotations

import importlib.util
import os
import re
import tracemalloc
from fractions import Fraction
from pathlib import Path

import pytest

import admeasure
from admeasure.errors import AdmeasureError, SchemaError, UsageError
from admeasure.schema import Schema
from admeasure.untrusted import parse_json, parse_toml, rational, read_bytes

_spec = importlib.util.spec_from_file_location("loaders", Path(__file__).with_name("loaders.py"))
assert _spec is not None
assert _spec.loader is not None
loaders = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(loaders)

DEEP = 100_000
DIGITS = "9" * 5_000

HOSTILE: dict[str, bytes] = {
    "deep lists in TOML": b"a = " + b"[" * DEEP,
    "deep closed lists in TOML": b"a = " + b"[" * 900 + b"]" * 900,
    "deep tables in TOML": b"a = " + b"{a = " * DEEP,
    "a name of very many parts": b"a." * DEEP + b"a = 1",
    "a header of very many parts": b"[" + b"a." * DEEP + b"a]",
    "a quoted name of very many parts": b'"a" . ' * DEEP + b"a = 1",
    "deep lists in JSON": b'{"a": ' + b"[" * DEEP,
    "deep closed lists in JSON": b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}\n",
    "deep objects in JSON": b'{"a":' * DEEP,
    "a long number in TOML": f"a = {DIGITS}".encode(),
    "a long hexadecimal number in TOML": b"a = 0x" + b"f" * 5_000,
    "a long number in JSON": f'{{"a": {DIGITS}}}\n'.encode(),
    "a key twice in JSON": b'{"event": "measure", "event": "measure"}\n',
    "half a character in JSON": b'{"event": "\\ud800", "key": "\\udc00"}\n',
    "UTF-16": "[table]\nname = 'ä'".encode("utf-16"),
    "Latin-1": "name = 'ä'".encode("latin-1"),
    "zero bytes": b"\0" * 1_000,
    "nothing": b"",
    "a byte order mark": b"\xef\xbb\xbf",
    "infinity": b'{"a": Infinity, "rho": "1e999999999"}\n',
    "an unclosed text": b'"' * 99_999,
}


@pytest.fixture(scope="module", params=loaders.LOADERS, ids=lambda made: made.__name__)
def loader(request, tmp_path_factory):
    """Whoever spoils a file of it puts it back."""
    return request.param(tmp_path_factory.mktemp(request.param.__name__))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(loader, name):
    content = HOSTILE[name]
    for where in range(len(loader.files)):
        loader.write(where, content)
        said = ""
        try:
            loader.load()
        except AdmeasureError as error:
            said = str(error)
        if said or name not in loader.harmless:
            assert loader.said_well(said), said[:300]
        loader.restore()


def _zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _giant(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2**38)


@pytest.mark.parametrize("make", [_zero, os.mkfifo, os.mkdir, _giant])
def test_what_is_no_plain_file_of_a_sound_size_is_refused(loader, make):
    for where in range(len(loader.files)):
        path = loader.path(where)
        if path is None or (loader.table and make is _giant):
            continue
        path.unlink(missing_ok=True)
        make(path)
        with pytest.raises(AdmeasureError) as caught:
            loader.load()
        assert loader.said_well(str(caught.value))
        path.rmdir() if path.is_dir() else path.unlink()
        loader.restore()


def test_the_sound_files_load(loader):
    loader.load()


def test_a_byte_order_mark_before_a_sound_file_is_harmless(tmp_path):
    text = Schema.coded("toy", {"a": 2}).dumps()
    (tmp_path / "s.toml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert Schema.load(tmp_path / "s.toml").dumps() == text


def test_brackets_and_dots_in_texts_are_no_depth():
    text = "a = [" + ", ".join(f"'{'[{' * 50}{'.' * 99}{i}'" for i in range(99)) + "]"
    assert len(parse_toml(text, "t", SchemaError)["a"]) == 99
    many = "[" + ",".join(["[0.5, 1.5, 2.5]"] * 5_000) + "]"
    assert len(parse_toml(f"edges = {many}", "t")["edges"]) == 5_000
    assert len(parse_json(f'{{"a": {many}}}', "t")["a"]) == 5_000


@pytest.mark.parametrize(
    "shape", ["[a{}]\n", "[a{}.b.c]\n", "a{}.b.c = 1\n", "[[b]]\nx{} = [{{}}]\n"]
)
def test_what_takes_much_memory_once_parsed_is_refused_unparsed(shape, monkeypatch):
    """A parser makes up to 250 bytes of one; the estimate is never below what it takes."""
    text = "".join(shape.format(i) for i in range(15_000))
    tracemalloc.start()
    parse_toml(text, "t")
    megabytes = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    monkeypatch.setattr("admeasure.untrusted.PARSED_MEGABYTES", megabytes)
    with pytest.raises(UsageError, match="of memory"):
        parse_toml(text, "t")


@pytest.mark.parametrize("text", ["0", "3/8", "-1/3", "0.125", "1e-9", "2.5E+10", "9" * 200, ".5"])
def test_an_exact_number_is_that_of_the_standard_library(text):
    assert rational(text) == Fraction(text)


@pytest.mark.parametrize(
    "value",
    [
        *("1e999999999", "1e-999999999", "1/0", "", "1e", "nan", "inf", "1_0", " 1", "½", "١"),
        *(DIGITS, "1e301", "9" * 301, None, True, [], {}, float("nan"), float("inf"), b"1"),
    ],
)
def test_what_is_no_number_of_a_sound_size_is_refused_at_once(value):
    with pytest.raises(ValueError, match="not a"):
        rational(value)


def test_a_text_is_read_up_to_its_limit(tmp_path):
    (tmp_path / "t").write_bytes(b"x" * 2**20)
    assert len(read_bytes(tmp_path / "t", largest_megabytes=1)) == 2**20
    with pytest.raises(UsageError, match=r"larger than 0\.5 MB"):
        read_bytes(tmp_path / "t", largest_megabytes=0.5)


OURS = {
    "untrusted.py": "it is the reader",
    "families/network/generator.py": "arrays, of a file that the reader has read",
    "privacy/changes.py": "a text of the budget book whose link was checked before",
    "sources/files/views.py": "the engine's own answer",
    "studies/process.py": "a job of ours, and its answer, between our own processes",
    "web/commands.py": "the answer of our own command",
}
"""Who may parse without the reader, and why."""
PARSES = re.compile(r"\btomllib\b|\bjson\.loads?\(|\bimport pickle\b|\bnp\.load\(")


def test_a_generator_of_gem_pub_is_a_plain_file(tmp_path):
    from admeasure.families.network.generator import Generator

    domain = Schema.coded("toy", {"a": 2}).domain
    for make in (_zero, os.mkfifo, os.mkdir, _giant):
        make(tmp_path / make.__name__)
        with pytest.raises(UsageError):
            Generator.load(tmp_path / make.__name__, domain)


def test_nobody_else_parses_toml_or_json():
    """The next loader goes through the reader, or says here why it need not."""
    source = Path(admeasure.__file__).parent
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(
            r"\btomllib\b|\bjson\.loads?\(|\bimport pickle\b|\bnp\.load\(", path.read_text()
        )
    }
    assert found == set(OURS)


def test_a_path_with_a_line_break_is_named_on_one_line(tmp_path):
    with pytest.raises(UsageError) as refused:
        read_bytes(tmp_path / "a\nb.toml")
    assert "a\\nb.toml" in str(refused.value)
    assert "\n" not in str(refused.value)
