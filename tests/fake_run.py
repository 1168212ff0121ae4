"""Makes run folders as the engine and the supervisor would, without either: for tests, and to look at the monitor.

`python -m tests.fake_run FOLDER --ranks 2 --steps 300 --step-s 0.2 --live` plays a run in real time; without
`--live` the whole run is there at once. `--fault` adds one of FAULTS.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from pathlib import Path
from typing import Any

from engine.contract.events import EventWriter, ExitReason
from engine.contract.load import dump_preset, preset_from_data
from engine.contract.run_dir import RunDir, Status, process_record

FAULTS = ("half-line", "killed", "nan", "hung", "exception", "resumed", "slow-rank")
TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/engine/train.py", line 61, in main
    run_loop(parts)
  File "/opt/engine/loop.py", line 88, in run_loop
    loss = task.loss(model, batch)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. [rank1] has 79.1 GiB in use.
"""


class FakeRun:
    """One run in `folder`, told step by step. Times come from a made-up clock unless `live`."""

    def __init__(self, folder: Path, ranks: int = 2, steps: int = 60, step_s: float = 0.5, name: str = "quickstart",
                 log_every: int = 5, eval_every: int = 20, checkpoint_every: int = 20, gpu: bool = False,
                 slow_rank: int | None = None, live: bool = False, began: float | None = None, folder_is_run: bool = False,
                 task: str = "llm-pretrain", tells: tuple[str, ...] = ("loss", "samples")):
        self.ranks, self.steps, self.step_s, self.name = ranks, steps, step_s, name
        #: `tells`: what a script tells of its steps.
        self.task, self.tells = task, tells
        self.log_every, self.eval_every, self.checkpoint_every = log_every, eval_every, checkpoint_every
        self.gpu, self.slow_rank, self.live = gpu, slow_rank, live
        self.began = began if began is not None else time.time() - (0 if live else steps * step_s + 30)
        self.clock = 0.0
        self.random = random.Random(7)
        self.attempt = 0
        self.held: dict[int, list[dict[str, Any]]] = {}
        self.writers: dict[int, EventWriter] = {}
        self.nan_at: set[int] = set()
        self.run = RunDir(folder) if folder_is_run else RunDir.create(folder, name)
        what = {
            "llm-pretrain": {"model": {"from_config": {"model_type": "llama"}},
                             "data": {"train": "builtin:python-docs", "valid": 0.02, "max_length": 256, "packing": True}},
            "text-classification": {"model": {"path": "/models/bert"}, "data": {"train": "/data/reviews.csv", "valid": 0.1}},
            "script": {"script": {"path": "/home/me/train.py"}},
        }[task]
        self.preset = preset_from_data({
            "version": 1, "name": name, "task": task, **what,
            "training": {"max_steps": steps, "global_batch": 8 * ranks, "micro_batch": 8, "gradient_accumulation": 1,
                         "learning_rate": 3e-3, "precision": "fp32", "eval_every": eval_every, "log_every": log_every},
            "distributed": {"backend": "nccl" if gpu else "gloo", "strategy": "ddp", "num_gpus_per_node": ranks if gpu else 0,
                            "num_processes_per_node": ranks, "threads_per_process": 1},
            "checkpoints": {"every_steps": checkpoint_every}})
        self.run.preset.write_text(dump_preset(self.preset))

    @property
    def now(self) -> float:
        return self.began + self.clock

    def sleep(self, seconds: float) -> None:
        if self.live:
            time.sleep(seconds)
            self.clock = time.time() - self.began
        else:
            self.clock += seconds

    def write(self, rank: int, event: str, **fields: Any) -> None:
        self.writers[rank].write(event, t_unix_s=round(self.now, 4), t_mono_s=round(1000 + self.clock, 4), **fields)

    def all(self, event: str, **fields: Any) -> None:
        for rank in range(self.ranks):
            self.write(rank, event, **fields)

    def status(self, state: str, reason: ExitReason | None = None) -> None:
        ended = self.now if state in ("finished", "stopped", "failed", "lost") else None
        self.run.write_status(Status(
            state=state, attempt=self.attempt, processes=[process_record("supervisor")], started_unix_s=self.began,
            ended_unix_s=ended, exit_reason=reason, model_path=str(self.run.model) if state == "finished" and self.task != "script" else None))

    def launch(self, resumed_from: int | None = None) -> None:
        """A new attempt: status, resolved preset, the first events."""
        self.attempt += 1
        self.run.attempt(self.attempt).mkdir()
        self.run.resolved(self.attempt).write_text(dump_preset(self.preset))
        self.status("starting")
        self.sleep(0.1)
        for rank in range(self.ranks):
            self.writers[rank] = EventWriter(self.run.events(rank), rank, self.attempt)
            self.held[rank] = []
        self.phase("starting")
        self.resumed_from = resumed_from

    def phase(self, name: str, **fields: Any) -> None:
        for rank in range(self.ranks):
            self.write(rank, "phase", **({"name": name, "progress": None, "detail": None, "s_limit": None} | fields))
            self.log(rank, f"{name} {fields.get('detail') or ''}")

    def log(self, rank: int, text: str) -> None:
        with open(self.run.log(rank), "a") as handle:
            handle.write(text + "\n")

    def load(self, scale: float = 1.0) -> None:
        """Everything before the first step."""
        if self.task == "script":
            self.begin_script()
            return
        self.sleep(0.2 * scale)
        self.phase("loading libraries")
        self.sleep(3.0 * scale)
        self.phase("connecting")
        self.write(0, "run_started", name=self.name, task=self.task, world_size=self.ranks,
                   versions={"torch": "2.13.0"}, resumed_from_step=self.resumed_from)
        for rank in range(self.ranks):
            self.write(rank, "rank_ready", world_size=self.ranks, backend="nccl" if self.gpu else "gloo",
                       device=f"cuda:{rank}" if self.gpu else "cpu", strategy="ddp", precision="fp32", host="node1",
                       pid=1000 + rank, create_time=self.began, threads=1,
                       device_name="NVIDIA A100-SXM4-80GB" if self.gpu else None)
        for part in (0.0, 0.4, 1.0):
            self.phase("loading data", progress=part, detail="41,204 texts, 6.1 M tokens" if part == 1.0 else "reading")
            self.sleep(0.5 * scale)
        self.phase("loading model")
        self.sleep(0.5 * scale)
        self.phase("preparing")
        self.write(0, "plan", total_steps=self.steps, steps_per_epoch=self.steps / 2, global_batch=8 * self.ranks,
                   micro_batch=8, gradient_accumulation=1, max_length=256, packing=True, train_rows=41_204,
                   train_tokens=6_100_000, valid_rows=840, parameters=2_630_000, trainable_parameters=2_630_000,
                   flops_per_token=1.6e7, learning_rate=3e-3, log_every=self.log_every)
        self.sleep(0.2 * scale)
        self.phase("training")

    def begin_script(self) -> None:
        """What is told before the script says anything itself."""
        self.write(0, "run_started", name=self.name, task="script", world_size=self.ranks, versions={}, resumed_from_step=None)
        for rank in range(self.ranks):
            self.write(rank, "rank_ready", world_size=self.ranks, backend="not joined yet", device="cpu", strategy="script",
                       precision="script", host="node1", pid=1000 + rank, create_time=self.began, threads=1)
        self.phase("running", s_limit=86_400)
        self.sleep(1.0)
        self.phase("training", s_limit=600)

    def train(self, first: int, last: int, ranks: list[int] | None = None) -> None:
        """Optimizer steps first..last, with their evaluations and checkpoints."""
        for step in range(first, last + 1):
            self.sleep(self.step_s * (1.1 if self.slow_rank is not None else 1.0))
            for rank in ranks if ranks is not None else range(self.ranks):
                self.held[rank].append(self.step_fields(rank, step))
            if step % self.log_every == 0 or step == 1 or self.live:
                self.flush()
                self.sample(step)
            if ranks is None and step % self.eval_every == 0:
                self.flush()
                self.evaluate(step)
            if ranks is None and step % self.checkpoint_every == 0:
                self.flush()
                self.save(step)

    def step_fields(self, rank: int, step: int) -> dict[str, Any]:
        total = self.step_s * 1000 * (1.1 if self.slow_rank is not None else 1.0) * self.random.uniform(0.97, 1.03)
        slow = self.slow_rank == rank
        wait = total * (0.005 if slow else 0.10 if self.slow_rank is not None else 0.06)
        loss = 1.8 + 6.5 * math.exp(-step / (self.steps / 4)) + self.random.gauss(0, 0.03)
        bad = step in self.nan_at
        if self.task == "script":
            weight = 8 if "loss" in self.tells else 0
            return {"step": step, "loss_sum": loss * weight if weight else None, "target_tokens": weight,
                    "tokens": None, "samples": 8 if "samples" in self.tells else None, "learning_rate": None,
                    "grad_norm": None, "step_time_ms": total, "total_steps": self.steps if "total" in self.tells else None}
        return {"step": step, "loss_sum": float("nan") if bad else loss * 2040, "target_tokens": 2040, "tokens": 2048,
                "samples": 8, "learning_rate": 3e-3 * min(1.0, step / 20), "grad_norm": None if bad else
                0.8 + self.random.random() / 5, "step_time_ms": total, "data_ms": total * 0.01, "wait_ms": wait,
                "optimizer_ms": total * 0.05, "compute_ms": total * 0.94 - wait,
                "max_allocated_bytes": 61_000_000_000 if self.gpu else 820_000_000}

    def flush(self) -> None:
        for rank, held in self.held.items():
            for fields in held:
                self.write(rank, "step", **fields)
            held.clear()

    def sample(self, step: int) -> None:
        for rank in range(self.ranks):
            self.write(rank, "heartbeat", phase="training", step=step, s_in_phase=self.clock)
            devices = [{"index": rank, "name": "NVIDIA A100-SXM4-80GB", "utilization_percent": 98,
                        "memory_used_bytes": 61_000_000_000, "memory_total_bytes": 80_000_000_000,
                        "power_w": 391.2 - rank, "temperature_c": 64 + rank}] if self.gpu else []
            self.write(rank, "sample", devices=devices, host={"pid": 1000 + rank, "process_cpu_percent": 98.0,
                                                              "process_memory_bytes": 812_000_000})

    def evaluate(self, step: int) -> None:
        if self.task == "script":
            self.write(0, "evaluation", step=step, loss=None, target_tokens=0, duration_s=0.0, metrics={"accuracy": 0.875})
            return
        self.phase("evaluating")
        self.sleep(2 * self.step_s)
        metrics = {"accuracy": 0.912, "macro_f1": 0.8957} if self.task == "text-classification" else {}
        self.write(0, "evaluation", step=step, loss=1.9 + 6.5 * math.exp(-step / (self.steps / 4)),
                   target_tokens=40_000, duration_s=2 * self.step_s, metrics=metrics)
        self.phase("training")

    def save(self, step: int) -> None:
        if self.task == "script":
            return
        self.phase("saving checkpoint")
        self.sleep(self.step_s)
        path = self.run.checkpoint(step)
        path.mkdir(exist_ok=True)
        self.write(0, "checkpoint", step=step, path=str(path), duration_s=self.step_s, bytes=31_500_000)
        self.phase("training")

    def finish(self) -> None:
        self.flush()
        if self.task == "script":
            self.phase("ending")
            self.all("run_ended", state="finished", exit_reason={"kind": "completed", "rank": None, "step": self.steps,
                                                                 "message": ""}, step=self.steps, model_path=None,
                     model_expected=False)
            self.sleep(0.2)
            self.status("finished", ExitReason(kind="completed", step=self.steps))
            return
        self.phase("saving model")
        self.run.model.mkdir(exist_ok=True)
        self.phase("generating")
        self.write(0, "generation", step=self.steps, prompt="Return the", text=" number of items in [list].\nSee also [/b].")
        self.phase("ending")
        self.all("run_ended", state="finished", exit_reason={"kind": "completed", "rank": None, "step": self.steps,
                                                             "message": ""}, step=self.steps,
                 model_path=str(self.run.model))
        self.sleep(0.2)
        self.status("finished", ExitReason(kind="completed", step=self.steps))

    def fail(self, rank: int = 1, step: int = 0, kind: str = "out_of_memory",
             message: str = "CUDA out of memory. Tried to allocate 2.00 GiB.") -> None:
        self.flush()
        self.log(rank, TRACEBACK)
        self.write(rank, "run_ended", state="failed", step=step, model_path=None,
                   exit_reason={"kind": kind, "rank": rank, "step": step, "message": message})
        self.sleep(0.5)
        self.status("failed", ExitReason(kind=kind, rank=rank, step=step, message=message))

    def kill(self, rank: int) -> None:
        """The rank dies in the middle of a line, and the others fail in their next collective."""
        self.flush()
        self.half_line(rank)
        self.sleep(3)
        for other in set(range(self.ranks)) - {rank}:
            self.write(other, "run_ended", state="failed", step=0, model_path=None, exit_reason={
                "kind": "exception", "rank": other, "step": 0, "message": "RuntimeError: Connection closed by peer"})
        self.status("failed", ExitReason(kind="signal", rank=rank, step=None,
                                         message=f"rank {rank}: killed by SIGKILL; when nobody sent it, it was most often "
                                                 f"the system's out-of-memory killer while training"))

    def half_line(self, rank: int) -> None:
        with open(self.run.events(rank), "a") as handle:
            handle.write('{"event": "step", "v": 1, "t_unix')

    def hang(self, rank: int, seconds: float, step: int) -> None:
        """Hearts beat and nothing moves: `rank` stays at `step`, the others one further; -1: all at `step`."""
        self.flush()
        for _ in range(int(seconds // 5)):
            self.sleep(5)
            for other in range(self.ranks):
                at = step + 1 if rank not in (-1, other) else step
                self.write(other, "heartbeat", phase="training", step=at, s_in_phase=self.clock)

    def play(self, fault: str | None = None) -> FakeRun:
        """The whole life of a run, with one fault."""
        middle = max(2, self.steps // 2)
        if fault == "slow-rank":
            self.slow_rank = self.ranks - 1
        if fault == "nan":
            self.nan_at = {middle}
        self.launch()
        self.load()
        self.status("running")
        if fault in (None, "nan", "slow-rank"):
            self.train(1, self.steps)
            self.finish()
            return self
        self.train(1, middle)
        if fault == "half-line":
            self.half_line(0)
        elif fault == "killed":
            self.kill(self.ranks - 1)
        elif fault == "exception":
            self.fail(self.ranks - 1, middle)
        elif fault == "hung":
            self.hang(self.ranks - 1, 90, middle)
        elif fault == "resumed":
            back = middle // self.checkpoint_every * self.checkpoint_every
            self.kill(self.ranks - 1)
            self.clock += 60
            self.launch(resumed_from=back)
            self.load()
            self.status("running")
            self.train(back + 1, self.steps)
            self.finish()
        return self


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--step-s", type=float, default=0.5)
    parser.add_argument("--name", default="quickstart")
    parser.add_argument("--task", choices=("llm-pretrain", "text-classification", "script"), default="llm-pretrain")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--fault", choices=FAULTS)
    args = parser.parse_args()
    fake = FakeRun(args.folder, args.ranks, args.steps, args.step_s, args.name, gpu=args.gpu, live=args.live,
                   task=args.task)
    print(fake.run.root, flush=True)
    fake.play(args.fault)


if __name__ == "__main__":
    main()
