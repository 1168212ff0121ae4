"""Data that is prepared while the ranks still start: once, by one process, and never at the price of a clear error."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.contract.run_dir import RunDir
from engine.data.ahead import prepare_ahead, prepare_once
from engine.data.store import open_llm_data
from engine.errors import DataError
from tests.engine.trainings import new_run, next_attempt, tiny_preset, write_text

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys, time
from pathlib import Path
from engine.contract.run_dir import RunDir
from engine.data import ahead
run = RunDir(Path(sys.argv[1]))
with ahead._turn(run, lambda: None):
    ahead._tell(run, what="tokenizing rows", share=0.4)
    print("inside", flush=True)
    sys.stdin.readline()
    (run.root / "data").mkdir()
"""


@pytest.fixture
def run(tmp_path) -> RunDir:
    return new_run(tmp_path / "runs", tiny_preset(write_text(tmp_path / "text.jsonl"), 2))


@pytest.fixture
def holder(run):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(run.root)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "inside\n"
    yield process
    process.kill()
    process.communicate()


def preset_of(run: RunDir):
    from engine.contract.load import load_preset

    return load_preset(run.resolved(run.latest_attempt()))


def never(report):
    raise AssertionError("prepared a second time")


def left_over(run: RunDir) -> list[str]:
    return [path.name for path in run.root.glob(".data*")]


def test_the_keeper_finds_the_data_done(run):
    done = subprocess.run([sys.executable, "-m", "engine.data.ahead", str(run.root)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    prepare_once(run, preset_of(run), never, lambda what, share: None)
    assert len(open_llm_data(run.root / "data").train) > 8


def test_the_keeper_waits_for_the_rest_and_tells_of_it(run, holder):
    told = []

    def report(what, share):
        told.append((what, share))
        if len(told) == 2:
            holder.stdin.write("\n")
            holder.stdin.flush()

    prepare_once(run, preset_of(run), never, report)
    assert set(told) == {("tokenizing rows", 0.4)} and (run.root / "data").is_dir() and left_over(run) == []


def test_when_the_other_is_killed_the_keeper_prepares(run, holder):
    made = []
    prepare_once(run, preset_of(run), lambda report: made.append(True), lambda what, share: os.kill(holder.pid, signal.SIGKILL))
    assert made == [True] and left_over(run) == []


def test_a_failure_of_the_other_is_raised_once_and_forgotten(run, tmp_path):
    (tmp_path / "text.jsonl").write_text('{"text": 3}\n')
    prepare_ahead(run)
    with pytest.raises(DataError, match=r"text\.jsonl"):
        prepare_once(run, preset_of(run), never, lambda what, share: None)
    assert left_over(run) == []
    write_text(tmp_path / "text.jsonl")
    next_attempt(run, preset_of(run))
    prepare_ahead(run)
    prepare_once(run, preset_of(run), never, lambda what, share: None)


def test_several_machines_first_agree_who_keeps_the_folder(run, tmp_path):
    preset = tiny_preset(tmp_path / "text.jsonl", 1, distributed__num_nodes=2, distributed__backend="gloo", distributed__strategy="ddp",
                         distributed__main_address="10.0.0.1", distributed__main_port=29500, training__micro_batch=4)
    next_attempt(run, preset)
    prepare_ahead(run)
    assert not (run.root / "data").exists() and left_over(run) == []
    made = []
    prepare_once(run, preset, lambda report: made.append(True), lambda what, share: None)
    assert made == [True]


def test_without_locks_only_the_keeper_prepares(run, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    done = []
    prepare_once(run, preset_of(run), lambda report: done.append(True), lambda what, share: None)
    assert done == [True] and left_over(run) == []
