"""A comparison as a person reads it: one bar a way, from the fast end of the prediction to the slow one."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from wizard.advice.comparison import Comparison, Way
from wizard.advice.speed import share_words

LEGEND = "time of one step: █ at best, ░ up to the slow end"


@dataclass(frozen=True)
class Row:
    """`sure` and `maybe` are cells of the bar: up to the fast end of the range, and from there to the slow one."""

    name: str
    chosen: bool
    step: str
    sure: int
    maybe: int
    waiting: str


def rows(comparison: Comparison, width: int) -> list[Row]:
    """The ways with their bars on one scale, the longest `width` cells. A way without a prediction has no bar."""
    longest = max((way.step_s[1] for way in comparison.ways if way.step_s), default=0.0)
    found = []
    for way in comparison.ways:
        if way.step_s is None:
            found.append(Row(way.name, way.chosen, "n/a", 0, 0, way.unknown or ""))
            continue
        low, high = (max(1, round(seconds / longest * width)) for seconds in way.step_s)
        found.append(Row(way.name, way.chosen, step_text(way), low, high - low, waiting_text(way)))
    return found


def step_text(way: Way) -> str:
    """`150 to 330 ms`, `1.5 to 3.3 s`: both ends in the unit of the slow one."""
    if way.step_s is None:
        return "n/a"
    low, high = way.step_s
    unit, size = next((unit, size) for unit, size in (("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
                      if high >= (10 * size if unit == "min" else size) or unit == "µs")  # fmt: skip
    first, last = _figures(low / size), _figures(high / size)
    return f"{first} {unit}" if first == last else f"{first} to {last} {unit}"


def waiting_text(way: Way) -> str:
    if not way.waiting_share or way.waiting_share[1] == 0:
        return "no waiting"
    return f"{share_words(way.waiting_share)} waiting"


def lines(comparison: Comparison, width: int = 34) -> list[str]:
    """For a terminal without colours."""
    found = [f"{comparison.title}:", *textwrap.wrap(comparison.why, 78, initial_indent="  ", subsequent_indent="  "), ""]
    shown = rows(comparison, width)
    name, step = (max(len(text) for text in texts) for texts in zip(*((row.name, row.step) for row in shown), strict=True))
    for row, way in zip(shown, comparison.ways, strict=True):
        mark = "*" if row.chosen else " "
        bar = "█" * row.sure + "░" * row.maybe
        found.append(f"{mark} {row.name:<{name}}  {row.step:<{step}}  {bar}{' ' if bar else ''}{row.waiting}")
        found += [f"    - {text}" for text in way.can_go_wrong]
    found += ["", f"  {LEGEND}; {comparison.source}; * what is recommended or set"]
    return found


def _figures(value: float) -> str:
    """Two significant figures without an exponent."""
    return f"{float(f'{value:.2g}'):,g}"
