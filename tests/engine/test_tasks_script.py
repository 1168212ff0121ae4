"""A person's own script as a rank: watched, stopped, and its end said, whether it uses accelerate, torch or nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from engine.contract.events import EVENT_TYPES
from engine.contract.load import dump_preset, preset_from_data
from engine.contract.run_dir import RunDir
from engine.script_log import read_line
from tests.engine.pool import free_port
from tests.engine.trainings import events

CHECKOUT = Path(__file__).resolve().parents[2]
ACCELERATE = """
import sys, torch
from accelerate import Accelerator
from engine.report import evaluation, step
import beside
accelerator = Accelerator()
torch.manual_seed(0)
model, optimizer = accelerator.prepare(model := torch.nn.Linear(8, 1), torch.optim.SGD(model.parameters(), lr=0.1))
for number in range(int(sys.argv[1])):
    x = torch.randn(4, 8) + accelerator.process_index
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    step(loss=loss.item(), samples=4, total=int(sys.argv[1]))
if accelerator.is_main_process:
    evaluation(loss=0.5, accuracy=0.75)
assert accelerator.num_processes == 2 and beside.HERE
"""
PLAIN_DDP = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(1, 7):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0 and number % 2 == 0:
        print(f"step {number}/6 | loss {loss.item():.4f} | lr 1e-1 | samples 16 | eval is later", flush=True)
        print(f"step {number}/6 | loss {loss.item():.4f} | lr 1e-1 | samples 16", flush=True)
dist.destroy_process_group()
"""


def new_run(folder: Path, source: str, world: int = 1, args: list[str] | None = None) -> RunDir:
    script = folder / "own.py"
    script.write_text(source)
    preset = preset_from_data({
        "name": "own", "task": "script", "script": {"path": str(script), "args": args or [], "folder": str(folder)},
        "training": {"precision": "fp32"},
        "distributed": {"backend": "gloo" if world > 1 else "none", "strategy": "ddp" if world > 1 else "single",
                        "num_gpus_per_node": 0, "num_processes_per_node": world, "threads_per_process": 1,
                        "communication": {"bucket_mb": 25}}})
    run = RunDir.create(folder / "runs", "own")
    run.attempt(1).mkdir()
    run.resolved(1).write_text(dump_preset(preset, full=True))
    return run


