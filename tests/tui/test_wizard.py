"""The way through the screens, with keys."""

from __future__ import annotations

import pytest

from engine.contract.load import load_preset
from engine.contract.run_dir import RunDir
from tests.tui.conftest import SIZES
from tests.unit.questions.machines import gpu_machine
from wizard import session
from wizard.errors import PreflightError
from wizard.paths import shipped_presets, user_presets
from wizard.tui.screens.problem import ProblemScreen
from wizard.tui.screens.questions import QuestionScreen
from wizard.tui.screens.review import ReviewScreen
from wizard.tui.screens.welcome import WelcomeScreen


def title(driver) -> str:
    return driver.app.flow.question.title


async def to(driver, key: str) -> None:
    """Enter until the question `key` is on the screen."""
    for _ in range(20):
        if driver.app.flow.question.key == key:
            return
        await driver.press("enter")
    raise AssertionError(f"never asked: {key}")


@pytest.fixture
def launched(monkeypatch):
    """Record what would be started."""
    started: list = []

    def start(prepared):
        started.append(prepared)
        return RunDir("nowhere")

    monkeypatch.setattr(session, "start", start)
    monkeypatch.setattr("wizard.tui.app.WizardApp.watch_run", lambda self, run: started.append(run))
    return started


@pytest.mark.parametrize("size", SIZES)
async def test_enter_through_the_defaults_reaches_the_launch_of_the_quickstart(drive, launched, size):
    async with drive(size) as driver:
        assert isinstance(driver.app.screen, WelcomeScreen)
        await driver.press("enter")
        for number in range(1, 13):
            assert f"question {number} of 12" in driver.screen()
            await driver.press("enter")
        assert isinstance(driver.app.screen, ReviewScreen)
        assert "Ready to launch" in driver.screen()
        await driver.press("enter")
        assert len(launched) == 2
        assert launched[0].preset == load_preset(shipped_presets() / "quickstart.yaml")
        assert (launched[0].resolved.distributed.backend, launched[0].resolved.distributed.num_processes_per_node) == ("gloo", 2)
        assert isinstance(driver.app.screen, WelcomeScreen), "a second Enter must not launch a second training"


async def test_every_question_fits_at_80x24(drive, machine, tmp_path):
    machine(gpu_machine(4))
    async with drive((80, 24)) as driver:
        await driver.press("enter")
        for _ in range(14):
            question = driver.app.flow.question
            shown = " ".join(driver.screen().split())
            assert question.title in shown
            assert question.help.split(". ")[-1] in shown, question.key
            assert driver.app.flow.recommendation.summary()[0] in shown
            assert driver.app.screen.query_one("#question").max_scroll_y == 0, question.key
            await driver.press("enter")


async def test_the_panel_is_beside_the_question_only_where_there_is_room(drive):
    for size, shown in (((80, 24), False), ((99, 30), False), ((100, 30), True), ((120, 40), True)):
        async with drive(size) as driver:
            await driver.press("enter")
            assert driver.app.screen.query_one("#panel").display is shown


async def test_going_back_keeps_answers_even_half_typed_ones(drive):
    async with drive() as driver:
        await driver.press("enter")
        await to(driver, "training.length")
        await driver.type("50 steps")
        await driver.press("enter")
        await driver.type("15")
        await driver.press("escape", "escape", "escape")
        await to(driver, "training.length")
        assert "50 steps" in driver.screen() and "yours" in driver.screen()
        await driver.press("enter")
        assert "> 15" in driver.screen()
        await driver.press("enter")
        assert "14 or 16 can" in " ".join(driver.screen().split())


async def test_what_cannot_be_meant_is_said_and_the_question_stays(drive):
    async with drive() as driver:
        await driver.press("enter")
        await to(driver, "training.learning_rate")
        await driver.type("fast")
        assert "not a number" not in driver.screen(), "nobody complains while one types"
        await driver.press("enter")
        assert "not a number" in driver.screen()
        assert driver.app.flow.question.key == "training.learning_rate"
        await driver.type("1e-3")
        assert "not a number" not in driver.screen()
        await driver.press("enter")
        assert driver.app.flow.question.key != "training.learning_rate"
        assert driver.app.flow.preset_data()["training"]["learning_rate"] == 1e-3


async def test_the_advice_changes_as_one_types(drive):
    async with drive() as driver:
        await driver.press("enter")
        before = driver.screen()
        assert "2 CPU processes" in before
        await driver.type("1")
        assert "one process on the CPU" in driver.screen()
        await driver.press("f4")
        assert "2 CPU processes" in driver.screen()


