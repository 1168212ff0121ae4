"""Something went wrong: said in words, with what to do, and closed with a key."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from wizard.tui.keys import bindings
from wizard.tui.screens.base import WizardDialog


class ProblemScreen(WizardDialog):
    CSS_PATH = "dialog.tcss"
    BINDINGS = bindings("problem")

    def __init__(self, title: str, message: str):
        super().__init__()
        self._title, self._message = title, message

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="problem"):
            yield Static(self._title, classes="title", markup=False)
            with VerticalScroll(id="text"):
                yield Static(self._message, markup=False)
            yield Static("esc close", classes="keys", markup=False)
