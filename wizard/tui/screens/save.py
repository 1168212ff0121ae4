"""Under which name the preset is saved."""

from __future__ import annotations

import os
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from wizard.tui.keys import bindings
from wizard.tui.screens.base import WizardDialog


class SaveScreen(WizardDialog):
    """Gives (path, overwrite), or None. A file that exists has to be confirmed with a second Enter."""

    CSS_PATH = "dialog.tcss"
    BINDINGS = bindings("save")

    def __init__(self, proposal: Path):
        super().__init__()
        self._proposal = proposal
        self._confirmed: Path | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static("Save the preset as", classes="title", markup=False)
            yield Input(_short(self._proposal), compact=True, select_on_focus=False)
            yield Static("", id="remark", markup=False)
            yield Static("enter save   esc cancel", classes="keys", markup=False)

    @on(Input.Changed)
    def _changed(self) -> None:
        self._confirmed = None
        self.query_one("#remark", Static).update("")

    @on(Input.Submitted)
    def action_submit(self) -> None:
        text = self.query_one(Input).value.strip()
        remark = self.query_one("#remark", Static)
        if not text or text.endswith("/") or os.path.isdir(os.path.expanduser(text)):
            remark.update("Give a file, for example ./my-training.yaml.")
            return
        path = Path(os.path.expanduser(text)).absolute()
        if path.suffix not in (".yaml", ".yml"):
            path = path.with_name(path.name + ".yaml")
        if path.exists() and path != self._confirmed:
            self._confirmed = path
            remark.update(f"{path.name} exists already. Enter again replaces it.")
            return
        self.dismiss((path, path.exists()))


def _short(path: Path) -> str:
    home = str(Path.home())
    text = str(path)
    return "~" + text[len(home):] if text.startswith(home + "/") else text