def started(run: RunDir, world: int = 1) -> list[subprocess.Popen]:
    """The ranks, as the launcher would start them; the test's own folders are no place to find `engine` in."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ACCELERATE_", "TORCHELASTIC_"))}
    env |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(CHECKOUT), "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1",
            "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [subprocess.Popen([sys.executable, "-m", "engine.train", str(run.root)], cwd=run.root,
                             env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(world)]


def ended(run: RunDir, world: int = 1, timeout_s: float = 120) -> list[int]:
    """Exit codes of the ranks."""
    return codes(started(run, world), timeout_s)


def codes(ranks: list[subprocess.Popen], timeout_s: float = 120) -> list[int]:
    until = time.monotonic() + timeout_s
    try:
        return [rank.wait(max(0.1, until - time.monotonic())) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


def last_word(run: RunDir, rank: int = 0) -> dict[str, Any]:
    (word,) = events(run, "run_ended", rank)
    return word


def test_accelerate_on_two_ranks(tmp_path):
    (tmp_path / "beside.py").write_text("HERE = True\n")
    (tmp_path / "engine.py").write_text("raise RuntimeError('not this one')\n")  # ours is found in spite of it
    run = new_run(tmp_path, ACCELERATE, 2, ["12"])
    assert ended(run, 2) == [0, 0], run.log(0).read_text()
    for rank in (0, 1):
        for kind in EVENT_TYPES:
            for record in events(run, kind, rank):
                EVENT_TYPES[kind].model_validate(record)
        steps = events(run, "step", rank)
        assert [record["step"] for record in steps] == list(range(1, 13))
        assert all(record["samples"] == 4 and record["tokens"] is None and record["total_steps"] == 12 for record in steps)
        ready = events(run, "rank_ready", rank)
        assert [record["backend"] for record in ready] == ["not joined yet", "gloo"] and ready[0]["world_size"] == 2
        names = list(dict.fromkeys(record["name"] for record in events(run, "phase", rank)))
        assert names == ["starting", "running", "training", "ending"]
        assert last_word(run, rank)["state"] == "finished" and last_word(run, rank)["model_expected"] is False
    assert events(run, "evaluation")[0]["metrics"] == {"accuracy": 0.75}
    assert events(run, "warning") == []


def test_plain_torch_on_two_ranks_is_read_off_its_lines(tmp_path):
    run = new_run(tmp_path, PLAIN_DDP, 2)
    assert ended(run, 2) == [0, 0], run.log(0).read_text()
    steps = events(run, "step")
    assert [(record["rank"], record["step"], record["samples"], record["learning_rate"]) for record in steps] == [
        (0, 2, 16, 0.1), (0, 4, 16, 0.1), (0, 6, 16, 0.1)]
    assert events(run, "rank_ready", 1)[-1]["backend"] == "gloo"


def test_a_single_process_script_on_two_ranks_is_told_so(tmp_path):
    run = new_run(tmp_path, "import os, sys\nprint('safe path', 'PYTHONSAFEPATH' in os.environ, os.getcwd(), __name__, sys.argv)", 2, ["--a"])
    assert ended(run, 2) == [0, 0]
    (warning,) = events(run, "warning")
    assert "did the same work side by side" in warning["message"]
    assert f"safe path False {tmp_path} __main__ ['{tmp_path}/own.py', '--a']" in run.log(1).read_text()


@pytest.mark.parametrize(("source", "message"), [
    ("import sys; sys.exit(3)", "the script exited with code 3"),
    ("raise SystemExit('no data today')", "the script exited: no data today"),
    ("def f():\n    return 1 / 0\nf()", r"ZeroDivisionError: division by zero \(own.py, line 2\)"),
    ("import nowhere_to_be_found", r"ModuleNotFoundError: No module named 'nowhere_to_be_found' \(own.py, line 1\)"),
    ("raise MemoryError", r"MemoryError \(own.py, line 1\)"),
])
def test_how_it_failed_is_said(tmp_path, source, message):
    run = new_run(tmp_path, source)
    assert ended(run) == [5]
    word = last_word(run)
    assert word["state"] == "failed" and word["exit_reason"]["kind"] == ("out_of_memory" if "Memory" in source else "exception")
    assert re.fullmatch(message, word["exit_reason"]["message"]), word
    log = run.log(0).read_text()
    assert "runpy" not in log and "engine/script.py" not in log


def test_codes_that_are_no_failure_and_a_script_that_is_not_there(tmp_path):
    run = new_run(tmp_path, "import atexit, sys\natexit.register(lambda: print('bye'))\nsys.exit(0)")
    assert ended(run) == [0] and last_word(run)["state"] == "finished" and "bye" in run.log(0).read_text()
    run = new_run(tmp_path, "")
    (tmp_path / "own.py").unlink()
    assert ended(run) == [3] and "is not a file" in last_word(run)["exit_reason"]["message"]


@pytest.mark.parametrize(("source", "by"), [
    ("import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\nfinally:\n    print('tidied', flush=True)", "file"),
    ("import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\nfinally:\n    print('tidied', flush=True)", "signal"),
    ("import signal, sys, time\n"
     "def stop(*_):\n    print('tidied', flush=True)\n    sys.exit(0)\n"
     "signal.signal(signal.SIGTERM, stop)\nprint('ready', flush=True)\ntime.sleep(60)", "file"),
    ("import time\nfrom engine.report import step, stop_requested\nprint('ready', flush=True)\n"
     "while not stop_requested():\n    step(loss=1.0)\n    time.sleep(0.05)\nprint('tidied')", "file"),
    ("import time\nfrom engine.report import step, stop_requested\nprint('ready', flush=True)\n"
     "while not stop_requested():\n    step(loss=1.0)\n    time.sleep(0.05)\nprint('tidied')", "signal"),
], ids=["file", "signal", "own handler", "asks, file", "asks, signal"])
def test_it_is_stopped_and_may_tidy_up(tmp_path, source, by):
    run = new_run(tmp_path, source)
    ranks = started(run)
    until = time.monotonic() + 60
    while "ready" not in (run.log(0).read_text() if run.log(0).exists() else ""):
        assert time.monotonic() < until and ranks[0].poll() is None
        time.sleep(0.02)
    if by == "file":
        run.request_stop()
    else:
        ranks[0].send_signal(signal.SIGTERM)
    assert codes(ranks, 30) == [0], run.log(0).read_text()
    assert last_word(run)["state"] == "stopped" and last_word(run)["exit_reason"]["kind"] == "requested"
    assert "tidied" in run.log(0).read_text()


def test_ranks_that_ask_whether_to_stop_agree(tmp_path):
    source = ("import torch.distributed as dist, torch\nfrom engine.report import step, stop_requested\n"
              "dist.init_process_group('gloo')\nwhile not stop_requested():\n    dist.all_reduce(torch.ones(1))\n    step(loss=1.0)\n")
    run = new_run(tmp_path, source, 2)
    ranks = started(run, 2)
    until = time.monotonic() + 90
    while not all(run.events(rank).exists() and '"step":' in run.events(rank).read_text() and events(run, "step", rank) for rank in (0, 1)):
        assert time.monotonic() < until and ranks[0].poll() is None
        time.sleep(0.05)
    ranks[1].send_signal(signal.SIGTERM)  # one hears of it, both stop at the same step
    assert codes(ranks, 60) == [0, 0], run.log(0).read_text()
    assert {last_word(run, rank)["state"] for rank in (0, 1)} == {"stopped"}
    assert len(events(run, "step", 0)) == len(events(run, "step", 1))


@pytest.mark.parametrize(("line", "found"), [
    ("step 120: loss 2.345", {"at": 120, "loss": 2.345}),
    ("Step 1,200/2000 | loss=2.345e-1 | lr 3e-4 | tokens 16,384", {"at": 1200, "total": 2000, "loss": 0.2345, "learning_rate": 3e-4, "tokens": 16384}),
    (json.dumps({"step": 7, "loss": 2.5, "samples": 32}), {"at": 7, "loss": 2.5, "samples": 32}),
    ("{'global_step': 8, 'train_loss': 1.5, 'grad_norm': 0.5}", {"at": 8, "loss": 1.5, "grad_norm": 0.5}),
    ("iter 10 of 50: loss nan", {"at": 10, "total": 50, "loss": None}),
    ("step 120: val loss 2.345", None), ("eval step 3 loss 1.0", None), ("loss 3.0", None), ("step 3", None),
    ("one step at a time", None), ("stepping 3 loss 2", None), ("step 4 loss 2/3", None), ("x" * 5000 + " step 1 loss 2", None),
])
def test_lines_that_tell_a_step(line, found):
    got = read_line(line)
    if found and found["loss"] is None:
        assert got["loss"] != got["loss"] and got["at"] == found["at"]
    else:
        assert got == found


def test_outside_of_a_run_telling_does_nothing():
    from engine import report

    report.step(loss=1.0, tokens=5)
    report.evaluation(loss=1.0)
    assert report.stop_requested() is False and report.model_folder() is None


TRAINER = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from engine.report import model_folder, trainer_callback
config = LlamaConfig(vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)
rows = [{"input_ids": torch.arange(8) + n, "labels": torch.arange(8) + n} for n in range(24)]
arguments = TrainingArguments("out", max_steps=6, logging_steps=2, per_device_train_batch_size=4, use_cpu=True, report_to=[], save_strategy="no",
                              eval_strategy="steps", eval_steps=3, disable_tqdm=True)
trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=rows, eval_dataset=rows[:4], callbacks=[trainer_callback()])
trainer.train()
trainer.save_model(str(model_folder()))
"""


def test_transformers_trainer_tells_by_a_callback(tmp_path):
    run = new_run(tmp_path, TRAINER)
    assert ended(run) == [0], run.log(0).read_text()
    steps = events(run, "step")
    assert [(record["step"], record["samples"], record["total_steps"]) for record in steps] == [(2, 8, 6), (4, 8, 6), (6, 8, 6)]
    assert all(record["loss_sum"] and record["learning_rate"] is not None for record in steps)
    assert [record["step"] for record in events(run, "evaluation")] == [2, 6] and events(run, "evaluation")[0]["loss"]
    assert last_word(run)["model_path"] == str(run.model)
