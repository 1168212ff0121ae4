"""What a widget has in common that draws the whole view as text, anew at each poll."""

from __future__ import annotations

from textual.widget import Widget

from wizard.monitor.view import MonitorView


class DrawnView(Widget):
    """Keeps the last view; `render` draws `_view`, which is None before the first poll."""

    def __init__(self, id: str | None = None):
        super().__init__(id=id)
        self._view: MonitorView | None = None

    def show(self, view: MonitorView) -> None:
        self._view = view
        self.refresh()
