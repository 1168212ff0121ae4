"""Real commands in processes of their own, and what they leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from engine.contract.run_dir import RunDir

TINY = """\
version: 1
name: {name}
task: llm-pretrain
model:
  from_config: {{model_type: llama, vocab_size: 320, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2,
                num_attention_heads: 2, num_key_value_heads: 1, max_position_embeddings: 64, tie_word_embeddings: true}}
data: {{train: text.txt, max_length: 32, packing: true}}
training: {{max_steps: {max_steps}, global_batch: 4, learning_rate: 1e-3, precision: fp32, log_every: 1, eval_every: never}}
distributed: {{backend: gloo, strategy: ddp, num_gpus_per_node: 0, num_processes_per_node: 2}}
"""
ENDLESS = 1_000_000


class Workshop:
    """A folder to work in, an environment, and the commands that were started there."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if name != "AUTOTRAIN_WIZARD_RUNS"}
        self.env |= {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config"), "HF_HOME": str(folder / "hf")}
        self.started: list[subprocess.Popen] = []
        (folder / "text.txt").write_text("\n".join(f"Line {i} says that {i} times 7 is {7 * i}." for i in range(3000)))

    def preset(self, name: str, max_steps: int = ENDLESS, **more: str) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(TINY.format(name=name, max_steps=max_steps) + "".join(more.values()))
        return path.name

    def start(self, *words: str, **env: str) -> subprocess.Popen:
        """A command in the background, its output in files beside it."""
        count = len(self.started)
        with open(self.folder / f"out-{count}", "w") as out, open(self.folder / f"err-{count}", "w") as err:
            process = subprocess.Popen([sys.executable, "-m", "wizard.cli", *words], cwd=self.folder, env=self.env | env,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        process.out, process.err = self.folder / f"out-{count}", self.folder / f"err-{count}"
        self.started.append(process)
        return process

    def command(self, *words: str, **env: str) -> tuple[int, str, str]:
        process = self.start(*words, **env)
        code = process.wait(timeout=120)
        return code, process.out.read_text(), process.err.read_text()

    def run_of(self, name: str) -> RunDir:
        """The newest run of a preset, once its supervisor watches over it."""
        def found() -> RunDir | None:
            runs = sorted((self.folder / "runs" / name).glob("*"), key=lambda path: path.stat().st_mtime)
            run = RunDir(runs[-1]) if runs else None
            return run if run and run.read_status() else None

        return until(found)

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        for process in living(self.folder):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def until(condition: Callable[[], Any], timeout_s: float = 90.0) -> Any:
    """The first true value of `condition`; fails after the timeout."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout_s} s")


def living(folder: Path) -> list[psutil.Process]:
    """Every living process that works on something below `folder`: supervisors, launchers, ranks."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(folder) in word for word in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def events(run: RunDir, rank: int = 0, kind: str | None = None) -> list[dict[str, Any]]:
    if not run.events(rank).exists():
        return []
    told = [json.loads(line) for line in run.events(rank).read_text().splitlines() if line.endswith("}")]
    return [event for event in told if kind in (None, event["event"])]


def in_phase(run: RunDir, name: str) -> Callable[[], bool]:
    return lambda: any(event["name"] == name for event in events(run, kind="phase"))


def steps(run: RunDir, count: int, attempt: int = 1) -> Callable[[], bool]:
    return lambda: sum(event["attempt"] == attempt for event in events(run, kind="step")) >= count


def kill_rank(run: RunDir, rank: int) -> None:
    record = next(record for record in run.read_status().processes if record.role == "rank" and record.rank == rank)
    os.kill(record.pid, signal.SIGKILL)


def role(run: RunDir, name: str) -> int:
    return next(record.pid for record in run.read_status().processes if record.role == name)
