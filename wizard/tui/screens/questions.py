"""The questions, one at a time, with the advice that follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Input, Static

from wizard import session
from wizard.errors import WizardError
from wizard.questions.flow import Flow
from wizard.questions.question import Invalid
from wizard.tui.keys import bindings
from wizard.tui.messages import FactsRead
from wizard.tui.panels.advice import AdviceLines, AdvicePanel
from wizard.tui.panels.answer import AnswerField
from wizard.tui.panels.chrome import KeyBar, SectionBar
from wizard.tui.screens.base import WizardScreen

#: Seconds without a key before a path that is being typed is looked at.
_PAUSE_S = 0.4


class QuestionScreen(WizardScreen):
    """Asks what `flow` asks. Knows how to show a question, not what any of them is about."""

    CSS_PATH = "questions.tcss"
    BINDINGS = bindings("questions")
    KEYS = "questions"

    def __init__(self, flow: Flow, base: Path):
        super().__init__()
        self.flow, self.base = flow, base
        self._failed: dict[str, tuple[Any, str]] = {}
        self._reading = False
        self._going_on = False
        self._pause = None

    def compose(self) -> ComposeResult:
        yield SectionBar()
        with Horizontal(id="middle"):
            with VerticalScroll(id="question", can_focus=False):
                with Horizontal(id="heading"):
                    yield Static("", id="title", markup=False)
                    yield Static("", id="count", markup=False)
                yield AnswerField()
                yield Static("", id="note", markup=False)
                yield Static("", id="problem", markup=False)
                yield Static("", id="help", markup=False)
            yield AdvicePanel(id="panel")
        yield AdviceLines(id="lines")
        yield KeyBar("questions")

    def on_mount(self) -> None:
        self.show_question()
        self._read_facts()

    def on_screen_resume(self) -> None:
        self.show_question()

    # -- showing --------------------------------------------------------------------------------------------------

    def show_question(self) -> None:
        """Show the question the flow is at, from the beginning."""
        flow, question = self.flow, self.flow.question
        self.query_one(SectionBar).current = question.section
        self.query_one("#title", Static).update(question.title)
        self.query_one("#help", Static).update(question.help)
        self.query_one(AnswerField).ask(question, flow.answer(question.key), flow.seen_from(question.key),
                                        flow.drafts.get(question.key))
        self.query_one("#question", VerticalScroll).scroll_home(animate=False)
        self._show_problem("")
        self._show_consequences()

    def _show_consequences(self) -> None:
        """Everything that follows from the answer: notes, origin, advice."""
        flow = self.flow
        question = flow.question
        if question.key not in flow.current:
            return self.show_question()
        answer = flow.answer(question.key)
        field = self.query_one(AnswerField)
        field.show_origin(answer, draft=question.key in flow.drafts)
        field.follow(answer, flow.seen_from(question.key))
        context = flow.context  # with all answers, so that a note can speak of this one's consequences
        notes = [question.note(context)]
        if answer.note and answer.origin != "yours":
            notes.append(answer.note[:1].upper() + answer.note[1:] + ("" if answer.note.endswith(".") else "."))
        if question.reads in flow.stale() and self._reading:
            notes = ["Looking at it ..."]
        note = self.query_one("#note", Static)
        note.update("\n".join(note for note in notes if note))
        note.display = any(notes)
        self.query_one("#count", Static).update("question {} of {}".format(*flow.position))
        self.query_one(AdviceLines).show(flow.recommendation)
        self.query_one(AdvicePanel).show(flow.recommendation)

    def _show_problem(self, message: str) -> None:
        problem = self.query_one("#problem", Static)
        problem.update(message)
        problem.display = bool(message)
        if message:
            problem.scroll_visible(animate=False)

    # -- answering ------------------------------------------------------------------------------------------------

    @on(AnswerField.Edited)
    def _edited(self, event: AnswerField.Edited) -> None:
        """A key was typed or a mark moved: the advice changes at once, complaints wait for Enter."""
        if event.key != self.flow.at:
            return
        self._show_problem("")
        self._take(event.value, event.text, complain=False)
        self._show_consequences()
        if self.flow.question.reads:
            if self._pause:
                self._pause.stop()
            self._pause = self.set_timer(_PAUSE_S, self._read_facts)

    def _take(self, value: Any, text: str | None, complain: bool) -> bool:
        flow, key = self.flow, self.flow.at
        try:
            if text is None:
                flow.choose(key, value)
            else:
                flow.set(key, session.typed(flow.question, flow.check(key, text), self.base))
        except Invalid as error:
            if text is not None:
                flow.drafts[key] = text
            if complain or text is None:
                self._show_problem(str(error))
            return False
        return True

    @on(AnswerField.Entered)
    def action_submit(self) -> None:
        field = self.query_one(AnswerField)
        if not self._take(field.value, field.text, complain=True):
            return
        reads = self.flow.question.reads
        failed = self._failed.get(reads) if reads else None
        if reads and (reads in self.flow.stale() or (failed and failed[0] == self.flow.source(reads))):
            if failed:  # what was missing may be there by now
                self._failed.pop(reads, None)
                self.flow.forget(reads)
            self._going_on = True
            self._read_facts()
            self._show_consequences()
            return
        self._go_on()

    def _go_on(self) -> None:
        self._going_on = False
        if self.flow.next():
            self.show_question()
        else:
            self.action_review()

    def action_back(self) -> None:
        self._going_on = False
        if self.flow.back():
            self.show_question()
        else:
            self.app.pop_screen()

    def action_default(self) -> None:
        """Take back what was typed."""
        self.flow.clear(self.flow.at)
        self.show_question()

    # -- facts ----------------------------------------------------------------------------------------------------

    def _read_facts(self) -> None:
        """Look at model and data where that is needed; one look at a time."""
        if self._reading:
            return
        stale = self.flow.stale()
        if stale:
            self._reading = True
            self._look(stale[0], self.flow.source(stale[0]))

    @work(thread=True, group="facts", exclusive=True, exit_on_error=False, description="look at model and data")
    def _look(self, kind: str, source: Any) -> None:
        try:
            self.post_message(FactsRead(kind, source, session.look_at(kind, source, self.base)))
        except WizardError as error:
            self.post_message(FactsRead(kind, source, None, problem=str(error)))
        except BaseException:
            self.post_message(FactsRead(kind, source, None, problem="It could not be read."))
            raise

    @on(FactsRead)
    def _learned(self, event: FactsRead) -> None:
        self._reading = False
        self.flow.learn(event.kind, event.source, event.facts)
        if event.problem:
            self._failed[event.kind] = (event.source, event.problem)
        else:
            self._failed.pop(event.kind, None)
        current = event.source == self.flow.source(event.kind)
        self._show_consequences()
        self._read_facts()
        if current and self.flow.question.reads == event.kind:
            if event.problem and (self._going_on or self.query_one(AnswerField).edited):
                self._show_problem(event.problem)
                self._going_on = False
            elif self._going_on:
                self._go_on()

    # -- other screens --------------------------------------------------------------------------------------------

    def action_advice(self) -> None:
        from wizard.tui.screens.advice import AdviceScreen

        self.app.push_screen(AdviceScreen(self.flow.recommendation))

    def action_review(self) -> None:
        from wizard.tui.screens.review import ReviewScreen

        self.app.push_screen(ReviewScreen(self.flow, self.base))

    def action_browse(self) -> None:
        if self.flow.question.kind != "path":
            return
        from wizard.tui.screens.browse import BrowseScreen

        self.app.push_screen(BrowseScreen(session.near(self.query_one(AnswerField).text or "", self.base)), self._browsed)

    def _browsed(self, path: str | None) -> None:
        if path:
            self.query_one(AnswerField).type(path)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "browse":
            return self.flow.question.kind == "path"
        if action in ("advice", "help") and isinstance(self.focused, Input):
            return True  # a letter that is typed never gets here: the input takes it first
        return True
