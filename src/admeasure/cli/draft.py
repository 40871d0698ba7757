"""`draft`: a schema to be filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from admeasure.cli.arguments import Data, Force, option
from admeasure.files import refuse_to_overwrite, write_text
from admeasure.terminal.console import note, say


def draft(
    data: Data,
    out: Annotated[Path | None, option("FILE", "Where to write it.", "--out", "-o")] = None,
    public: Annotated[
        list[str] | None,
        option(
            "FILE",
            "A public file to fill in from: a table like this one, a codebook or a hierarchy "
            "of codes (CSV), a Table Schema, SDV metadata or domain.json. Give one or more.",
        ),
    ] = None,
    *,
    force: Force = False,
) -> None:
    """Write a schema with names and storage types; bounds that no public file gives are yours."""
    from admeasure.sources.address import printable
    from admeasure.verbs.draft import draft as drafted

    if out is not None:
        refuse_to_overwrite(out, force=force)
    text = drafted(data, public=public or (), out=out)
    if out is None:
        say(text)
        return
    write_text(out, text)
    note(
        f"Wrote {out}. Fill in every TODO from a codebook, then: "
        f"admeasure check {printable(data)} --schema {out}"
    )
