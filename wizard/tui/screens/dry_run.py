"""What a launch would do, word for word: the command, the variables it adds, every value; nothing is started."""

from __future__ import annotations

from typing import Any

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from wizard.tui.keys import bindings
from wizard.tui.panels.chrome import KeyBar, SectionBar
from wizard.tui.screens.base import WizardScreen


class DryRunScreen(WizardScreen):
    CSS_PATH = "page.tcss"
    BINDINGS = bindings("dry-run")
    KEYS = "dry-run"

    def __init__(self, plan: Any):
        super().__init__()
        self._plan = plan

    def compose(self) -> ComposeResult:
        yield SectionBar(title="Dry run: nothing was started")
        with VerticalScroll(id="page"):
            yield Static("The command", classes="heading", markup=False)
            yield Static(self._plan.command, id="full-command", markup=False)
            yield Static("\nEvery value, as this machine resolves it", classes="heading", markup=False)
            yield Static(self._plan.resolved_text, markup=False)
        yield KeyBar("dry-run")

    def on_mount(self) -> None:
        self.query_one("#page").focus()
