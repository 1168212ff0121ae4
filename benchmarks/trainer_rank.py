"""One side of the comparison: `python -m benchmarks.trainer_rank engine|trainer RUN_DIR ANSWER`.

ANSWER is a JSON file: seconds (wall and CPU) of the measured steps, peak bytes of the process, losses.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.trainer import STEPS
from engine.contract.load import load_preset
from engine.contract.run_dir import RunDir


class Clock:
    """Told at the beginning of each optimizer step, from 0."""

    def __init__(self) -> None:
        self.marks: dict[int, tuple[float, float]] = {}

    def begins(self, step: int) -> None:
        if step in (STEPS[0], sum(STEPS)):
            self.marks[step] = time.perf_counter(), time.process_time()

    def measured(self, losses: list[float]) -> dict[str, Any]:
        (wall, cpu), (wall_end, cpu_end) = self.marks[STEPS[0]], self.marks[sum(STEPS)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {"wall_s": wall_end - wall, "cpu_s": cpu_end - cpu, "peak_bytes": peak, "losses": losses}


def by_engine(run: RunDir) -> dict[str, Any]:
    from engine import loop, train
    from engine.life import Life

    clock, word, life = Clock(), loop.Training._word, Life(run, 0, 1)

    def timed_word(training: Any) -> int:
        clock.begins(training.progress.step)
        return word(training)

    run_loop = loop.Training.run

    def run_and_measure(training: Any) -> str:
        run_loop(training)
        return "requested"  # no model to write

    loop.Training._word, loop.Training.run = timed_word, run_and_measure
    train.train(run, life)
    steps = [json.loads(line) for line in run.events(0).read_text().splitlines() if '"event": "step"' in line]
    life.end("stopped", "requested")
    return clock.measured([record["loss_sum"] / record["target_tokens"] for record in steps])


def by_trainer(run: RunDir) -> dict[str, Any]:
    """As a person would write it, on the engine's own sequences and initial weights."""
    import torch
    from transformers import AutoTokenizer, Trainer, TrainerCallback, TrainingArguments

    from engine.tasks import llm

    preset = load_preset(run.resolved(1))
    plan, folder = preset.training, run.root / "data"
    torch.set_num_threads(preset.distributed.threads_per_process)
    llm.prepare_data(preset, folder, lambda *_: None)
    train = llm.open_data(folder).train
    order = [int(index) for step in range(plan.max_steps) for index in train.step_indices(plan.seed, step, plan.global_batch)]
    clock, losses = Clock(), []

    class InOrder(Trainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(order)

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            losses.append(super().training_step(*args, **kwargs))
            return losses[-1]

    class Timed(TrainerCallback):
        def on_step_begin(self, _arguments: Any, state: Any, _control: Any, **_: Any) -> None:
            clock.begins(state.global_step)

    def collate(indices: list[int]) -> dict[str, torch.Tensor]:
        batch = train.collate(indices)
        return {**batch, "shift_labels": batch["labels"]}

    model = llm.build_model(preset, AutoTokenizer.from_pretrained(folder / "tokenizer"), None)
    arguments = TrainingArguments(
        str(run.root / "trainer"), max_steps=plan.max_steps, per_device_train_batch_size=plan.micro_batch,
        gradient_accumulation_steps=plan.gradient_accumulation, learning_rate=plan.learning_rate, lr_scheduler_type="constant",
        adam_beta2=0.95, weight_decay=plan.weight_decay, max_grad_norm=plan.max_grad_norm, logging_steps=plan.log_every, use_cpu=True,
        report_to="none", save_strategy="no", disable_tqdm=True, remove_unused_columns=False)
    InOrder(model, arguments, data_collator=collate, train_dataset=order, callbacks=[Timed()]).train()
    count = plan.gradient_accumulation
    return clock.measured([float(sum(losses[first: first + count])) for first in range(0, len(losses), count)])


def main() -> int:
    side, run, answer = sys.argv[1], RunDir(Path(sys.argv[2])), Path(sys.argv[3])
    answer.write_text(json.dumps({"engine": by_engine, "trainer": by_trainer}[side](run)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
