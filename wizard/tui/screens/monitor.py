"""The live monitor of one run. It reads the run's folder and nothing else; the training never notices it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.css.query import NoMatches
from textual.message import Message
from textual.widgets import Rule, Static
from textual.worker import Worker, WorkerState

from engine.contract.run_dir import RunDir, Status
from wizard.monitor.reader import RunReader
from wizard.monitor.tail import LogTail
from wizard.monitor.view import MonitorView, build_view
from wizard.tui.keys import bindings
from wizard.tui.panels.chrome import KeyBar
from wizard.tui.screens.base import WizardScreen
from wizard.tui.widgets.choice_dialog import Choice, ChoiceDialog
from wizard.tui.widgets.curves import Curves
from wizard.tui.widgets.end_panel import EndPanel
from wizard.tui.widgets.log_pane import LAUNCHER, LogPane
from wizard.tui.widgets.numbers import Numbers
from wizard.tui.widgets.rank_table import RankTable
from wizard.tui.widgets.run_header import TONES, RunHeader
from wizard.tui.widgets.split_bar import SplitBar

REFRESH_S = 2.0
#: A look at the end before the screen closes by itself.
CLOSE_AFTER_S = 1.5


class MonitorScreen(WizardScreen):
    """Shows `run` until it is left; leaving never ends the training unless the person says so.

    Where another screen of the wizard lies beneath, leaving dismisses this one with the status seen last; else, and
    with `close_when_done`, the app ends.
    """

    CSS_PATH = "../monitor.tcss"
    BINDINGS = bindings("monitor")
    KEYS = "monitor"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]
    AUTO_FOCUS = ""

    @dataclass
    class Polled(Message):
        """A poll has ended: the view, and what is new in the log of `log_rank`."""

        view: MonitorView
        log_rank: int
        log_lines: list[str]
        caught_up: bool

    def __init__(self, run: RunDir, close_when_done: bool = False, refresh_s: float = REFRESH_S,
                 status_of: Callable[[RunDir], Status | None] | None = None):
        super().__init__()
        self.run = run
        self.view: MonitorView | None = None
        self._close_when_done, self._refresh_s = close_when_done, refresh_s
        self._reader = RunReader(run, status_of=status_of)
        self._log_rank, self._log_tail = 0, LogTail(run.log(0))
        self._poll_timer = self._close_timer = None
        self._polling = False
        self._leave_when_ended = False
        self._asked_to_stop = False
        self._note = ""

    def compose(self) -> ComposeResult:
        yield RunHeader(id="run-header")
        yield Rule(classes="line")
        yield EndPanel(id="end")
        yield Curves(id="curves")
        yield Numbers(id="numbers")
        yield SplitBar(id="split")
        yield Rule(classes="line", id="above-ranks")
        yield RankTable(id="ranks")
        yield Static("", id="more-ranks", markup=False)
        yield LogPane(id="log")
        yield Static("", id="activity", markup=False)
        yield KeyBar("monitor")

    def on_mount(self) -> None:
        self.add_class("-overview", "-no-log")
        self._poll()

    def _poll(self) -> None:
        """Start a poll, unless one is going on: the next is due only when it has ended."""
        if self._polling or not self.is_attached:
            return
        self._polling = True
        self.run_worker(self._read, thread=True, group="monitor-poll", exit_on_error=False, name="monitor-poll",
                        description=f"read {self.run.root}")

    def _read(self) -> None:
        """In a thread: read what is new and make the view of it."""
        tail, rank = self._log_tail, self._log_rank
        state = self._reader.poll()
        view = build_view(self.run, state, time.time(), self._reader.problems())
        self.post_message(self.Polled(view, rank, tail.poll(), self._reader.caught_up))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker.name == "monitor-poll" and event.state == WorkerState.ERROR:
            self._polling = False
            self._say(f"could not read the run: {event.worker.error}", "bad")
            self._later()
        elif event.worker.name == "monitor-stop" and event.state == WorkerState.ERROR:
            self._asked_to_stop = False
            self.notify(str(event.worker.error), title="not stopped", severity="error", markup=False, timeout=10)

    def _later(self) -> None:
        self._poll_timer = self.set_timer(self._refresh_s, self._poll)

    @on(Polled)
    def _polled(self, event: Polled) -> None:
        self._polling = False
        before, self.view = self.view, event.view
        self._draw(event.view, before)
        log = self.query_one(LogPane)
        log.add(event.log_rank, event.log_lines)
        if event.log_lines:  # from then on for good: what is on the screen must not jump about
            self.remove_class("-no-log")
        if not event.caught_up:
            self._poll()
        elif event.view.alive:
            self._later()
        else:
            if event.view.failed_rank is not None and (before is None or before.alive):
                log.choose(event.view.failed_rank)
            self._ended()

    def _draw(self, view: MonitorView, before: MonitorView | None) -> None:
        self.query_one(RunHeader).show(view)
        self.query_one(Numbers).show(view)
        if self.query_one(Curves).display:
            self.query_one(Curves).show(view)
        self.query_one(SplitBar).show(view)
        self.query_one(RankTable).show(view)
        self.query_one(LogPane).offer(view.ranks)
        self.query_one(EndPanel).show(view.end)
        self.set_class(view.end is not None, "-ended")
        more = self.query_one("#more-ranks", Static)
        more.display = bool(view.more_rows)
        if view.more_rows:
            more.update(f"and {view.more_rows:,} more ranks; the slowest are shown")
        words, tone = view.activity, view.tone
        if view.problems:
            words, tone = f"{view.problems[0]} · {words}", "warn" if tone != "bad" else tone
        if self._asked_to_stop and view.alive:
            words, tone = "stopping: a checkpoint is written at the next step; s again stops at once", "warn"
        attention = view.attention or bool(view.problems) or self._asked_to_stop and view.alive
        self._say(words, "warn" if attention and tone not in ("bad", "warn") else tone, attention)

    def _say(self, words: str, tone: str, attention: bool = True) -> None:
        note = f"{tone}{words}"
        if note != self._note:
            self._note = note
            line = Content.styled("finding  " if attention else "now  ", "$text-muted")
            self.query_one("#activity", Static).update(line + Content.styled(words, TONES[tone] if tone != "good" else ""))

    def _ended(self) -> None:
        if (self._close_when_done or self._leave_when_ended) and self._close_timer is None:
            self._close_timer = self.set_timer(CLOSE_AFTER_S if self._close_when_done else 0.5, self._leave)
        elif self._close_timer is None:
            self._later()  # someone may resume it from another terminal

    def _leave(self) -> None:
        status = self.view.status if self.view else None
        stack = self.app.screen_stack
        at = stack.index(self) if self in stack else 0
        if at and isinstance(stack[at - 1], WizardScreen) and not self._close_when_done:
            while self.app.screen is not self:  # a question about a run that has ended meanwhile
                self.app.pop_screen()
            self.dismiss(status)
        else:
            self.app.exit(return_code=0)

    def action_leave(self) -> None:
        """Leave at once when the run has ended; else ask, once, what becomes of it."""
        if self.view is None or not self.view.alive:
            self._leave()
            return
        choices = [
            Choice("k", "keep", "Keep training", "The run goes on by itself; `watch` shows it again."),
            Choice("s", "stop", "Stop with a checkpoint", "At the next step; the monitor closes when it is done."),
            Choice("esc", "stay", "Stay", "Back to the monitor."),
        ]
        self.app.push_screen(ChoiceDialog("The training is still running.", choices), self._leave_chosen)

    def _leave_chosen(self, choice: str | None) -> None:
        if choice == "keep":
            self._leave()
        elif choice == "stop":
            self._leave_when_ended = True
            self._stop(now=False)

    def action_stop(self) -> None:
        """Ask the run to stop: with a checkpoint, and when that was asked already, at once."""
        if self.view is None or not self.view.alive:
            self.notify("The run has ended.", markup=False)
            return
        if self._asked_to_stop or self.view.status is not None and self.view.status.state == "stopping":
            question = "The run is stopping and writes a checkpoint first."
            choices = [Choice("n", "now", "Stop now", "What was trained since the last checkpoint is lost.")]
        else:
            question = "Stop the training?"
            choices = [Choice("s", "stop", "Stop with a checkpoint", "At the next step; it can be resumed from there.")]
        choices.append(Choice("esc", "stay", "Go on training" if len(choices) and choices[0].name == "stop" else "Wait for it",
                              "Change nothing."))
        self.app.push_screen(ChoiceDialog(question, choices), self._stop_chosen)

    def _stop_chosen(self, choice: str | None) -> None:
        if choice in ("stop", "now"):
            self._stop(now=choice == "now")

    def _stop(self, now: bool) -> None:
        self._asked_to_stop = True

        def work() -> None:
            from wizard.launch.stop import stop_run

            stop_run(self.run, now=now, wait=False)

        self.run_worker(work, thread=True, group="monitor-stop", exit_on_error=False, name="monitor-stop",
                        description=f"stop {self.run.root}")
        self._say("stopping: a checkpoint is written at the next step" if not now else "stopping at once", "warn")

    def action_logs(self) -> None:
        """Logs large, or back."""
        if self._arrange("-logs"):
            self.query_one("#log-lines").focus()

    def action_charts(self) -> None:
        """Charts large, or back."""
        self._arrange("-charts")

    def _arrange(self, wanted: str) -> bool:
        """Switch to an arrangement (`-logs`, `-charts`), or back to `-overview`; whether it is shown now."""
        arrangement = "-overview" if self.has_class(wanted) else wanted
        for name in ("-overview", "-logs", "-charts"):
            self.set_class(name == arrangement, name)
        self.set_focus(None)
        self.call_after_refresh(self._show_curves)
        return arrangement == wanted

    def _show_curves(self) -> None:
        try:
            curves = self.query_one(Curves)
        except NoMatches:
            return
        if curves.display and self.view is not None:
            curves.show(self.view)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_curves)

    def action_follow(self) -> None:
        log = self.query_one(LogPane)
        log.set_follow(not log.follow)

    def action_other_log(self, by: int) -> None:
        self.query_one(LogPane).choose_next(by)

    @on(LogPane.Chosen)
    def _log_chosen(self, event: LogPane.Chosen) -> None:
        self._log_rank = event.rank
        self._log_tail = LogTail(self.run.launcher_log if event.rank == LAUNCHER else self.run.log(event.rank))
        if self._poll_timer is not None:
            self._poll_timer.stop()
        self._poll()
