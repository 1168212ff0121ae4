"""What a run that ended came to: its model, or why it failed."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from wizard.monitor.view import End


class EndPanel(VerticalScroll):
    """Hidden until the run has ended."""

    DEFAULT_CSS = """
    EndPanel { height: auto; max-height: 14; border: round $success; padding: 0 1; display: none;
        scrollbar-size-vertical: 1; }
    EndPanel.-shown { display: block; }
    EndPanel.-failed { border: round $error; }
    EndPanel > Static { width: 100%; }
    """

    def __init__(self, id: str | None = None):
        super().__init__(id=id)
        self._end: End | None = None

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    def show(self, end: End | None) -> None:
        if end == self._end:
            return
        self._end = end
        self.set_class(end is not None, "-shown")
        if end is not None:
            self.set_class(end.failed, "-failed")
            self.border_title = Content(end.title)
            self.query_one(Static).update(Content("\n".join(end.lines)))
