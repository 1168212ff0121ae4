"""The whole advice: every decision, why, how sure, what would change it."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from wizard.tui.keys import bindings
from wizard.tui.panels.advice import advice_table
from wizard.tui.panels.chrome import KeyBar, SectionBar
from wizard.tui.screens.base import WizardScreen


class AdviceScreen(WizardScreen):
    CSS_PATH = "page.tcss"
    BINDINGS = bindings("advice")
    KEYS = "advice"
    COMPONENT_CLASSES = {"advice--name", "advice--value", "advice--why"}

    def __init__(self, recommendation: Any):
        super().__init__()
        self._advice = recommendation

    def compose(self) -> ComposeResult:
        yield SectionBar(title="Advice")
        with VerticalScroll(id="page"):
            yield Static(id="table", markup=False)
            yield Static(self._rest(), id="rest", markup=False)
        yield KeyBar("advice")

    def on_mount(self) -> None:
        self.query_one("#page").focus()
        self.call_after_refresh(self._fill)  # the styles of the parts are there only then

    def _fill(self) -> None:
        table = advice_table(self._advice, lambda name: self.get_component_rich_style(f"advice--{name}"))
        self.query_one("#table", Static).update(table)

    def action_compare(self) -> None:
        from wizard.tui.screens.comparison import ComparisonScreen

        self.app.push_screen(ComparisonScreen(self._advice.comparison))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "compare":
            return True if self._advice.comparison is not None else None
        return True

    def _rest(self) -> Text:
        text = Text()
        for finding in self._advice.findings:
            text.append(f"\n{finding.confidence}: ", "bold").append(finding.summary)
            for step in finding.fix:
                text.append(f"\n   → {step}")
        if self._advice.unknown:
            text.append("\n\nNot known: ", "bold").append("; ".join(self._advice.unknown))
        return text
