"""A list to choose one from: the marked entry is the answer, Enter takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from wizard.questions.question import Choice


class ChoiceList(Widget, can_focus=True):
    """Choices one below the other. A mark, not only a colour, says which one is chosen; with `quiet` the mark is an
    arrow, for menus. An impossible choice can be marked, so that its reason can be read, but not taken.
    """

    DEFAULT_CSS = """
    ChoiceList { height: auto; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("home", "edge(0)", "first", show=False),
        Binding("end", "edge(-1)", "last", show=False),
        Binding("enter", "take", "take", show=False),
    ]
    COMPONENT_CLASSES = {"choice-list--chosen", "choice-list--label", "choice-list--detail", "choice-list--heading",
                         "choice-list--tag"}

    index: reactive[int] = reactive(0)
    #: A word behind the marked choice: where the answer comes from.
    tag: reactive[str] = reactive("")

    @dataclass
    class Moved(Message):
        """Another choice is marked."""

        choice: Choice

    @dataclass
    class Taken(Message):
        """Enter, or a click, on a choice."""

        choice: Choice

    def __init__(self, choices: Sequence[Choice] = (), chosen: Any = None, quiet: bool = False, id: str | None = None):
        super().__init__(id=id)
        self._quiet = quiet
        self.choices: list[Choice] = []
        self.headings: dict[int, str] = {}
        self._rows: list[int | None] = []
        self.show(choices, chosen)

    def show(self, choices: Sequence[Choice], chosen: Any = None, headings: dict[int, str] | None = None) -> None:
        """Show other choices; `headings` stand before the choice of their index. Tells nobody that a mark moved."""
        self.choices, self.headings = list(choices), headings or {}
        self.set_reactive(ChoiceList.index, next((i for i, c in enumerate(self.choices) if c.value == chosen), 0))
        self.refresh(layout=True)

    @property
    def chosen(self) -> Choice | None:
        return self.choices[self.index] if self.choices else None

    def get_content_height(self, container, viewport, width: int) -> int:
        return max(1, len(self._lines(width)))

    def render(self) -> Text:
        return Text("\n", no_wrap=True, overflow="ellipsis").join(self._lines(self.content_size.width or 80))

    def _lines(self, width: int) -> list[Text]:
        """One line a choice, and headings; where the details do not fit beside the labels they go below."""
        lines: list[Text] = []
        self._rows = []
        label_width = self._label_width(0)
        longest = max((cell_len(choice.impossible or choice.detail) for choice in self.choices), default=0)
        beside = self._quiet or 5 + label_width + 3 + longest + 14 <= width
        style = self.get_component_rich_style
        for index, choice in enumerate(self.choices):
            if index in self.headings:
                label_width = self._label_width(index)
                lines += [Text(""), Text(self.headings[index], style("choice-list--heading"))]
                self._rows += [None, None]
            marked = index == self.index
            mark = (" ▸ " if marked else "   ") if self._quiet else (" (•) " if marked else " ( ) ")
            look = style("choice-list--chosen") if marked else style("choice-list--label")
            detail = f"not here: {choice.impossible}" if choice.impossible else choice.detail
            gap = " " * (max(0, label_width - cell_len(choice.label)) + 3)
            line = Text(no_wrap=True, overflow="ellipsis").append(mark + choice.label, look)
            if choice.impossible:
                line.stylize("dim")
            if beside and detail:
                line.append(gap + detail, style("choice-list--detail"))
            if marked and self.tag:
                line.append(f"   {self.tag}", style("choice-list--tag"))
            lines.append(line)
            self._rows.append(index)
            if detail and not beside:
                lines.append(Text("     " + detail, style("choice-list--detail"), no_wrap=True, overflow="ellipsis"))
                self._rows.append(index)
        return lines

    def _label_width(self, first: int) -> int:
        """Cells for the labels from `first` to the next heading: long names leave less for the details beside them."""
        after = min((index for index in self.headings if index > first), default=len(self.choices))
        return min(max((cell_len(choice.label) for choice in self.choices[first:after]), default=0), 34)

    def watch_index(self) -> None:
        if self.chosen:
            self.post_message(self.Moved(self.chosen))
            row = self._rows.index(self.index) if self.index in self._rows else 0
            if self.is_mounted:  # keep the mark in view where the list is taller than its place
                self.call_after_refresh(self.scroll_visible_row, row)

    def scroll_visible_row(self, row: int) -> None:
        """Have the containers around scroll until `row` of this list is in view."""
        self.screen.scroll_to_widget(self, animate=False) if row == 0 else None
        parent = self.parent
        if isinstance(parent, Widget):
            region = Region(0, max(0, row - 1), 1, 3).translate(self.virtual_region.offset)
            parent.scroll_to_region(region, animate=False)

    def action_move(self, by: int) -> None:
        if self.choices:
            self.index = max(0, min(len(self.choices) - 1, self.index + by))

    def action_edge(self, index: int) -> None:
        if self.choices:
            self.index = index % len(self.choices)

    def action_take(self) -> None:
        if self.chosen:
            self.post_message(self.Taken(self.chosen))

    def on_click(self, event: events.Click) -> None:
        row = event.y
        if 0 <= row < len(self._rows) and self._rows[row] is not None:
            self.index = self._rows[row]
            if event.chain > 1 or self._quiet:
                self.action_take()
