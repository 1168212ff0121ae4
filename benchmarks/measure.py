"""What a benchmark returns: ratios of pairs measured side by side, their middle, their spread, and an aim.

Seconds depend on the machine and on what else it does; the ratio of two things that ran one right after the other
depends far less. So both sides alternate (A B A B), each pair gives one ratio, and the median of these is the result.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Result:
    """One line of the table.

    `ratios` has one entry for each pair, or for each stretch of time where `of` is a share; `aim` is the largest
    ratio that is good enough, None where the line only informs. `details` is kept in the JSON, not shown.
    """

    what: str
    of: str
    ratios: list[float]
    aim: float | None = None
    percent: bool = False
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def middle(self) -> float:
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """Lower and upper quartile of the ratios."""
        return quartiles(self.ratios)

    @property
    def verdict(self) -> str:
        """met | missed, with a `?` where the quartiles lie on both sides of the aim; empty without an aim."""
        if self.aim is None:
            return ""
        low, high = self.spread
        word = "met" if self.middle <= self.aim else "missed"
        return f"{word}?" if low <= self.aim < high else word

    def record(self) -> dict[str, Any]:
        low, high = self.spread
        return {**asdict(self), "median": self.middle, "quartiles": [low, high], "verdict": self.verdict}


@dataclass
class Effort:
    """How much to measure. `quick` is for a look at whether it works: the spread is then wide."""

    quick: bool = False

    def rounds(self, full: int) -> int:
        return max(3, full // 4) if self.quick else full


class Skipped(Exception):
    """This machine cannot run the benchmark; the text says why."""


def paired(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Ratio of each pair. Raises ValueError for lists of different lengths."""
    return [a / b for a, b in zip(first, second, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def span(values: Sequence[float]) -> str:
    """Quartiles in words."""
    low, high = quartiles(values)
    return f"{low:.2f} to {high:.2f}"
