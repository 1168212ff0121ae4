"""Where the time of a step goes, in words, percent and bars."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from wizard.formatting import percent
from wizard.monitor.view import MonitorView
from wizard.tui.widgets.bars import bar

_STYLES = {"data": "$text-secondary", "compute": "$text-primary", "waiting": "$text-warning", "optimizer": "$text-accent"}


class SplitBar(Widget):
    """`a step: data 1 % ▏ compute 88 % ████ waiting 6 % ▉ optimizer 5 % ▋`; bars share what room is left."""

    DEFAULT_CSS = """
    SplitBar { height: 1; padding: 0 1; }
    """

    def __init__(self, id: str | None = None):
        super().__init__(id=id)
        self._split: tuple[tuple[str, float | None], ...] = ()
        self._step_ms = ""

    def show(self, view: MonitorView) -> None:
        if (view.split, view.step_ms) != (self._split, self._step_ms):
            self._split, self._step_ms = view.split, view.step_ms
            self.refresh()

    def render(self) -> Content:
        if not self._split:
            return Content.styled("a step: not measured yet", "$text-muted")
        width = self.content_size.width
        if all(share is None for _, share in self._split):
            return Content.styled(f"a step {self._step_ms} ms; what it is spent on is not told", "$text-muted").truncate(width)
        head = f"a step {self._step_ms} ms: " if width >= 98 else "a step: "
        labels = [f"{name} {percent(share)} " for name, share in self._split]
        room = width - len(head) - sum(len(label) for label in labels) - 2 * len(labels)
        total = sum(share or 0.0 for _, share in self._split) or 1.0
        line = Content.styled(head, "$text-muted")
        for label, (name, share) in zip(labels, self._split, strict=True):
            length = bar((share or 0.0) / total, room) if room >= 8 else ""
            line = line + Content(label) + Content.styled(length, _STYLES.get(name, "")) + Content(" " if length else "")
        return line.truncate(width)