async def test_data_that_is_not_there_stays_and_says_so_until_it_is(drive):
    from pathlib import Path

    async with drive() as driver:
        await driver.press("enter")
        await to(driver, "data.train")
        await driver.type("./texts.jsonl")
        await driver.press("enter")
        assert "does not exist" in driver.screen()
        assert driver.app.flow.question.key == "data.train"
        Path("texts.jsonl").write_text('{"text": "one row of words"}\n' * 40)
        await driver.press("enter")
        assert driver.app.flow.question.key == "data.valid"
        await driver.press("escape")
        assert "40 rows" in driver.screen()


async def test_a_column_is_asked_for_only_where_it_was_not_found(drive):
    from pathlib import Path

    Path("odd.jsonl").write_text('{"id": "1", "stuff": "one row of words"}\n' * 10)
    async with drive() as driver:
        await driver.press("enter")
        await to(driver, "data.train")
        await driver.type("odd.jsonl")
        await driver.press("enter")
        assert driver.app.flow.question.key == "data.column"
        await driver.press("down", "enter")
        assert driver.app.flow.preset_data()["data"]["columns"] == {"text": "stuff"}


async def test_a_letter_that_is_typed_opens_nothing_but_a_key_does(drive):
    async with drive() as driver:
        await driver.press("enter")
        await to(driver, "name")
        await driver.type("a")
        assert isinstance(driver.app.screen, QuestionScreen)
        await driver.press("f2")
        assert "Gloo" in driver.screen() and "Advice" in driver.screen()
        await driver.press("escape", "f1")
        assert "Take back what you typed" in driver.screen()
        await driver.press("escape")
        assert title(driver) == "What shall it be called?"


async def test_impossible_choices_say_why_and_are_not_taken(drive):
    async with drive() as driver:
        await driver.press("enter")
        await to(driver, "distributed.backend")
        await driver.press("up")
        assert "Not possible here: needs a GPU" in driver.screen()
        await driver.press("enter")
        assert driver.app.flow.question.key == "distributed.backend"
        assert driver.app.flow.answer("distributed.backend").value == "gloo"


@pytest.mark.parametrize("size", SIZES)
async def test_the_review_puts_a_problem_on_its_line_and_edit_goes_there(drive, launched, size):
    async with drive(size) as driver:
        await driver.press("enter")
        driver.app.flow.set("training.global_batch", 18)
        driver.app.flow.set("distributed.num_processes_per_node", 4)
        await driver.press("f5")
        plan = driver.app.screen.plan
        line = next(problem.line for problem in plan.problems if problem.key == "training.global_batch")
        assert plan.text.splitlines()[line - 1].strip() == "global_batch: 18"
        assert "1 problem" in driver.screen()
        await driver.press("enter")
        assert launched == []
        await driver.press("e")
        assert driver.app.flow.question.key == "training.global_batch"
        assert isinstance(driver.app.screen, QuestionScreen)


async def test_saving_under_a_name_and_not_over_another_by_accident(drive):
    async with drive() as driver:
        await driver.press("enter", "f5", "s")
        assert "quickstart.yaml" in driver.screen()
        await driver.press("enter")
        saved = user_presets() / "quickstart.yaml"
        assert load_preset(saved) == load_preset(shipped_presets() / "quickstart.yaml")
        saved.write_text("mine")
        await driver.press("s", "enter")
        assert "exists already" in driver.screen() and saved.read_text() == "mine"
        await driver.press("escape", "s", "enter", "enter")
        assert load_preset(saved).name == "quickstart"


async def test_the_dry_run_shows_command_and_every_value(drive):
    async with drive((120, 40)) as driver:
        await driver.press("enter", "f5", "d")
        assert "accelerate.commands.launch" in driver.screen() and "ACCELERATE_USE_CPU=true" in driver.screen()
        await driver.press("escape")
        assert isinstance(driver.app.screen, ReviewScreen)


async def test_a_launch_that_is_refused_says_why_and_leads_back(drive, monkeypatch):
    def refuse(prepared):
        raise PreflightError("[disk]: the disk is full", "free some space")

    monkeypatch.setattr(session, "start", refuse)
    async with drive() as driver:
        await driver.press("enter", "f5", "enter")
        assert isinstance(driver.app.screen, ProblemScreen)
        assert "[disk]: the disk is full" in driver.screen() and "free some space" in driver.screen()
        await driver.press("escape")
        assert isinstance(driver.app.screen, ReviewScreen)


