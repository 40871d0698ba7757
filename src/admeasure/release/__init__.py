"""What a run gives out: the release folder, its certificate, its answers and their bounds."""

from __future__ import annotations

from admeasure.bounds import Answer, Bound
from admeasure.certificate import Certificate
from admeasure.release.release import Release
from admeasure.release.statistics import StatisticAnswer

__all__ = ["Answer", "Bound", "Certificate", "Release", "StatisticAnswer"]
