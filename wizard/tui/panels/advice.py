"""The advice: two lines that are always there, a panel beside the question, and the whole table."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from wizard.advice.words import TITLES, value_text

#: How sure, as a word and as a mark, so that colour is not the only sign.
_SURE = {"high": "●●●", "fair": "●●○", "low": "●○○"}


#: What the panel beside the question has room for; the whole table has the rest.
_BESIDE = ("devices", "backend", "strategy", "precision", "batch", "memory", "learning_rate")


class AdviceLines(Static):
    """What would be run, and why: two lines, always there."""

    DEFAULT_CSS = """
    AdviceLines { height: auto; min-height: 3; max-height: 4; padding: 0 1; border-top: solid $foreground 20%; }
    """
    COMPONENT_CLASSES = {"advice-lines--what", "advice-lines--why"}

    def __init__(self, id: str | None = None):
        super().__init__(markup=False, id=id)
        self._lines = ("", "")

    def show(self, recommendation: Any) -> None:
        self._lines = recommendation.summary() if recommendation else ("", "")
        self.refresh(layout=True)

    def render(self) -> Text:
        what, why = self._lines
        style = self.get_component_rich_style
        return Text().append(what, style("advice-lines--what")).append(f"\n{why}", style("advice-lines--why"))


class AdvicePanel(VerticalScroll):
    """Every decision with its reason, beside the question."""

    DEFAULT_CSS = """
    AdvicePanel { width: 46; padding: 0 1; border-left: solid $foreground 20%; }
    AdvicePanel .more { color: $foreground 50%; margin-top: 1; }
    AdvicePanel .heading { text-style: bold; margin: 1 0; }
    """

    def __init__(self, id: str | None = None):
        super().__init__(id=id, can_focus=False)
        self._body = _Decisions()

    def compose(self) -> ComposeResult:
        yield Static("Recommended", classes="heading", markup=False)
        yield self._body
        yield Static("F2  the rest, how sure, and what would change it", classes="more", markup=False)

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
        table.add_column(width=11, no_wrap=True)
        table.add_column(ratio=1)
        table.expand = True
        for name in _BESIDE if recommendation else ():
            decision = recommendation.decisions.get(name)
            if decision is None:
                continue
            text = Text().append(value_text(name, decision), style("decisions--value"))
            text.append(f"  {_SURE[decision.confidence]}\n", style("decisions--why"))
            text.append(decision.reason, style("decisions--why"))
            table.add_row(Text(TITLES.get(name, name)[:11], style("decisions--name")), text)
        self.update(table)


def advice_table(recommendation: Any, style: Any) -> Table:
    """All decisions, why, how sure, and what would change them; `style` maps `name|value|why` to Rich styles."""
    table = Table(box=None, expand=True, padding=(0, 1), show_edge=False, header_style=style("name"))
    table.add_column("", width=11, no_wrap=True)
    table.add_column("recommended", ratio=2)
    table.add_column("why", ratio=6)
    table.add_column("sure", width=5, no_wrap=True)
    for name, decision in recommendation.decisions.items():
        why = Text(decision.reason, style("value"))
        if decision.alternative:
            why.append(f"\nelse {decision.alternative.value}, if {decision.alternative.when}", style("why"))
        for fact in decision.facts:
            why.append(f"\n· {fact}", style("why"))
        table.add_row(Text(TITLES.get(name, name), style("name")), Text(value_text(name, decision), style("value")), why,
                      Text(decision.confidence, style("why")))
    return table
