"""Choosing a file or a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import DirectoryTree, Static

from wizard.tui.keys import bindings
from wizard.tui.screens.base import WizardDialog


class _Tree(DirectoryTree):
    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        return [path for path in paths if not path.name.startswith(".")]


class BrowseScreen(WizardDialog):
    """Gives the chosen path as text, or None."""

    CSS_PATH = "dialog.tcss"
    BINDINGS = bindings("browse")

    def __init__(self, start: Path):
        super().__init__()
        self._start = start

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="tall"):
            yield Static(str(self._start), id="where", classes="title", markup=False)
            yield _Tree(self._start)
            yield Static("enter take the file   F3 take the folder   ⌫ folder above   esc cancel", classes="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(_Tree).focus()

    @on(DirectoryTree.FileSelected)
    def _file(self, event: DirectoryTree.FileSelected) -> None:
        self.dismiss(str(event.path))

    def action_open(self) -> None:
        self.query_one(_Tree).action_select_cursor()

    def action_take(self) -> None:
        node = self.query_one(_Tree).cursor_node
        if node is not None and node.data is not None:
            self.dismiss(str(node.data.path))

    def action_up(self) -> None:
        tree = self.query_one(_Tree)
        tree.path = Path(tree.path).absolute().parent
        self.query_one("#where", Static).update(str(tree.path))
