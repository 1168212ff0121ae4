"""A row per rank; only cells that changed are touched."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import DataTable

from wizard.monitor.view import MonitorView, RankRow

#: Cells of a column; what is longer is cut with an ellipsis.
WIDTHS = {"rank": 4, "host": 10, "doing": 17, "step": 7, "step ms": 7, "waits": 5, "gpu": 5, "cpu": 6, "memory": 8,
          "power": 5, "temp": 4}
_MOST_WORDS = 26
_LEFT = {"host", "doing"}
#: Left out first where the terminal is too narrow for all.
_SPARED = ("step", "power", "step ms", "temp", "memory")


def fitting(columns: tuple[str, ...], width: int, doing: int = WIDTHS["doing"]) -> tuple[str, ...]:
    """The columns that fit into `width` cells, the least wanted left out."""
    kept = list(columns)
    wider = doing - WIDTHS["doing"]
    for name in _SPARED:
        if sum(WIDTHS[column] + 2 for column in kept) + wider <= width:
            break
        if name in kept:
            kept.remove(name)
    return tuple(kept)


class RankTable(DataTable):
    """What each rank does, how long its steps take, how much of it waits, and what its device says."""

    DEFAULT_CSS = """
    RankTable { height: auto; max-height: 10; background: transparent; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """

    def __init__(self, id: str | None = None):
        super().__init__(id=id, cursor_type="none", zebra_stripes=False, show_row_labels=False)
        self._shown: dict[int, RankRow] = {}
        self._columns_shown: tuple[str, ...] = ()
        self._doing = WIDTHS["doing"]

    def show(self, view: MonitorView) -> None:
        names = tuple(row.rank for row in view.rows)
        scrolls = len(names) >= self.size.height > 0
        # how ranks ended takes more words than what they do, and changes no more
        longest = max((len(row.cells["doing"]) for row in view.rows), default=0) if view.end is not None else 0
        doing = max(WIDTHS["doing"], min(_MOST_WORDS, longest))
        columns = fitting(view.columns, (self.size.width or 80) - scrolls, doing)
        if columns != self._columns_shown or names != tuple(self._shown) or doing != self._doing:
            self._doing = doing
            self._rebuild(view, columns)
            return
        for row in view.rows:
            before = self._shown[row.rank]
            if row == before:
                continue
            for name in columns:
                text = row.cells[name]
                if row.marked != before.marked or before.cells.get(name) != text:
                    self.update_cell(str(row.rank), name, self._cell(name, text, row.marked))
            self._shown[row.rank] = row

    def _rebuild(self, view: MonitorView, columns: tuple[str, ...]) -> None:
        self.clear(columns=True)
        for name in columns:
            width = self._width(name)
            label = Text(name, justify="left" if name in _LEFT else "right")
            self.add_column(label, width=width, key=name)
        for row in view.rows:
            self.add_row(*(self._cell(name, row.cells[name], row.marked) for name in columns), key=str(row.rank))
        self._columns_shown = columns
        self._shown = {row.rank: row for row in view.rows}

    def _width(self, name: str) -> int:
        return self._doing if name == "doing" else WIDTHS[name]

    def _cell(self, name: str, text: str, marked: bool) -> Text:
        width = self._width(name)
        text = text if len(text) <= width else text[: width - 1] + "…"
        style = "bold" if marked and name in ("rank", "doing") else ""
        return Text(text, style=style, justify="left" if name in _LEFT else "right", no_wrap=True)
