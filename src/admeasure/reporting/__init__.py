"""What a release says of itself, for people to read."""

from __future__ import annotations

from admeasure.reporting.text import text_report

__all__ = ["text_report"]
