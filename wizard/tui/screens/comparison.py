"""Two ways to join the ranks side by side, as bars."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from wizard.advice.comparison import Comparison
from wizard.tui.keys import bindings
from wizard.tui.panels.chrome import KeyBar, SectionBar
from wizard.tui.panels.comparison import comparison_text
from wizard.tui.screens.base import WizardScreen


class ComparisonScreen(WizardScreen):
    CSS_PATH = "page.tcss"
    BINDINGS = bindings("comparison")
    KEYS = "comparison"
    COMPONENT_CLASSES = {"comparison--name", "comparison--sure", "comparison--maybe", "comparison--why"}

    def __init__(self, comparison: Comparison):
        super().__init__()
        self._comparison = comparison

    def compose(self) -> ComposeResult:
        yield SectionBar(title="Side by side")
        with VerticalScroll(id="page"):
            yield Static(id="bars", markup=False)
        yield KeyBar("comparison")

    def on_mount(self) -> None:
        self._draw()
        self.query_one("#page").focus()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        """The bars take what width there is."""
        text = comparison_text(
            self._comparison, self.size.width - 4, lambda name: self.get_component_rich_style(f"comparison--{name}")
        )
        self.query_one("#bars", Static).update(text)
