"""Every kind of source stands in one registry, and says all that is asked of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import admeasure
from admeasure import sources
from admeasure.errors import UsageError
from admeasure.schema.model import Schema
from admeasure.sources.address import printable
from admeasure.sources.kind import Kind, Scheme
from admeasure.sources.kinds import KINDS, SCHEMES, kind_of
from admeasure.sources.open import open_source

SCHEMA = Schema.coded("toy", {"sex": 2})
EXTRAS = [kind for kind in KINDS if kind.needs is not None]


def test_every_folder_of_sources_is_a_kind_of_the_registry() -> None:
    folders = {path.parent.name for path in Path(sources.__path__[0]).glob("*/kind.py")}
    assert folders == {type(kind).__module__.split(".")[-2] for kind in KINDS}
    assert folders == {path.parent.name for path in Path(sources.__path__[0]).glob("*/__init__.py")}


def test_a_scheme_belongs_to_one_kind() -> None:
    named = [scheme.name for kind in KINDS for scheme in kind.schemes]
    assert sorted(named) == sorted(set(named)) == sorted(SCHEMES)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: scheme.name)
def test_an_address_of_its_form_is_known_and_shown_and_a_password_in_it_is_not(
    scheme: Scheme,
) -> None:
    address = scheme.name + ":" + scheme.form.partition(":")[2].replace(":PORT", ":5432")
    kind = kind_of(address)
    assert kind is not None
    assert scheme in kind.schemes
    assert printable(address) == address
    for option in scheme.options:
        given = f"{address.partition('?')[0]}?{option}=open@sesame"
        assert printable(given) == f"{scheme.name}:…"
    assert "sesame" not in printable(f"{scheme.name}://ann:sesame@host/a?table=b&password=sesame")


@pytest.mark.parametrize("kind", EXTRAS, ids=lambda kind: kind.library)
def test_a_library_that_is_missing_is_named_with_its_extra_whatever_is_asked(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    address = kind.schemes[0].form
    assert kind.needs is not None
    install = rf"pip install 'admeasure\[{kind.needs[0]}\]'"
    for ask in (
        lambda: open_source(address, SCHEMA),
        lambda: admeasure.check(address, SCHEMA),
        lambda: admeasure.draft(address),
    ):
        with pytest.raises(UsageError, match=install):
            ask()