async def test_a_fault_in_the_background_is_shown_not_fatal(drive, monkeypatch):
    def fail(prepared):
        raise RuntimeError("[rank0]: boom")

    monkeypatch.setattr(session, "start", fail)
    async with drive() as driver:
        await driver.press("enter", "f5", "enter")
        assert "Could not start the training" in driver.screen() and "[rank0]: boom" in driver.screen()


@pytest.mark.parametrize("size", SIZES)
async def test_opening_a_preset_shows_its_review_and_edits_it(drive, size):
    async with drive(size) as driver:
        await driver.press("down", "enter")
        assert isinstance(driver.app.screen, ReviewScreen)
        assert "Two ranks on the CPU train a small Llama" in driver.screen()
        assert "Ready to launch" in driver.screen()
        await driver.press("e")
        assert isinstance(driver.app.screen, QuestionScreen) and "from the preset" in driver.screen()
        await driver.press("escape")
        assert isinstance(driver.app.screen, WelcomeScreen)
        assert "Go on with the questions" in driver.screen()


async def test_a_preset_that_cannot_be_used_is_explained(drive):
    user_presets().mkdir(parents=True)
    (user_presets() / "broken.yaml").write_text("version: 1\nname: broken\ntask: [nonsense\n")
    async with drive() as driver:
        assert "broken" in driver.screen() and "cannot be read" in driver.screen()
        await driver.press("down", "enter")
        assert isinstance(driver.app.screen, ProblemScreen) and "broken.yaml" in driver.screen().replace("\n", "")


async def test_choosing_a_file_in_the_browser(drive):
    from pathlib import Path

    Path("rows.jsonl").write_text('{"text": "words"}\n' * 30)
    async with drive() as driver:
        await driver.press("enter")
        await to(driver, "data.train")
        await driver.press("f3")
        await driver.until("rows.jsonl")
        await driver.press("down", "enter")
        assert driver.app.flow.answer("data.train").value == str(Path("rows.jsonl").absolute())
        await driver.until("30 rows")


async def test_leaving_with_ctrl_q(drive):
    async with drive() as driver:
        await driver.press("enter", "ctrl+q")
    assert driver.app.return_code == 0


async def test_machines_with_gpus_get_other_defaults(drive, machine, launched):
    machine(gpu_machine(4))
    async with drive((120, 40)) as driver:
        await driver.press("enter")
        assert "4 GPUs" in driver.screen() and "recommended" in driver.screen()
        await driver.press("f5")
        assert "Ready to launch" in driver.screen()
        await driver.press("enter")
        resolved = launched[0].resolved.distributed
        assert (resolved.backend, resolved.strategy, resolved.num_gpus_per_node) == ("nccl", "ddp", 4)


async def test_the_palette_knows_the_keys_of_the_screen(drive):
    async with drive((120, 40)) as driver:
        await driver.press("enter")
        await driver.press("ctrl+p")
        await driver.until("Take back what you typed")
        await driver.press("escape")
        assert isinstance(driver.app.screen, QuestionScreen)


@pytest.mark.parametrize("size", SIZES)
async def test_nothing_is_wider_than_the_screen(drive, size):
    async with drive(size) as driver:
        for keys in ((), ("enter",), ("f1",), ("escape", "f2"), ("escape", "f5"), ("d",), ("escape", "s"), ("escape", "escape")):
            await driver.press(*keys)
            assert not driver.app.screen.show_horizontal_scrollbar
            for widget in driver.app.screen.query("*"):
                if widget.display and widget.region:
                    assert widget.region.right <= size[0], widget


async def test_recent_runs_are_listed_and_watched(drive, launched):
    import os

    from engine.contract.run_dir import Status
    from wizard.launch.index import remember
    from wizard.paths import runs_root

    for number in range(8):
        run = RunDir.create(runs_root(), "a-name-that-is-rather-long-for-a-run")
        run.preset.write_text("version: 1\n")
        os.utime(run.preset, (number, number))
        run.write_status(Status(state="finished", attempt=1, started_unix_s=1.0, ended_unix_s=2.0))
        remember(run)
    async with drive((80, 24)) as driver:
        shown = driver.screen()
        assert shown.count("a-name-that-is-rather-long") == 6 and "finished" in shown
        await driver.press("end")
        assert "two-machines-ethernet" in driver.screen(), "what is marked is on the screen"
        await driver.press("home", "down", "enter")
        assert isinstance(launched[-1], RunDir)
