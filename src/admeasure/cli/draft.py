"""`draft`: a schema to be filled in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from admeasure.files import refuse_to_overwrite, write_text
from admeasure.sources.address import printable
from admeasure.terminal.console import note, say
from admeasure.verbs.draft import draft


def show(data: str, out: Path | None, public: Sequence[str], *, force: bool) -> None:
    if out is not None:
        refuse_to_overwrite(out, force=force)
    text = draft(data, public=public)
    if out is None:
        say(text)
        return
    write_text(out, text)
    note(
        f"Wrote {out}. Fill in every TODO from a codebook, then: "
        f"admeasure check {printable(data)} --schema {out}"
    )
