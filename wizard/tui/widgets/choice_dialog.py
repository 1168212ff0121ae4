"""A question with a few answers, each with its own key."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option


@dataclass(frozen=True)
class Choice:
    """An answer: the letter that chooses it, what it says, what it means."""

    key: str
    name: str
    label: str
    means: str


class ChoiceDialog(ModalScreen[str | None]):
    """Dismissed with the name of the choice, or None when the person wants to stay."""

    DEFAULT_CSS = """
    ChoiceDialog { align: center middle; }
    ChoiceDialog > Vertical { width: 66; max-width: 100%; height: auto; border: round $primary; background: $surface;
        padding: 1 2; }
    ChoiceDialog Label { width: 100%; margin-bottom: 1; }
    ChoiceDialog OptionList { height: auto; border: none; padding: 0; background: transparent; }
    ChoiceDialog OptionList:focus { border: none; }
    """
    BINDINGS = [Binding("escape", "stay", "stay", tooltip="Change nothing", id="choice.stay")]

    def __init__(self, question: str, choices: list[Choice]):
        super().__init__()
        self._question, self._choices = question, choices

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(self._question, markup=False)
            yield OptionList(*(Option(Content.styled(f"{choice.key}  {choice.label}", "bold")
                                      + Content(f"\n   {choice.means}"), id=choice.name) for choice in self._choices))

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def on_key(self, event: events.Key) -> None:
        for choice in self._choices:
            if event.key in (choice.key, choice.key.replace("esc", "escape")):
                event.stop()
                self.dismiss(choice.name)
                return

    def action_stay(self) -> None:
        self.dismiss(None)
