"""The two lines above: which run, how it is, how far it is."""

from __future__ import annotations

from textual.content import Content

from wizard.monitor.view import MonitorView
from wizard.tui.widgets.bars import bar
from wizard.tui.widgets.drawn import DrawnView

TONES = {"good": "$text-success", "busy": "$text-accent", "warn": "$text-warning", "bad": "$text-error",
         "done": "$text-success"}


class RunHeader(DrawnView):
    """Name, state, steps, ETA and backend on one line; progress bar, elapsed time and epoch on the next.

    What does not fit is left out from the least wanted on, never cut in its middle.
    """

    DEFAULT_CSS = """
    RunHeader { height: 2; padding: 0 1; }
    """

    def render(self) -> Content:
        view, width = self._view, self.content_size.width
        if view is None:
            return Content("reading the run's folder…")
        return Content("\n").join([_first(view, width), _second(view, width)])


def _first(view: MonitorView, width: int) -> Content:
    attempt = f"attempt {view.attempt}" if view.attempt > 1 else ""
    # (text, style, importance): the least important go first when there is no room
    left = [(view.name, "bold", 9), (view.words, f"bold {TONES[view.tone]}", 10), (view.steps, "", 8), (view.percent, "", 6),
            (view.eta, "", 7), (attempt, "", 4)]
    right = view.backend
    left = [part for part in left if part[0]]
    while sum(len(text) + 2 for text, _, _ in left) + len(right) > width and len(left) > 1:
        if right and min(part[2] for part in left) > 5:
            right = ""
        else:
            left.remove(min(left, key=lambda part: part[2]))
    line = Content("  ").join(Content.styled(text, style) for text, style, _ in left)
    if line.cell_length > width:
        return line.truncate(width, ellipsis=True)
    return line + Content(" " * (width - line.cell_length - len(right))) + Content.styled(right, "$text-muted")


def _second(view: MonitorView, width: int) -> Content:
    facts = "   ".join(text for text in (f"elapsed {view.elapsed}", view.pauses if width >= 98 else "", view.epoch) if text)
    length = max(10, width - len(facts) - 3)
    filled = bar(view.progress or 0.0, length)
    return (Content.styled(filled, TONES[view.tone]) + Content.styled("·" * (length - len(filled)), "$text-muted")
            + Content("   " + facts))
