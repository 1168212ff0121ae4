"""What a run that ended came to: its model, or why it failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

from wizard.monitor.view import End

_LABEL = 8
_LEAST_ROOM = 16


def hanging(line: str, width: int) -> list[str]:
    """A line wrapped to `width` cells; what follows its label (8 cells) starts below itself, not below the label."""
    room = width - _LABEL
    if room < _LEAST_ROOM:
        return [line]
    text = line[_LABEL:]
    indent = " " * min(len(text) - len(text.lstrip()), room - _LEAST_ROOM)
    rows, row = [], indent
    for piece in _pieces(text.strip(), room - len(indent)):
        if row.strip() and cell_len(row) + cell_len(piece.rstrip()) > room:
            rows.append(row.rstrip())
            row = indent
        row += piece
    rows.append(row.rstrip())
    return [line[:_LABEL] + rows[0], *(" " * _LABEL + row for row in rows[1:])]


def _pieces(text: str, room: int) -> Iterator[str]:
    """Words; those that fit on no line (paths mostly) in parts that end at a slash, or where they must."""
    for word in re.findall(r"\S+\s*", text):
        if cell_len(word.rstrip()) <= room:
            yield word
            continue
        for part in re.findall(r"[^/]*/|[^/]+", word):
            yield from chop_cells(part, room)


class EndLines(Static):
    """Lines with a label of 8 cells (or as much blank), wrapped to the room there is."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._lines: tuple[str, ...] = ()

    def show(self, lines: tuple[str, ...]) -> None:
        self._lines = lines
        self.refresh(layout=True)

    def _wrapped(self, width: int) -> list[str]:
        return [part for line in self._lines for part in hanging(line, width)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._wrapped(width))

    def render(self) -> Content:
        return Content("\n".join(self._wrapped(self.content_size.width)))


class EndPanel(VerticalScroll):
    """Hidden until the run has ended."""

    DEFAULT_CSS = """
    EndPanel { height: auto; max-height: 14; border: round $success; padding: 0 1; display: none;
        scrollbar-size-vertical: 1; }
    EndPanel.-shown { display: block; }
    EndPanel.-failed { border: round $error; }
    EndPanel > EndLines { width: 100%; height: auto; }
    """

    def __init__(self, id: str | None = None):
        super().__init__(id=id)
        self._end: End | None = None

    def compose(self) -> ComposeResult:
        yield EndLines()

    def show(self, end: End | None) -> None:
        if end == self._end:
            return
        self._end = end
        self.set_class(end is not None, "-shown")
        if end is not None:
            self.set_class(end.failed, "-failed")
            self.border_title = Content(end.title)
            self.query_one(EndLines).show(end.lines)
