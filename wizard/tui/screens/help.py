"""All keys of the screen it was opened from."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from wizard.tui.keys import SCREENS, bindings
from wizard.tui.panels.chrome import KeyBar, SectionBar
from wizard.tui.screens.base import WizardScreen

_ORIGINS = (
    ("detected", "read off this machine or your files; you can change it"),
    ("recommended", "weighed by the advice; stays open in the preset, so another machine decides again"),
    ("default", "a plain default, or the quickstart's value"),
    ("preset", "stands in the preset that was opened"),
    ("yours", "you changed it, and it is kept when you go back"),
)


class HelpScreen(WizardScreen):
    CSS_PATH = "page.tcss"
    BINDINGS = bindings("help")
    KEYS = "help"

    def __init__(self, about: str):
        super().__init__()
        self._about = about

    def compose(self) -> ComposeResult:
        yield SectionBar(title="Help")
        with VerticalScroll(id="page"):
            yield Static(self._keys(), markup=False)
            if self._about in ("questions", "review"):
                yield Static("\nWhere a value comes from", classes="heading", markup=False)
                yield Static(_grid(_ORIGINS), markup=False)
        yield KeyBar("help")

    def on_mount(self) -> None:
        self.query_one("#page").focus()

    def _keys(self) -> Table:
        rows = []
        for key in SCREENS.get(self._about, ()):
            rows.append((key.name, key.help))
        rows += [("↑ ↓", "Move in a list; j and k do too"), ("^p", "Palette: all of this by name, and other colours")]
        return _grid(rows)


def _grid(rows) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(width=13, no_wrap=True)
    table.add_column(ratio=1)
    table.expand = True
    for left, right in rows:
        table.add_row(Text(f" {left}", "bold"), Text(right))
    return table
