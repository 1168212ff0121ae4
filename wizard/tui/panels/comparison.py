"""A comparison drawn for the width there is."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from rich.style import Style
from rich.text import Text

from wizard.advice.comparison import Comparison
from wizard.advice.comparison_words import LEGEND, rows

#: Cells for name, time and waiting beside a bar; on a narrow screen the waiting goes to a line of its own.
_BESIDE, _NARROW = 74, 100


def comparison_text(comparison: Comparison, width: int, style: Callable[[str], Style]) -> Text:
    """`style` maps `name|sure|maybe|why` to Rich styles. The chosen way is marked, not only coloured."""
    wide = width >= _NARROW
    shown = rows(comparison, max(12, width - (_BESIDE if wide else 42)))
    name = max(len(row.name) for row in shown)
    step = max(len(row.step) for row in shown)
    text = Text(f"{comparison.title}\n", "bold").append(f"{textwrap.fill(comparison.why, width)}\n\n", style("why"))
    for row, way in zip(shown, comparison.ways, strict=True):
        mark = "●" if row.chosen else " "
        text.append(f"{mark} {row.name:<{name}}  ", style("name")).append(f"{row.step:<{step}}  ")
        text.append("█" * row.sure, style("sure")).append("░" * row.maybe, style("maybe"))
        told = [f"· {trouble}" for trouble in way.can_go_wrong]
        if wide and row.sure:
            text.append(f"  {row.waiting}")
        else:
            told.insert(0, row.waiting)
        text.append("\n")
        for line in told:
            text.append(textwrap.fill(line, width, initial_indent="    ", subsequent_indent="      ") + "\n", style("why"))
        text.append("\n")
    return text.append(f"{LEGEND}\n● what is recommended or set; {comparison.source}", style("why"))
