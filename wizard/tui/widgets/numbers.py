"""Throughput and loss as numbers, each with its curve one line high: what fits on a small terminal."""

from __future__ import annotations

from textual.content import Content

from wizard.formatting import NA
from wizard.tui.widgets.bars import spark
from wizard.tui.widgets.drawn import DrawnView


class Numbers(DrawnView):
    """Left half throughput, right half loss; the second line (the curves) is left out with the class `-plain`."""

    DEFAULT_CSS = """
    Numbers { height: 2; padding: 0 1; }
    Numbers.-plain { height: 1; }
    """

    def render(self) -> Content:
        view, width = self._view, self.content_size.width
        if view is None:
            return Content("")
        left_width = width * 58 // 100
        right_width = width - left_width - 2
        left = [[(f"{view.unit} ", ""), (view.speed_now, "bold $text-primary")], [("mean ", ""), (view.speed_mean, "")],
                [("best ", ""), (view.speed_best, "")], [("samples/s ", ""), (view.samples_now, "")],
                [("seen ", ""), (view.seen, "")]]
        measured = [[(f"{name} ", ""), (value, "")] for name, value in view.metrics]
        right = [[("loss ", ""), (view.loss, "bold $text-accent")], *(measured if view.metrics_first else []),
                 [("eval ", ""), (view.eval_loss, "")], [("lr ", ""), (view.learning_rate, "")],
                 [("grad ", ""), (view.grad_norm, "")], *([] if view.metrics_first else measured)]
        first = _fill(left, left_width) + Content("  ") + _fill(right, right_width)
        if self.has_class("-plain"):
            return first
        speed = spark(view.speed.y, left_width, floor=0.0)
        loss = spark(view.losses.y, right_width) if not view.losses.bad or view.losses.y else ""
        second = (Content.styled(speed.ljust(left_width), "$text-primary") + Content("  ")
                  + Content.styled(loss, "$text-accent"))
        return Content("\n").join([first, second])


def _fill(groups: list[list[tuple[str, str]]], width: int) -> Content:
    """As many groups as fit, padded to `width`."""
    line = Content("")
    for index, group in enumerate(groups):
        if index > 1 and group[1][0] == NA:
            continue
        text = Content("").join(Content.styled(part, style or ("$text-muted" if part is group[0][0] else ""))
                                for part, style in group)
        gap = Content("  ") if line.cell_length else Content("")
        if line.cell_length + gap.cell_length + text.cell_length > width:
            break
        line = line + gap + text
    return line + Content(" " * max(0, width - line.cell_length))
