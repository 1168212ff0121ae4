"""`watch` as a command: what it prints and the code it ends with."""

from __future__ import annotations

import json

import pytest

from tests.fake_run import FakeRun
from wizard.cli import main
from wizard.tui.widgets.bars import bar, spark


@pytest.mark.parametrize(("fault", "code"), [(None, 0), ("exception", 5), ("killed", 5)])
def test_watch_plain_ends_with_the_runs_outcome(tmp_path, capsys, fault, code):
    fake = FakeRun(tmp_path, steps=40).play(fault)
    assert main(["watch", str(fake.run.root), "--plain"]) == code
    out = capsys.readouterr().out
    assert ("finished" if fault is None else "failed") in out
    assert ("/model" if fault is None else "run --resume") in out


def test_watch_without_a_terminal_prints_lines(tmp_path, capsys):
    assert main(["watch", str(FakeRun(tmp_path).play().run.root)]) == 0
    assert "step 60/60" in capsys.readouterr().out


def test_watch_json_is_json_only(tmp_path, capsys):
    assert main(["watch", str(FakeRun(tmp_path).play("nan").run.root), "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[-1]["event"] == "run_ended" and events[-1]["state"] == "finished"


def test_a_run_whose_supervisor_is_gone_is_lost(tmp_path, capsys):
    fake = FakeRun(tmp_path, steps=40)
    fake.launch()
    fake.load()
    fake.train(1, 10)
    status = fake.run.read_status()
    fake.run.write_status(status.model_copy(update={
        "state": "running", "processes": [status.processes[0].model_copy(update={"create_time": 1.0})]}))
    assert main(["watch", str(fake.run.root), "--plain"]) == 7
    assert "lost" in capsys.readouterr().out


def test_ctrl_c_leaves_the_run_alone(tmp_path, capsys, monkeypatch):
    fake = FakeRun(tmp_path)
    fake.launch()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("wizard.monitor.follow.time.sleep", interrupted)
    assert main(["watch", str(fake.run.root), "--plain"]) == 130
    assert "the run goes on" in capsys.readouterr().err
    assert not fake.run.stop_file.exists()


def test_an_unknown_run_is_a_usage_error(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("AUTOTRAIN_WIZARD_RUNS", str(tmp_path / "runs"))
    assert main(["watch", "nothing-of-that-name"]) == 2


def test_bars_and_curves_keep_their_width():
    assert bar(0.5, 10) == "█████" and bar(2.0, 3) == "███" and bar(-1, 3) == "" and bar(1 / 16, 2) == "▏"
    assert spark([], 10) == "" and spark([1.0], 4) == "▄▄▄▄"
    assert len(spark([float(i) for i in range(1000)], 40)) == 40
    assert spark([0.0, 1.0], 2) == "▁█" and spark([9.0, 10.0], 2, floor=0.0) == "▇█"
