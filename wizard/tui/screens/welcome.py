"""The first screen: something new, a preset, or a run to watch."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from wizard import formatting
from wizard.questions import wording
from wizard.questions.question import Choice
from wizard.tui.keys import bindings
from wizard.tui.messages import ShelfRead
from wizard.tui.panels.choice_list import ChoiceList
from wizard.tui.panels.chrome import KeyBar
from wizard.tui.screens.base import WizardScreen

_NEW = Choice(("new", None), "New training", "a few questions; Enter takes the advice")
_PROMISE = "From these machines and this model to the fastest correct fine-tune."


class WelcomeScreen(WizardScreen):
    """Drawn at once; presets, runs and the machine appear as they are read."""

    CSS_PATH = "welcome.tcss"
    BINDINGS = bindings("welcome")
    KEYS = "welcome"

    def compose(self) -> ComposeResult:
        yield Static("autotrain-wizard", id="title", markup=False)
        yield Static(_PROMISE, id="promise", markup=False)
        with VerticalScroll(id="menu", can_focus=False):
            yield ChoiceList([_NEW], quiet=True)
        yield Static("Looking at this machine ...", id="machine", markup=False)
        yield KeyBar("welcome")

    def on_mount(self) -> None:
        self.query_one(ChoiceList).focus()

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self._read_shelf)

    def show_machine(self, inventory: Any) -> None:
        self.query_one("#machine", Static).update(f"This machine   {wording.machine(inventory)}")

    @work(thread=True, group="shelf", exclusive=True, exit_on_error=False, description="list presets and runs")
    def _read_shelf(self) -> None:
        from wizard import session  # behind the first frame, which shall not wait for it

        self.post_message(ShelfRead(session.presets(), session.recent_runs()))

    @on(ShelfRead)
    def _show_shelf(self, event: ShelfRead) -> None:
        menu = self.query_one(ChoiceList)
        marked = menu.chosen.value if menu.chosen else None
        choices, headings = [_NEW], {}
        if self.app.flow is not None:
            choices.append(Choice(("go on", None), "Go on with the questions", "your answers are still here"))
        if event.runs:
            headings[len(choices)] = "  Runs"
            choices += [Choice(("run", str(run.run.root)), run.name, _run_words(run)) for run in event.runs]
        if event.presets:
            headings[len(choices)] = "  Presets"
            choices += [Choice(("preset", preset.path), preset.name, preset.about) for preset in event.presets]
        menu.show(choices, marked, headings)

    @on(ChoiceList.Taken)
    def _taken(self, event: ChoiceList.Taken) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        choice = self.query_one(ChoiceList).chosen
        kind, what = choice.value
        if kind == "new":
            self.app.new_training()
        elif kind == "go on":
            self.app.go_on()
        elif kind == "preset":
            self.app.open_preset(what)
        else:
            from engine.contract.run_dir import RunDir

            self.app.watch_run(RunDir(what))

    def action_new(self) -> None:
        self.app.new_training()

    def action_refresh(self) -> None:
        self._read_shelf()

    def action_back(self) -> None:
        with contextlib.suppress(Exception):
            self.app.exit(return_code=0)


def _run_words(run: Any) -> str:
    ago = formatting.duration(max(0.0, time.time() - run.started_unix_s)) if run.started_unix_s else ""
    return f"{run.state or 'no status'}{f', started {ago} ago' if ago else ''}"
