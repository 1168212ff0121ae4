"""The advice: two lines that are always there, a panel beside the question, and the whole table."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

#: How sure, as a word and as a mark, so that colour is not the only sign.
_SURE = {"high": "●●●", "fair": "●●○", "low": "●○○"}


def words(value: Any) -> str:
    """A decision's value as people read it."""
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {words(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(words(inner) for inner in value) or "none"
    return str(value)


class AdviceLines(Static):
    """What would be run, and why: two lines, always there."""

    DEFAULT_CSS = """
    AdviceLines { height: 3; padding: 0 1; border-top: solid $foreground 20%; }
    """
    COMPONENT_CLASSES = {"advice-lines--what", "advice-lines--why"}

    def __init__(self, id: str | None = None):
        super().__init__(markup=False, id=id)
        self._lines = ("", "")

    def show(self, recommendation: Any) -> None:
        self._lines = recommendation.summary() if recommendation else ("", "")
        self.refresh()

    def render(self) -> Text:
        what, why = self._lines
        style = self.get_component_rich_style
        return Text("\n", no_wrap=True, overflow="ellipsis").join([
            Text(what, style("advice-lines--what"), no_wrap=True, overflow="ellipsis"),
            Text(why, style("advice-lines--why"), no_wrap=True, overflow="ellipsis")])


class AdvicePanel(VerticalScroll):
    """Every decision with its reason, beside the question."""

    DEFAULT_CSS = """
    AdvicePanel { width: 44; padding: 0 1; border-left: solid $foreground 20%; }
    """

    def __init__(self, id: str | None = None):
        super().__init__(id=id, can_focus=False)
        self._body = _Decisions()

    def compose(self):
        yield self._body

    def show(self, recommendation: Any) -> None:
        self._body.show(recommendation)


class _Decisions(Static):
    COMPONENT_CLASSES = {"decisions--name", "decisions--value", "decisions--why"}
    DEFAULT_CSS = """
    _Decisions { height: auto; }
    """

    def __init__(self):
        super().__init__(markup=False)

    def show(self, recommendation: Any) -> None:
        style = self.get_component_rich_style
        table = Table.grid(padding=(0, 1))
        table.add_column(width=10, no_wrap=True)
        table.add_column(ratio=1)
        table.expand = True
        table.add_row(Text("Recommended", style("decisions--name")), Text(""))
        for name, decision in (recommendation.decisions if recommendation else {}).items():
            text = Text(words(decision.value), style("decisions--value"))
            text.append(f"  {_SURE[decision.confidence]}\n", style("decisions--why"))
            text.append(decision.reason, style("decisions--why"))
            table.add_row(Text(name.replace("_", " ")[:10], style("decisions--name")), text)
        self.update(table)


def advice_table(recommendation: Any, style: Any) -> Table:
    """All decisions, why, how sure, and what would change them; `style` maps `name|value|why` to Rich styles."""
    table = Table(box=None, expand=True, padding=(0, 1), show_edge=False, header_style=style("name"))
    table.add_column("", width=14, no_wrap=True)
    table.add_column("recommended", ratio=3)
    table.add_column("why", ratio=6)
    table.add_column("sure", width=5, no_wrap=True)
    for name, decision in recommendation.decisions.items():
        why = Text(decision.reason, style("value"))
        if decision.alternative:
            why.append(f"\ninstead {words(decision.alternative.value)}: {decision.alternative.when}", style("why"))
        for fact in decision.facts:
            why.append(f"\n· {fact}", style("why"))
        table.add_row(Text(name.replace("_", " "), style("name")), Text(words(decision.value), style("value")), why,
                      Text(decision.confidence, style("why")))
    return table
