"""Throughput and loss as charts with axes, for terminals with room."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.widget import Widget
from textual_plotext.plot import Plot

from wizard.formatting import loss as loss_text
from wizard.formatting import rate
from wizard.monitor.series import thin
from wizard.monitor.view import Curve, MonitorView

_TICKS = 4


class Chart(Widget):
    """Curves over steps. Only finite points are ever drawn; what is missing is said in the border's title."""

    DEFAULT_CSS = """
    Chart { border: round $foreground 20%; border-title-color: $foreground; width: 1fr; height: 1fr; min-height: 5; }
    """
    COMPONENT_CLASSES = {"chart--first", "chart--second"}

    def __init__(self, number=rate, from_zero: bool = False, id: str | None = None):
        super().__init__(id=id)
        self._number, self._from_zero = number, from_zero
        self._curves: tuple[Curve, ...] = ()
        self._plot = Plot()

    def show(self, title: str, *curves: Curve) -> None:
        if self.border_title != title:
            self.border_title = title
        if curves != self._curves:
            self._curves = curves
            self.refresh()

    def render(self) -> Text:
        width, height = self.content_size
        drawn = [curve for curve in self._curves if curve.x]
        if not drawn or width < 20 or height < 3:
            return Text("no points yet", "dim")
        plot = self._plot
        plot.clear_figure()
        plot.plotsize(width, height)
        plot._set_size(width, height)
        plot.theme("clear")
        plot.xaxes(True, False)
        plot.yaxes(True, False)
        for index, curve in enumerate(drawn):
            x, y = thin(list(curve.x), list(curve.y), 2 * width)
            plot.plot(x, y, marker="braille", color=self._colour(index if len(drawn) > 1 or curve is self._curves[0] else 1))
        low_x, high_x = min(curve.x[0] for curve in drawn), max(curve.x[-1] for curve in drawn)
        low_y = min(min(curve.y) for curve in drawn)
        high_y = max(max(curve.y) for curve in drawn)
        if self._from_zero:
            low_y, high_y = min(0.0, low_y), high_y * 1.1
        if high_y - low_y < 1e-12 * max(1.0, abs(high_y)):
            low_y, high_y = low_y - (abs(low_y) * 0.1 or 1.0), high_y + (abs(high_y) * 0.1 or 1.0)
        if high_x > low_x:
            plot.xlim(low_x, high_x)
        plot.ylim(low_y, high_y)
        ticks = [low_y + (high_y - low_y) * i / (_TICKS - 1) for i in range(_TICKS)] if height >= 8 else [low_y, high_y]
        plot.yticks(*distinct(ticks, self._number))
        plot.xticks(*distinct([low_x, round((low_x + high_x) / 2), high_x], "{:,.0f}".format))
        return Text.from_ansi(plot.build())

    def _colour(self, index: int) -> tuple[int, int, int]:
        style = self.get_component_styles("chart--first" if index == 0 else "chart--second")
        return style.color.rgb


def distinct(ticks: list[float], words: Callable[[float], str]) -> tuple[list[float], list[str]]:
    """Ticks and their labels, without those that would say the same as one before."""
    by_label: dict[str, float] = {}
    for tick in ticks:
        by_label.setdefault(words(tick), tick)
    return list(by_label.values()), list(by_label)


class Curves(Container):
    """Throughput beside loss, or above it where the terminal is narrow."""

    DEFAULT_CSS = """
    Curves { layout: horizontal; height: 1fr; }
    Curves.-stacked { layout: vertical; }
    Curves .chart--first { color: $text-primary; }
    Curves #loss-chart .chart--first { color: $text-accent; }
    Curves .chart--second { color: $text-success; }
    """

    def compose(self) -> ComposeResult:
        yield Chart(from_zero=True, id="speed-chart")
        yield Chart(loss_text, id="loss-chart")

    def show(self, view: MonitorView) -> None:
        self.query_one("#speed-chart", Chart).show(f"{view.unit} over steps · now {view.speed_now} · mean {view.speed_mean}",
                                                   view.speed)
        evaluated = f" · evaluation {view.eval_loss}" if view.evaluations.x else ""
        if view.metrics_first:
            evaluated += "".join(f" · {name} {value}" for name, value in view.metrics[:3])
        bad = f" · {view.losses.bad}" if view.losses.bad else ""
        self.query_one("#loss-chart", Chart).show(f"loss {view.loss}{evaluated}{bad}", view.losses, view.evaluations)
