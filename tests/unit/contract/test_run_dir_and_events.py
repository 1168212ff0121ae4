"""Run folder, status, events, FLOPs."""

from __future__ import annotations

import json
import math
import os
import threading

import pytest

from engine.contract.atomic import write_text_atomic
from engine.contract.events import EVENT_TYPES, EventWriter, parse_line
from engine.contract.flops import peak_flops_per_s, train_flops_per_token
from engine.contract.run_dir import RunDir, Status, process_record


def test_runs_in_one_second_do_not_collide(tmp_path):
    runs = [RunDir.create(tmp_path, "a", now=0) for _ in range(3)]
    assert len({run.root for run in runs}) == 3
    assert runs[0].root.stat().st_mode & 0o777 == 0o700


def test_status_round_trip_and_half_written(tmp_path):
    run = RunDir.create(tmp_path, "a")
    assert run.read_status() is None
    status = Status(state="running", attempt=1, started_unix_s=1.0, processes=[process_record(rank=0)])
    run.write_status(status)
    assert run.read_status() == status and status.processes[0].pid == os.getpid()
    run.status.write_text("{half")
    assert run.read_status() is None


def test_stop_requests(tmp_path):
    run = RunDir.create(tmp_path, "a")
    assert run.read_stop() is None
    run.request_stop(checkpoint=False)
    assert run.read_stop() == {"checkpoint": False}
    run.stop_file.write_text("")  # touch STOP
    assert run.read_stop() == {"checkpoint": True}
    run.clear_stop()
    run.clear_stop()
    assert run.read_stop() is None


def test_only_complete_checkpoints_count(tmp_path):
    run = RunDir.create(tmp_path, "a")
    for name in ("step-00000200", "step-00000100", ".step-00000300.partial", "step-x"):
        (run.checkpoints / name).mkdir()
    assert run.checkpoint_steps() == [100, 200]
    assert run.latest_attempt() == 0


def test_atomic_write_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "f"
    write_text_atomic(path, "old")

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_text_atomic(path, "new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["f"]


def test_events_are_whole_lines_of_the_declared_types(tmp_path):
    path = tmp_path / "rank-00000.jsonl"
    path.write_text('{"event": "step", "ra')  # a rank was killed here
    writer = EventWriter(path, rank=0, attempt=2)
    writer.write("step", step=1, loss_sum=math.nan, target_tokens=3, tokens=4, samples=1, learning_rate=1e-3,
                 grad_norm=math.inf, step_time_ms=1.0, data_ms=0.1, compute_ms=0.8, optimizer_ms=0.1)
    threads = [threading.Thread(target=lambda: [writer.write("heartbeat", phase="training", step=1, s_in_phase=0.1) for _ in range(200)])
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = path.read_bytes().splitlines()
    assert parse_line(lines[0]) is None
    records = [parse_line(line) for line in lines[1:]]
    assert sorted(record["seq"] for record in records) == list(range(801))
    step = EVENT_TYPES["step"].model_validate(records[0])
    assert step.loss_sum is None and step.grad_norm is None and step.attempt == 2
    json.loads(lines[1], parse_constant=pytest.fail)


def test_a_full_disk_loses_events_not_the_training():
    writer = EventWriter("/dev/full", rank=0, attempt=1)
    writer.write("warning", kind="x", message="y")
    assert writer.lost == 1


@pytest.mark.parametrize("line", [b"", b"3", b"{", b"[]", b'{"event": 3, "rank": 0}', b"\xff\xfe", b'{"rank": 0}'])
def test_lines_that_are_no_events(line):
    assert parse_line(line) is None


def test_flops_and_peaks():
    # 6 N + 12 L H S with N = 1e9, L = 24, H = 2048, S = 1024
    assert train_flops_per_token(10**9, 24, 2048, 1024) == pytest.approx(6e9 + 12 * 24 * 2048 * 1024)
    assert train_flops_per_token(10**9, None, 2048, 1024) is None
    assert peak_flops_per_s("NVIDIA A100-SXM4-80GB", "bf16") == 312e12
    assert peak_flops_per_s("NVIDIA H100 PCIe", "bf16") == 756e12
    assert peak_flops_per_s("Tesla T4", "bf16") is None and peak_flops_per_s("NVIDIA A40", "bf16") is None
    assert peak_flops_per_s(None, "bf16") is None
