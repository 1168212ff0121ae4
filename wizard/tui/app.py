"""The app: which screen comes after which, what runs in the background, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from wizard.errors import ExitCode, UsageError, WizardError
from wizard.tui import terminal
from wizard.tui.keys import SCREENS
from wizard.tui.messages import MachineRead
from wizard.tui.theme import CALM

if TYPE_CHECKING:
    from engine.contract.run_dir import RunDir
    from wizard.questions.flow import Flow


class WizardApp(App[int]):
    """The interactive session.

    `start` is where it begins: `welcome`, `new`, `review` (with `ref`, a preset), or a RunDir to watch.
    """

    TITLE = "autotrain-wizard"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    BINDINGS = [Binding("ctrl+q", "quit", "quit", show=False, priority=True),
                Binding("ctrl+c", "quit", "quit", show=False, priority=True)]

    def __init__(self, start: str | RunDir = "welcome", ref: str | Path | None = None,
                 overrides: Mapping[str, Any] | None = None, close_when_done: bool = False):
        # the first screen's style with the app's: read later, all of it would be parsed once more
        super().__init__(css_path=["app.tcss", "screens/welcome.tcss" if isinstance(start, str) else "monitor.tcss"])
        self.register_theme(CALM)
        # not assigned: that would parse all styles a second time, before the first frame
        self.set_reactive(WizardApp.theme, CALM.name)
        self.stylesheet.set_variables(self.get_css_variables())
        self._start, self._ref, self._overrides = start, ref, dict(overrides or {})
        self._close_when_done = close_when_done
        self.inventory: Any = None
        self.flow: Flow | None = None
        self.base = Path.cwd()
        self._waiting: tuple[str, Any] | None = None

    def get_default_screen(self) -> Screen:
        """The first screen is the bottom one: pushed over Textual's own, there would be two to lay out and to draw."""
        if not isinstance(self._start, str):
            from wizard.tui.screens.monitor import MonitorScreen

            return MonitorScreen(self._start, self._close_when_done)
        from wizard.tui.screens.welcome import WelcomeScreen

        return WelcomeScreen()

    def on_mount(self) -> None:
        terminal.leave_on_signals(self._leave)
        if not isinstance(self._start, str):
            return
        if self._start == "review":
            self.open_preset(self._ref)
        elif self._start == "new":
            self.new_training(self._ref)
        self.call_after_refresh(self._read_machine)

    def get_system_commands(self, screen: Screen) -> Iterable[SystemCommand]:
        """The command palette: the keys of the screen by name, and Textual's own choice of colours."""
        for key in SCREENS.get(getattr(screen, "KEYS", ""), ()):
            yield SystemCommand(f"{key.label[:1].upper()}{key.label[1:]}", f"{key.help}  ({key.name})",
                                partial(screen.run_action, key.action))
        yield SystemCommand("Colours", "Choose other colours", self.action_change_theme)

    def _leave(self, code: int) -> None:
        self.exit(return_code=code)

    # -- the machine ----------------------------------------------------------------------------------------------

    @work(thread=True, group="machine", exclusive=True, exit_on_error=False, description="look at this machine")
    def _read_machine(self) -> None:
        from wizard import session  # behind the first frame: presets and questions take longer to import than Textual

        self.post_message(MachineRead(session.read_machine()))

    @on(MachineRead)
    def _machine_read(self, event: MachineRead) -> None:
        from wizard.tui.screens.welcome import WelcomeScreen

        self.inventory = event.inventory
        for screen in self.screen_stack:
            if isinstance(screen, WelcomeScreen):
                screen.show_machine(event.inventory)
        if self._waiting:
            (kind, ref), self._waiting = self._waiting, None
            self._begin(kind, ref)

    # -- what the first screen offers -----------------------------------------------------------------------------

    def new_training(self, ref: str | Path | None = None) -> None:
        """The questions from the beginning, or from a preset's values."""
        self._begin("new", ref)

    def open_preset(self, ref: str | Path | None) -> None:
        """The review of a preset, from where it can be edited and launched."""
        self._begin("review", ref)

    def go_on(self) -> None:
        """Back to the questions that were left."""
        from wizard.tui.screens.questions import QuestionScreen

        if self.flow is not None:
            self.push_screen(QuestionScreen(self.flow, self.base))

    def _begin(self, kind: str, ref: str | Path | None) -> None:
        if self.inventory is None:
            self._waiting = (kind, ref)
            return
        from engine.contract.problems import PresetError
        from wizard import session
        from wizard.tui.screens.questions import QuestionScreen
        from wizard.tui.screens.review import ReviewScreen

        try:
            self.flow, self.base = session.new_flow(self.inventory, ref, self._overrides)
        except (WizardError, PresetError) as error:
            self.show_problem("This preset cannot be used", str(error))
            return
        if kind == "new":
            self.push_screen(QuestionScreen(self.flow, self.base))
        else:
            self.push_screen(ReviewScreen(self.flow, self.base, direct=True))

    def watch_run(self, run: RunDir) -> None:
        """The live monitor; over whatever is open, so that leaving it leads back there."""
        from wizard.tui.screens.monitor import MonitorScreen

        self.push_screen(MonitorScreen(run, self._close_when_done))

    def watch_started(self, run: RunDir) -> None:
        """The monitor of a training that was launched from here. Leaving it leads to the first screen, not to the
        review, where another Enter would launch a second one."""
        from wizard.tui.screens.welcome import WelcomeScreen

        while len(self.screen_stack) > 1 and not isinstance(self.screen, WelcomeScreen):
            self.pop_screen()
        self.watch_run(run)

    # -- errors ---------------------------------------------------------------------------------------------------

    def show_problem(self, title: str, message: str) -> None:
        from wizard.tui.screens.problem import ProblemScreen

        self.push_screen(ProblemScreen(title, message))

    @on(Worker.StateChanged)
    def worker_changed(self, event: Worker.StateChanged) -> None:
        """The one place where the error of a background task is shown; the monitor has its own, since it polls."""
        if event.worker.group.startswith("monitor"):
            return
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            what = event.worker.description or event.worker.name
            kind = "" if isinstance(error, WizardError) else f"{type(error).__name__}: "
            self.show_problem(f"Could not {what}", f"{kind}{error}")


def run_app(start: str = "welcome", ref: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> int:
    """Open the interactive session and return its exit code. Raises UsageError where a full screen cannot work."""
    return _run(WizardApp(start, ref, overrides))


def run_monitor(run: RunDir, close_when_done: bool = False) -> int:
    """Open the monitor of one run. Raises UsageError where a full screen cannot work.

    Returns 0 when it was left by a person or closed by itself, 128 + n after a signal; how the training ended is for
    the caller to read from the run's status.
    """
    return _run(WizardApp(run, close_when_done=close_when_done))


def _run(app: WizardApp) -> int:
    reason = terminal.why_no_screen()
    if reason:
        raise UsageError(f"a full screen cannot work here: {reason}",
                         "use a terminal, or `new --prompts`, or `new --defaults -o FILE` and `run FILE`")
    app.run()
    if app.return_code == ExitCode.INTERNAL and app._exception is not None:
        print("autotrain-wizard: the screen ended by a fault of its own; a training that runs goes on", file=sys.stderr)
    return int(app.return_code or 0)
