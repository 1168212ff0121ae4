"""The steps of a person's own script, where only some ranks tell them, and not everything."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from engine.contract.events import EventWriter, ExitReason
from engine.contract.load import dump_preset, preset_from_data
from engine.contract.run_dir import RunDir, Status
from wizard.monitor.json_lines import JsonLines
from wizard.monitor.outcome import summary
from wizard.monitor.plain import follow_plain
from wizard.monitor.reader import RunReader
from wizard.monitor.view import build_view

PRESET = {"name": "own", "task": "script", "script": {"path": "/own.py"}, "training": {"precision": "fp32"},
          "distributed": {"backend": "gloo", "strategy": "ddp", "num_gpus_per_node": 0, "num_processes_per_node": 2,
                          "threads_per_process": 1}}


class ScriptRun:
    """A run of two ranks that is `finished` when `end` was called."""

    def __init__(self, folder: Path):
        self.run = RunDir.create(folder, "own")
        self.run.attempt(1).mkdir()
        self.run.resolved(1).write_text(dump_preset(preset_from_data(PRESET)))
        self.began = self.now = time.time() - 60
        self.writers = [EventWriter(self.run.events(rank), rank, 1) for rank in (0, 1)]
        self.status("running")
        self.write(0, "run_started", name="own", task="script", world_size=2, versions={})
        for rank in (0, 1):
            self.write(rank, "phase", name="running", progress=None, detail=None, s_limit=86400)

    def status(self, state: str) -> None:
        self.run.write_status(Status(state=state, attempt=1, started_unix_s=self.began, ended_unix_s=self.now if state == "finished" else None,
                                     exit_reason=ExitReason(kind="completed") if state == "finished" else None))

    def write(self, rank: int, event: str, **fields: Any) -> None:
        self.writers[rank].write(event, t_unix_s=self.now, t_mono_s=self.now, **fields)

    def step(self, rank: int, step: int, loss: float = 1.0, tokens: int | None = None, samples: int | None = 8) -> None:
        self.now += 0.25
        self.write(rank, "step", step=step, loss_sum=loss * (samples or 1), target_tokens=samples or 1, tokens=tokens, samples=samples,
                   learning_rate=None, grad_norm=None, step_time_ms=None, total_steps=6)

    def end(self) -> None:
        for rank in (0, 1):
            self.write(rank, "run_ended", state="finished", exit_reason={"kind": "completed"}, step=6, model_path=None, model_expected=False)
        self.status("finished")

    def reader(self) -> RunReader:
        return RunReader(self.run, status_of=RunDir.read_status)


def test_one_rank_that_tells_for_all(tmp_path):
    fake = ScriptRun(tmp_path)
    reader = fake.reader()
    for step in range(1, 7):
        fake.step(0, step, loss=7.0 - step)
        assert reader.poll().step == step - 1, "whether the other rank has a word on it shows only with a later step"
    fake.end()
    state = reader.poll()
    assert state.step == state.total_steps == 6 and state.loss.last == pytest.approx(1.0) and len(state.loss) == 6
    assert state.throughput.samples == 48 and state.throughput.tokens == 0


def test_all_ranks_tell_and_one_is_late_at_first(tmp_path):
    fake = ScriptRun(tmp_path)
    reader = fake.reader()
    fake.step(0, 1, loss=2.0)
    reader.poll()
    for step in range(1, 7):
        fake.step(1, step, loss=4.0)
        if step < 6:
            fake.step(0, step + 1, loss=2.0)
    state = reader.poll()
    assert state.step == 6 and state.loss.last == pytest.approx(3.0) and state.throughput.samples == 96
    fake.end()
    again = fake.reader().poll()
    assert again.throughput.samples == 96 and len(again.loss) == 6, "read afterwards, file by file, it comes to the same"


def test_every_reader_bears_what_is_not_told(tmp_path):
    fake = ScriptRun(tmp_path)
    for step in range(1, 7):
        fake.step(0, step)
    fake.end()
    out = io.StringIO()
    status = follow_plain(fake.run, out)
    text = out.getvalue()
    assert "samples/s" in text and "n/a tokens" not in text and "model" not in text.splitlines()[-1]
    assert "samples/s" in summary(fake.run, status) and "model" not in summary(fake.run, status)
    view = build_view(fake.run, fake.reader().poll(), time.time())
    assert view.step.startswith("6") if isinstance(view.step, str) else view.step == 6
    out = io.StringIO()
    lines = JsonLines(fake.run, out, fake.reader())
    lines.reader.poll()
    lines.after_poll()
    steps = [json.loads(line) for line in out.getvalue().splitlines() if '"event": "step"' in line]
    assert [record["step"] for record in steps] == [1, 2, 3, 4, 5, 6] and {record["loss"] for record in steps} == {1.0}
