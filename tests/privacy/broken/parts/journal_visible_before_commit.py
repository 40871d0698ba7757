"""A journal whose line is whole before it is on the disk, and cut off when a signal comes then."""

from __future__ import annotations

import os

from admeasure.privacy import journal
from admeasure.privacy.journal import FileJournal, Journal

CAUGHT_BY = "SEEN"


def apply() -> None:
    def append(self, event):
        line = journal._line(event)
        journal._write(self._file, line, self._end)
        os.fsync(self._file)
        self._end += len(line)
        self._hash.update(line)
        Journal._append(self, event)

    FileJournal._append = append  # type: ignore[method-assign]
