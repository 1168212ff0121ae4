"""Where a question is answered: a line to type on, or a list to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Static

from wizard.questions.context import Context
from wizard.questions.question import Answer, Choice, Question
from wizard.tui.panels.choice_list import ChoiceList

_YES_NO = [Choice(True, "Yes"), Choice(False, "No")]
_ORIGINS = {"yours": "yours", "detected": "detected", "recommended": "recommended", "default": "default",
            "preset": "from the preset"}


class AnswerField(Vertical):
    """Shows either its line or its list, according to the question's kind."""

    DEFAULT_CSS = """
    AnswerField { height: auto; }
    AnswerField #line { height: 1; }
    AnswerField #prompt { width: 3; color: $primary; }
    AnswerField Input { width: 1fr; max-width: 64; background: $panel; padding: 0 1; }
    AnswerField #browse { width: auto; color: $foreground 60%; margin-left: 1; }
    AnswerField #origin { width: auto; color: $secondary; margin-left: 2; }
    """

    @dataclass
    class Edited(Message):
        """Another answer is shown than before. `text` is None for a choice."""

        key: str
        value: Any
        text: str | None

    @dataclass
    class Entered(Message):
        """Enter was pressed on the answer."""

    def __init__(self):
        super().__init__()
        self._key = ""
        self._typing = True
        self._shown = ""
        self._question: Question | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="line"):
            yield Static(" >", id="prompt", markup=False)
            yield Input(compact=True, select_on_focus=False)
            yield Static("[browse F3]", id="browse", markup=False)
            yield Static("", id="origin", markup=False)
        yield ChoiceList()

    @property
    def text(self) -> str | None:
        """What stands on the line; None for a choice."""
        return self.query_one(Input).value if self._typing else None

    @property
    def value(self) -> Any:
        """The value of the marked choice; None on a line."""
        chosen = self.query_one(ChoiceList).chosen
        return None if self._typing or chosen is None else chosen.value

    @property
    def edited(self) -> bool:
        """Something else stands on the line than was put there."""
        return self._typing and self.query_one(Input).value != self._shown

    def ask(self, question: Question, answer: Answer, context: Context, draft: str | None = None) -> None:
        """Show `question` with the answer that holds, or with the text that was left on the line."""
        self._key, self._question = question.key, question
        self._typing = question.kind in ("text", "path", "number")
        self.query_one("#line").display = self._typing
        self.query_one(ChoiceList).display = not self._typing
        if self._typing:
            self.query_one("#browse").display = question.kind == "path"
            line = self.query_one(Input)
            line.placeholder = question.placeholder
            self._shown = question.text(answer.value)
            self._put(self._shown if draft is None else draft)
            line.cursor_position = len(line.value)
            line.focus()
        else:
            choices = _YES_NO if question.kind == "yes/no" else question.choices(context)
            self.query_one(ChoiceList).show(choices, answer.value)
            self.query_one(ChoiceList).focus()

    def follow(self, answer: Answer, context: Context) -> None:
        """The default changed with what it rests on: show the new one, unless the person is typing their own."""
        if self._question is None or answer.origin == "yours" or self.query_one(Input).value != self._shown:
            return
        if self._typing:
            self._shown = self._question.text(answer.value)
            self._put(self._shown)

    def show_origin(self, answer: Answer, draft: bool = False) -> None:
        """Say where the value comes from; nothing while what stands there is no value yet."""
        word = _ORIGINS[answer.origin] if answer.value is not None and not draft else ""
        self.query_one("#origin", Static).update(word)
        self.query_one(ChoiceList).tag = word

    def type(self, text: str) -> None:
        """Put `text` on the line as if it had been typed."""
        line = self.query_one(Input)
        line.value = text
        line.cursor_position = len(text)
        line.focus()

    def _put(self, text: str) -> None:
        line = self.query_one(Input)
        if line.value != text:
            with line.prevent(Input.Changed):
                line.value = text
            line.cursor_position = len(text)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._typing:
            self.post_message(self.Edited(self._key, None, event.value))

    @on(ChoiceList.Moved)
    def _moved(self, event: ChoiceList.Moved) -> None:
        event.stop()
        self.post_message(self.Edited(self._key, event.choice.value, None))

    @on(Input.Submitted)
    @on(ChoiceList.Taken)
    def _entered(self, event: Message) -> None:
        event.stop()
        self.post_message(self.Entered())
