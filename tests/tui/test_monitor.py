"""The monitor screen on made-up runs: what it says, that it fits, and what its keys do."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from textual.app import App

from engine.contract.events import ExitReason
from engine.contract.run_dir import RunDir
from tests.fake_run import FakeRun
from wizard.tui.screens.base import WizardScreen
from wizard.tui.screens.monitor import MonitorScreen
from wizard.tui.theme import CALM
from wizard.tui.widgets.choice_dialog import ChoiceDialog
from wizard.tui.widgets.curves import distinct
from wizard.tui.widgets.end_panel import hanging
from wizard.tui.widgets.log_pane import LogPane
from wizard.tui.widgets.rank_table import RankTable

SMALL, LARGE, WIDE = (80, 24), (120, 40), (200, 60)
ALL_SIZES = pytest.mark.parametrize("size", [SMALL, LARGE, WIDE], ids=["80x24", "120x40", "200x60"])


class Host(App[int]):
    """As little app as there can be around the screen."""

    def __init__(self, run: RunDir, beneath: bool = False, **options):
        super().__init__()
        self.register_theme(CALM)
        self.theme = "calm"
        self._beneath = beneath
        self.monitor = MonitorScreen(run, status_of=RunDir.read_status, **{"refresh_s": 0.05} | options)

    def on_mount(self) -> None:
        if self._beneath:
            self.push_screen(WizardScreen())
        self.push_screen(self.monitor)

    def worker_changed(self, event) -> None:
        """The wizard's app leaves the monitor's workers to the monitor."""


async def settle(app: Host, pilot) -> None:
    """Until a poll that began after now has been drawn, and what is drawn no longer changes."""
    await app.workers.wait_for_complete([w for w in app.workers if w.name == "monitor-poll"])
    await pilot.pause()
    shown, same = text_of(app), 0
    for _ in range(200):
        await pilot.pause(0.02)
        now = text_of(app)
        shown, same = now, same + 1 if now == shown else 0
        if same == 3:
            return


async def until(app: Host, pilot, condition) -> None:
    for _ in range(200):
        if condition():
            return
        await settle(app, pilot)
        await pilot.pause(0.02)
    raise AssertionError("did not happen")


def text_of(app: App) -> list[str]:
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


def running(folder: Path, ranks: int = 2, until_step: int = 140, **options) -> FakeRun:
    fake = FakeRun(folder, ranks=ranks, steps=300, step_s=0.5, began=time.time() - 85, **options)
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, until_step)
    return fake


def assert_fits(app: App, size: tuple[int, int]) -> None:
    """Every widget that is shown lies inside the screen, and none is squeezed to nothing."""
    for widget in app.screen.query("RunHeader, Numbers, SplitBar, RankTable, LogPane, #activity, KeyBar"):
        if widget.display and widget.region.area:
            assert widget.region.right <= size[0] and widget.region.bottom <= size[1], widget
    assert app.screen.query_one("KeyBar").region.bottom == size[1]
    assert app.screen.query_one("#activity").region.height >= 1
    assert app.screen.max_scroll_y == 0 and app.screen.max_scroll_x == 0


@ALL_SIZES
async def test_a_running_training_at_a_glance(tmp_path, size):
    app = Host(running(tmp_path).run)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        lines = text_of(app)
        text = "\n".join(lines)
        assert all(len(line) <= size[0] for line in lines) and len(lines) == size[1]
        assert lines[0].split("  ")[0].strip() == "quickstart"
        for words in ("running", "step 140 / 300", "47 %", "ETA 1 min", "GLOO DDP x2", "elapsed 1 min", "epoch 0.93",
                      "tokens/s", "8,192", "mean 8,192", "best 8,192", "loss 2.", "eval 2.", "data 1 %", "compute 88 %",
                      "waiting 6 %", "optimizer 5 %", "rank", "step ms", "waits", "812 MB", "log of", "2 ranks train in fp32",
                      "q leave", "s stop", "l logs", "c charts", "? help"):
            assert words in text, words
        assert_fits(app, size)
        assert app.screen.query_one("#curves").display == (size != SMALL)


@ALL_SIZES
async def test_eight_gpus_fit_and_the_slowest_is_named(tmp_path, size):
    app = Host(running(tmp_path, ranks=8, gpu=True, slow_rank=2).run)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        lines = text_of(app)
        rows = [line for line in lines if "61/80 GB" in line]
        assert len(rows) == 8
        assert "slowest: compute" in rows[2] and "389 W" in rows[2] and "66 C" in rows[2]
        assert any("finding  rank 2 is the slowest (compute) and costs the job 9 %" in line for line in lines)
        assert_fits(app, size)


async def test_a_thousand_ranks_show_the_worst(tmp_path):
    app = Host(running(tmp_path, ranks=1024, until_step=4).run)
    async with app.run_test(size=LARGE) as pilot:
        await until(app, pilot, lambda: app.monitor.view is not None and len(app.monitor.view.ranks) == 1024)
        await settle(app, pilot)
        assert app.screen.query_one(RankTable).row_count == 64
        assert "and 960 more ranks" in "\n".join(text_of(app))
        assert_fits(app, LARGE)


async def test_starting_up_says_what_it_does(tmp_path):
    fake = FakeRun(tmp_path, began=time.time() - 3)
    app = Host(fake.run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        assert "starting the ranks" in "\n".join(text_of(app))
        fake.launch()
        fake.phase("loading data", progress=0.4, detail="reading")
        await until(app, pilot, lambda: "loading data 40 %: reading" in "\n".join(text_of(app)))
        text = "\n".join(text_of(app))
        assert "tokens/s n/a" in text and "ETA" not in text and "a step: not measured yet" in text


@ALL_SIZES
async def test_a_failed_run_says_why_and_what_next(tmp_path, size):
    app = Host(FakeRun(tmp_path, steps=60).play("exception").run)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        text = "\n".join(text_of(app))
        for words in ("failed at step 30 after", "cause   rank 1: out of memory", "run --resume", "from step 20",
                      "rank-00001.log", "torch.OutOfMemoryError"):
            assert words in text, words
        assert app.screen.query_one(LogPane).rank == 1
        assert_fits(app, size)


async def test_a_finished_run_shows_the_model_and_what_it_wrote(tmp_path):
    app = Host(FakeRun(tmp_path, steps=60).play().run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        text = "\n".join(text_of(app))
        assert "finished after" in text and "/model" in text and "number of items in [list]." in text
        await pilot.press("q")  # nothing left to ask
        await pilot.pause()
    assert app.return_code == 0


@ALL_SIZES
async def test_nan_never_breaks_a_chart(tmp_path, size):
    fake = FakeRun(tmp_path, steps=300, began=time.time() - 85)
    fake.nan_at = set(range(100, 141))
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, 140)
    app = Host(fake.run)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        text = "\n".join(text_of(app))
        assert "loss NaN or infinite" in text and "at step 100 (and 40 more times)" in text
        await pilot.press("c")
        await settle(app, pilot)
        assert_fits(app, size)


async def test_nan_from_the_first_step_on_draws_nothing(tmp_path):
    fake = FakeRun(tmp_path, steps=300, began=time.time() - 30)
    fake.nan_at = set(range(1, 300))
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, 12)
    app = Host(fake.run)
    async with app.run_test(size=LARGE) as pilot:
        await settle(app, pilot)
        assert "no points yet" in "\n".join(text_of(app))


async def test_a_stuck_rank_is_named(tmp_path):
    fake = running(tmp_path, until_step=120)
    fake.hang(1, 90, 120)
    fake.began -= 90
    app = Host(fake.run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        text = "\n".join(text_of(app))
        assert "not moving" in text and "rank 1 has not moved for" in text and "stuck 1 min" in text
        assert "tokens/s n/a" in text and "ETA" not in text


async def test_it_follows_a_run_by_updating_cells(tmp_path):
    fake = running(tmp_path, until_step=100)
    app = Host(fake.run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        table = app.screen.query_one(RankTable)
        rebuilt = []
        table._rebuild = lambda *_: rebuilt.append(1)
        fake.train(101, 120)
        fake.log(0, "[rank0]: an [unclosed tag and [bold]tags[/bold]")
        await until(app, pilot, lambda: app.monitor.view.step == 120)
        assert not rebuilt and str(table.get_cell("0", "step")) == "120"
        assert "[rank0]: an [unclosed tag and [bold]tags[/bold]" in "\n".join(text_of(app))


async def test_polls_never_stack(tmp_path):
    fake = running(tmp_path, until_step=5)
    app = Host(fake.run, refresh_s=0.001)
    going, most = [], []
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        slow = app.monitor._reader.poll

        def poll(*args):
            going.append(1)
            most.append(len(going))
            time.sleep(0.05)
            going.pop()
            return slow(*args)

        app.monitor._reader.poll = poll
        await until(app, pilot, lambda: len(most) >= 4)
    assert max(most) == 1


async def test_charts_and_logs_take_the_screen_and_give_it_back(tmp_path):
    app = Host(running(tmp_path).run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        await pilot.press("c")
        await settle(app, pilot)
        text = "\n".join(text_of(app))
        assert "tokens/s over steps" in text and "evaluation 2." in text and "log of" not in text
        assert_fits(app, SMALL)
        await pilot.press("l")
        await settle(app, pilot)
        assert app.screen.query_one("#log-lines").region.height >= 15
        assert "step ms" not in "\n".join(text_of(app))
        await pilot.press("l")
        await settle(app, pilot)
        assert "step ms" in "\n".join(text_of(app))


async def test_another_ranks_log(tmp_path):
    fake = running(tmp_path)
    fake.log(1, "only rank 1 says this")
    fake.run.launcher_log.write_text("the launcher says this\n")
    app = Host(fake.run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        await pilot.press("]")
        await until(app, pilot, lambda: "only rank 1 says this" in "\n".join(text_of(app)))
        await pilot.press("]")
        await until(app, pilot, lambda: "the launcher says this" in "\n".join(text_of(app)))
        assert "only rank 1 says this" not in "\n".join(text_of(app))
        await pilot.press("f")
        assert app.screen.query_one(LogPane).follow is False
        await pilot.pause()
        assert "held" in "\n".join(text_of(app))


async def test_leaving_asks_once_and_keeps_training(tmp_path):
    app = Host(running(tmp_path).run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, ChoiceDialog)
        text = "\n".join(text_of(app))
        assert "Keep training" in text and "Stop with a checkpoint" in text and "Stay" in text
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.monitor and app.is_running
        await pilot.press("q", "k")
        await pilot.pause()
    assert app.return_code == 0
    assert not app.monitor.run.stop_file.exists()


async def test_leaving_leads_back_to_the_screen_beneath(tmp_path):
    app = Host(running(tmp_path).run, beneath=True)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        await pilot.press("q", "enter")
        await pilot.pause()
        assert app.is_running and not isinstance(app.screen, MonitorScreen)


async def test_stopping_asks_first_and_goes_through_stop_run(tmp_path, monkeypatch):
    asked, called = [], threading.Event()

    def stop_run(run, now=False, wait=True, timeout_s=None):
        asked.append((run.root, now, wait))
        called.set()

    monkeypatch.setattr("wizard.launch.stop.stop_run", stop_run)
    fake = running(tmp_path)
    app = Host(fake.run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        await pilot.press("s", "escape")
        assert not asked
        await pilot.press("s")
        await pilot.pause()
        await pilot.press("s")
        await until(app, pilot, called.is_set)
        assert asked == [(fake.run.root, False, False)]
        await until(app, pilot, lambda: "stopping: a checkpoint" in "\n".join(text_of(app)))
        called.clear()
        await pilot.press("s")
        await pilot.pause()
        await pilot.press("n")
        await until(app, pilot, called.is_set)
        assert asked[-1] == (fake.run.root, True, False)


async def test_a_stop_that_cannot_be_asked_for_is_told(tmp_path, monkeypatch):
    def stop_run(run, now=False, wait=True, timeout_s=None):
        raise OSError("[disk] is full")

    monkeypatch.setattr("wizard.launch.stop.stop_run", stop_run)
    app = Host(running(tmp_path).run)
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await settle(app, pilot)
        await pilot.press("s")
        await pilot.pause()
        await pilot.press("s")
        await until(app, pilot, lambda: "[disk] is full" in "\n".join(text_of(app)))


async def test_it_closes_by_itself_when_the_run_is_done(tmp_path):
    fake = running(tmp_path, until_step=300)
    app = Host(fake.run, close_when_done=True)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        fake.finish()
        await until(app, pilot, lambda: not app.is_running or app.return_code is not None)
    assert app.return_code == 0


async def test_leaving_with_a_stop_waits_for_it(tmp_path, monkeypatch):
    fake = running(tmp_path)

    def stop_run(run, now=False, wait=True, timeout_s=None):
        fake.status("stopped", ExitReason(kind="requested", step=140))

    monkeypatch.setattr("wizard.launch.stop.stop_run", stop_run)
    app = Host(fake.run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        await pilot.press("q")
        await pilot.pause()
        await pilot.press("s")
        await until(app, pilot, lambda: app.return_code is not None)
    assert app.return_code == 0


async def test_resizing_keeps_everything_in_place(tmp_path):
    app = Host(running(tmp_path).run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        for size in (LARGE, (100, 24), (60, 20), WIDE, SMALL):
            await pilot.resize_terminal(*size)
            await settle(app, pilot)
            assert all(len(line) <= size[0] for line in text_of(app))
            assert app.screen.query_one("KeyBar").region.bottom == size[1]
        assert "step 140 / 300" in "\n".join(text_of(app))


async def test_a_folder_that_vanishes_is_told(tmp_path):
    import shutil

    fake = running(tmp_path)
    app = Host(fake.run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        shutil.rmtree(fake.run.root)
        await until(app, pilot, lambda: "folder is gone" in "\n".join(text_of(app)))


async def test_help_lists_the_keys(tmp_path):
    app = Host(running(tmp_path).run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        await pilot.press("question_mark")
        await pilot.pause()
        text = "\n".join(text_of(app))
        assert "Stop the training with a checkpoint" in text and "Leave the monitor" in text
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.monitor


@ALL_SIZES
async def test_where_all_ranks_stand_still_none_is_named(tmp_path, size):
    fake = running(tmp_path, until_step=120)
    fake.hang(-1, 90, 120)
    fake.began -= 90
    app = Host(fake.run)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        text = "\n".join(text_of(app))
        assert "finding  no rank has moved for 1 min" in text and "(training, step 120)" in text
        assert_fits(app, size)


@ALL_SIZES
@pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])
async def test_the_table_of_a_killed_run_says_how_each_rank_ended(tmp_path, size, gpu):
    app = Host(FakeRun(tmp_path, ranks=3, steps=60, gpu=gpu).play("killed").run)
    async with app.run_test(size=size) as pilot:
        await until(app, pilot, lambda: "killed by SIGKILL    " in "\n".join(text_of(app)))
        lines = text_of(app)
        table = {line.split()[0]: line for line in lines if line[:6].strip() in ("0", "1", "2")}
        assert "killed by SIGKILL" in table["2"]
        assert "ended after rank 2" in table["0"] and "ended after rank 2" in table["1"]
        assert "98 %" not in "\n".join(lines) and " training " not in table["2"]
        assert_fits(app, size)


async def test_a_wrapped_cause_stays_beside_its_label(tmp_path):
    fake = FakeRun(tmp_path, steps=60)
    fake.launch()
    fake.load()
    fake.fail(1, 3, "exception", "RuntimeError: " + "something long happened " * 9)
    app = Host(fake.run)
    async with app.run_test(size=SMALL) as pilot:
        await settle(app, pilot)
        lines = text_of(app)
        at = next(index for index, line in enumerate(lines) if "RuntimeError: something" in line)
        for line in lines[at:at + 4]:
            assert line[:10] == "│" + " " * 9 and line[10] != " ", line
        assert " ".join("".join(lines[at:at + 4]).replace("│", " ").split()).count("something long happened") == 9


def test_wrapping_counts_cells_and_loses_nothing():
    text = "log     " + "模型" * 30
    wrapped = hanging(text, 40)
    assert "".join(part[8:] for part in wrapped) == "模型" * 30 and len(wrapped) == 4
    assert hanging("log     /tmp/some/where/runs/quickstart/logs/rank-00001.log", 40) == [
        "log     /tmp/some/where/runs/quickstart/", "        logs/rank-00001.log"]
    assert all(part[:8] in ("log     ", " " * 8) for part in wrapped)
    frames = hanging("        " + "  File " + "x" * 60, 40)
    assert all(part.startswith(" " * 10) for part in frames) and "".join("".join(frames).split()) == "File" + "x" * 60


async def test_an_empty_log_leaves_the_room_to_the_charts(tmp_path):
    fake = running(tmp_path)
    for rank in (0, 1):
        fake.run.log(rank).unlink()
    app = Host(fake.run)
    async with app.run_test(size=LARGE) as pilot:
        await settle(app, pilot)
        await pilot.pause()
        log, curves = app.screen.query_one(LogPane), app.screen.query_one("#curves")
        assert log.region.height == 1 and curves.region.height >= 20
        assert "nothing written yet" in "\n".join(text_of(app))
        assert_fits(app, LARGE)
        fake.log(0, "the first line")
        await until(app, pilot, lambda: "the first line" in "\n".join(text_of(app)))
        height = log.region.height
        assert height > 5 and curves.region.height < 15
        await pilot.press("]")  # a rank that has written nothing: the layout stays
        await settle(app, pilot)
        assert log.region.height == height


@pytest.mark.parametrize(("low", "high", "labels"), [(2, 3, ["2", "3"]), (1, 1, ["1"]), (1, 3, ["1", "2", "3"]),
                                                     (0, 5000, ["0", "2,500", "5,000"])])
def test_ticks_are_distinct(low, high, labels):
    ticks, words = distinct([low, round((low + high) / 2), high], "{:,.0f}".format)
    assert words == labels and len(ticks) == len(labels) and ticks[0] == low


async def test_no_eta_once_the_steps_are_done(tmp_path):
    fake = running(tmp_path, until_step=300)
    fake.flush()
    fake.phase("generating")
    app = Host(fake.run)
    async with app.run_test(size=LARGE) as pilot:
        await settle(app, pilot)
        text = "\n".join(text_of(app))
        assert "generating" in text and "step 300 / 300" in text and "ETA" not in text


@ALL_SIZES
async def test_a_classifier_shows_its_metrics(tmp_path, size):
    app = Host(running(tmp_path, task="text-classification").run)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        text = "\n".join(text_of(app))
        assert "tokens/s 8,192" in text and "accuracy 0.912" in text
        assert "macro F1 0.896" in text or size == SMALL
        assert_fits(app, size)


@ALL_SIZES
async def test_a_script_is_shown_in_what_it_tells(tmp_path, size):
    app = Host(running(tmp_path, task="script").run)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        text = "\n".join(text_of(app))
        for words in ("samples/s 32", "mean 32", "loss 2.", "accuracy 0.875", "script x2", "2 ranks run the script", "step 140"):
            assert words in text, words
        assert "tokens/s" not in text and "NaN" not in text and "NOT JOINED" not in text and "compute n/a" not in text
        assert ("samples/s over steps" in text) == (size != SMALL)
        assert_fits(app, size)
