"""The steward's questions: workloads for a run, and query files for a finished release."""

from __future__ import annotations

from admeasure.workload.load import FORMS, load_workload, parse_workload
from admeasure.workload.questions import (
    Question,
    check_questions,
    load_questions,
    parse_questions,
    query_of,
    question,
    question_of,
)
from admeasure.workload.rule import KWay
from admeasure.workload.statistic import ColumnStatistic
from admeasure.workload.workload import Workload

__all__ = [
    "FORMS",
    "ColumnStatistic",
    "KWay",
    "Question",
    "Workload",
    "check_questions",
    "load_questions",
    "load_workload",
    "parse_questions",
    "parse_workload",
    "query_of",
    "question",
    "question_of",
]
