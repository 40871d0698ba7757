"""Conclusions that must hold: statements about the table, checked on a release with confidence."""

from __future__ import annotations

from admeasure.conclusions.check import Margin, Verdict, check, check_all
from admeasure.conclusions.files import Claim, Conclusion, Term, load_conclusions, parse_conclusions

__all__ = [
    "Claim",
    "Conclusion",
    "Margin",
    "Term",
    "Verdict",
    "check",
    "check_all",
    "load_conclusions",
    "parse_conclusions",
]
