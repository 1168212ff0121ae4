"""The last look: the preset, the exact command, what speaks against it; then save, change or launch."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static

from wizard import session
from wizard.errors import WizardError
from wizard.questions.flow import Flow
from wizard.tui.keys import bindings
from wizard.tui.messages import LaunchRefused, PlanMade, RunStarted
from wizard.tui.panels.advice import AdviceLines, AdvicePanel
from wizard.tui.panels.chrome import KeyBar, SectionBar
from wizard.tui.panels.preset_view import LEGEND, PresetView, said
from wizard.tui.screens.base import WizardScreen


class ReviewScreen(WizardScreen):
    """Shows what `flow` came to. Everything that is checked here is what a launch checks."""

    CSS_PATH = "review.tcss"
    BINDINGS = bindings("review")
    KEYS = "review"

    def __init__(self, flow: Flow, base: Path, direct: bool = False):
        super().__init__()
        self.flow, self.base = flow, base
        self._direct = direct
        self.plan: session.Plan | None = None
        self.saved: Path | None = None
        self._starting = False

    def compose(self) -> ComposeResult:
        yield SectionBar("Review")
        yield Static("", id="name", markup=False)
        with Horizontal(id="middle"):
            with VerticalScroll(id="page"):
                yield PresetView(id="preset")
                yield Static(LEGEND, id="legend", markup=False)
                yield Static("", id="exact", markup=False)
            yield AdvicePanel(id="panel")
        yield Static("", id="problems", markup=False)
        yield Static("", id="command", markup=False)
        yield AdviceLines(id="lines")
        yield KeyBar("review")

    def on_mount(self) -> None:
        self.query_one("#page").focus()

    def on_screen_resume(self) -> None:
        self.plan, self._starting = None, False
        self._show_advice()
        self._show_name()
        self.query_one(PresetView).show(self.flow.preset_text(), self.flow.origins(), [])
        self.query_one("#problems", Static).update("Checking model, data, disk and machine ...")
        self.query_one("#problems").remove_class("bad")
        self.query_one("#command", Static).update("")
        self.query_one("#exact", Static).update("")
        self._make_plan()

    # -- checking -------------------------------------------------------------------------------------------------

    @work(thread=True, group="plan", exclusive=True, exit_on_error=False, description="check what a launch would check")
    def _make_plan(self) -> None:
        session.refresh(self.flow, self.base, self.app.call_from_thread)
        self.post_message(PlanMade(session.plan(self.flow, self.base)))

    @on(PlanMade)
    def _planned(self, event: PlanMade) -> None:
        self.plan = plan = event.plan
        self._show_advice()
        self.query_one(PresetView).show(plan.text, self.flow.origins(), plan.problems)
        box = self.query_one("#problems", Static)
        box.set_class(bool(plan.problems), "bad")
        if plan.problems:
            number = len(plan.problems)
            lines = [f"✗ {number} problem{'s' if number > 1 else ''}: it cannot be launched like this. e goes to the question."]
            lines += [f"  {problem.key}: {said(problem)}" for problem in plan.problems if problem.line is None]
            box.update("\n".join(lines))
        else:
            lines = ["✓ Checked: model, data, columns, disk, machine. Ready to launch."]
            lines += [f"! {remark}" for remark in plan.remarks[:2]]
            box.update("\n".join(lines))
        if plan.command:
            self.query_one("#command", Static).update(Text("Will run  ", "bold").append(session.short_command(plan.command), "not bold"))
            self.query_one("#exact", Static).update(Text("The exact command\n", "bold").append(plan.command, "not bold"))

    def _show_advice(self) -> None:
        self.query_one(AdviceLines).show(self.flow.recommendation)
        self.query_one(AdvicePanel).show(self.flow.recommendation)

    def _show_name(self) -> None:
        where = f"saved in {self.saved}" if self.saved else "not saved"
        self.query_one("#name", Static).update(f"Preset  {self.flow.answer('name').value}.yaml   {where}")

    # -- doing ----------------------------------------------------------------------------------------------------

    def action_launch(self) -> None:
        if self._starting or self.plan is None:
            self.notify("Still checking; a moment.", markup=False)
            return
        if self.plan.problems:
            self.notify("There are problems to mend first; e goes to the question.", severity="warning", markup=False)
            return
        self._starting = True
        self.query_one("#problems", Static).update("Starting the training ...")
        self._launch(self.plan.prepared)

    @work(thread=True, group="launch", exclusive=True, exit_on_error=False, description="start the training")
    def _launch(self, prepared: object) -> None:
        try:
            self.post_message(RunStarted(session.start(prepared)))
        except WizardError as error:
            self.post_message(LaunchRefused(str(error)))

    @on(LaunchRefused)
    def _refused(self, event: LaunchRefused) -> None:
        from wizard.tui.screens.problem import ProblemScreen

        self._starting = False
        self.app.push_screen(ProblemScreen("The training did not start", event.problem))

    @on(RunStarted)
    def _started(self, event: RunStarted) -> None:
        self._starting = False
        self.app.watch_started(event.run)

    def action_save(self) -> None:
        from wizard.paths import user_presets
        from wizard.tui.screens.save import SaveScreen

        proposal = self.saved or user_presets() / f"{self.flow.answer('name').value}.yaml"
        self.app.push_screen(SaveScreen(proposal), self._save)

    def _save(self, chosen: tuple[Path, bool] | None) -> None:
        if chosen is None:
            return
        from engine.contract.problems import PresetError

        try:
            self.saved = session.save(self.flow, self.base, *chosen)
        except (WizardError, PresetError) as error:
            from wizard.tui.screens.problem import ProblemScreen

            self.app.push_screen(ProblemScreen("The preset was not saved", str(error)))
            return
        self.notify(f"Saved: {self.saved}", markup=False)
        self._show_name()

    def action_edit(self) -> None:
        """To the question a problem belongs to, or to the first."""
        keys = [problem.key for problem in self.plan.problems] if self.plan else []
        question = next((found.key for key in keys if (found := self.flow.deciding(key))), None)
        self.flow.go_to(question or self.flow.asked[0].key)
        self._to_questions()

    def action_back(self) -> None:
        if self._direct:
            self.app.pop_screen()
        else:
            self._to_questions()

    def _to_questions(self) -> None:
        from wizard.tui.screens.questions import QuestionScreen

        if self._direct:
            self.app.switch_screen(QuestionScreen(self.flow, self.base))
        else:
            self.app.pop_screen()

    def action_advice(self) -> None:
        from wizard.tui.screens.advice import AdviceScreen

        self.app.push_screen(AdviceScreen(self.flow.recommendation))

    def action_dry_run(self) -> None:
        from wizard.tui.screens.dry_run import DryRunScreen

        if self.plan is not None and self.plan.prepared is not None:
            self.app.push_screen(DryRunScreen(self.plan))
        else:
            self.notify("Nothing to show yet: it is being checked, or has problems.", markup=False)
