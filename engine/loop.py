"""The training loop."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from engine import best, compiler, strategy
from engine.checkpoint import Checkpointer
from engine.contract.preset import Preset
from engine.errors import NonFiniteError
from engine.evaluate import evaluate
from engine.life import Life
from engine.meter import Meter
from engine.optim import learning_rate_at, set_learning_rate
from engine.process_group import Control
from engine.tasks.base import Task
from engine.tracking import Reporting


@dataclass
class Progress:
    """What a checkpoint remembers beside the weights."""

    step: int = 0
    tokens: int = 0
    best_loss: float | None = None
    bad_evaluations: int = 0
    best_step: int | None = None
    best_value: float | None = None
    best_metric: str | None = None
    skipped: list[int] = field(default_factory=list)


@dataclass
class Training:
    """One rank's training: the parts, built by `engine.train`, and the loop over them."""

    preset: Preset
    task: Task
    life: Life
    accelerator: Any
    control: Control
    model: Any
    optimizer: Any
    data: Any
    total_steps: int
    checkpointer: Checkpointer
    meter: Meter
    progress: Progress = field(default_factory=Progress)
    reporting: Reporting | None = None
    _norms: list[torch.Tensor] = field(default_factory=list)
    _saved: int | None = None

    def run(self) -> str:
        """Train to the end; entered by all ranks. Returns why it ended: completed | early_stopped | requested."""
        life, progress = self.life, self.progress
        self._checkpoint_at = time.monotonic()
        self.model.train()
        if not self.preset.training.compile:  # else the first step is still part of preparing
            life.phase("training")
        ended = "completed"
        while progress.step < self.total_steps:
            self.control.announce(self._word())
            self._optimizer_step(progress.step)
            progress.step = life.step = progress.step + 1
            word = self.control.heard()
            if life.phase_name == "preparing":
                life.phase("training")
            if self.reporting is not None:
                self.reporting.step_done(progress.step, self.meter)
            if word == Control.ABORT:
                self.meter.flush()
                return "requested"
            if self._evaluation_due() and self._evaluate():
                ended = "early_stopped"
                break
            if word == Control.STOP:
                ended = "requested"
                break
            if self._checkpoint_due(word):
                self.save()
        self.meter.flush()
        if self.reporting is not None:
            self.reporting.step_done(progress.step, self.meter, last=True)
        self.save()  # also at the end, so that a finished training can be prolonged
        return ended

    def _optimizer_step(self, step: int) -> None:
        preset, meter, train = self.preset, self.meter, self.data.train
        plan, world, rank = preset.training, self.accelerator.num_processes, self.accelerator.process_index
        meter.begin()
        rate = learning_rate_at(step, self.total_steps, plan)
        set_learning_rate(self.optimizer, rate)
        indices = train.step_indices(plan.seed, step, plan.global_batch)
        # every rank knows every rank's share, so the loss is weighted by the step's targets without asking
        targets = int(train.targets[indices].sum())
        mine = indices.reshape(plan.gradient_accumulation, world, plan.micro_batch)[:, rank]
        losses = torch.zeros((), dtype=torch.float64 if self.accelerator.device.type != "mps" else torch.float32,
                             device=self.accelerator.device)
        for number, micro in enumerate(mine):
            began = time.perf_counter()
            batch = {key: value.to(self.accelerator.device, non_blocking=True) for key, value in train.collate(micro).items()}
            meter.reading(time.perf_counter() - began)
            last = number == len(mine) - 1
            # gradients travel once per optimizer step, with the last micro-batch
            with strategy.gradient_traffic(self.model, preset, self.accelerator, last):
                loss = self.task.loss_sum(self.model, batch)
                self.accelerator.backward(loss * (world / max(1, targets)))  # gradients are averaged over the ranks
            losses += loss.detach()
        meter.computed()
        norm = self._update(step)
        tokens = int(train.tokens[mine.reshape(-1)].sum())
        self.progress.tokens += int(train.tokens[indices].sum())
        meter.end(step + 1, losses, target_tokens=int(train.targets[mine.reshape(-1)].sum()), tokens=tokens,
                  samples=mine.size, learning_rate=rate, grad_norm=norm)

    def _update(self, step: int) -> torch.Tensor:
        """Clip, check and apply the gradients; the norm is the same on all ranks, so all decide alike."""
        plan = self.preset.training
        norm = strategy.clip(self.model, self.preset, self.accelerator)
        # looking waits for the device, so on a GPU a run that stops anyway looks only before it saves or evaluates;
        # fp16's loss scaler finds overflows itself and skips them
        look_now = self.accelerator.device.type == "cpu" or plan.on_non_finite == "skip"
        if not look_now:
            self._norms.append(norm.detach())
        if look_now and plan.precision != "fp16" and not math.isfinite(float(norm)):
            if plan.on_non_finite == "stop":
                self._non_finite(step + 1)
            self.progress.skipped.append(step + 1)
            self.life.warn("non_finite", f"step {step + 1}: gradients are not finite; the step is skipped "
                                         f"({len(self.progress.skipped)} so far)")
        else:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def _check_numbers(self) -> None:
        """Look at what was not looked at step by step; entered by all ranks, before anything is kept."""
        good = not self._norms or self.preset.training.precision == "fp16" or bool(torch.stack(self._norms).isfinite().all())
        self._norms.clear()
        if not self.control.all_ok(good):
            self._non_finite(self.progress.step)

    def _non_finite(self, step: int) -> None:
        raise NonFiniteError(f"loss or gradients are not finite at step {step}; a lower training.learning_rate or "
                             "training.max_grad_norm usually helps, on_non_finite: skip leaves such steps out")

    def _word(self) -> int:
        """What this rank has to say to all at this step: a stop asked for on any machine stops all of them."""
        request = self.life.run.read_stop() if self.checkpointer.keeper else None
        if request is not None:
            return Control.STOP if request.get("checkpoint", True) else Control.ABORT
        if self.life.stop_signal is not None:
            return Control.STOP
        minutes = self.preset.checkpoints.every_minutes
        due = minutes is not None and time.monotonic() - self._checkpoint_at >= minutes * 60
        return Control.CHECKPOINT if due and self.accelerator.is_main_process else 0

    def _evaluation_due(self) -> bool:
        every, step = self.preset.training.eval_every, self.progress.step
        if self.data.valid is None or every == "never":
            return False
        if step == self.total_steps:
            return True
        if every == "epoch":
            batch, rows = self.preset.training.global_batch, len(self.data.train)
            return step * batch // rows > (step - 1) * batch // rows
        return every != "end" and step % every == 0

    def _evaluate(self) -> bool:
        """Evaluate on all ranks; True when early stopping says that it is enough."""
        self.meter.flush()
        self._check_numbers()
        self.life.phase("evaluating", s_limit=compiler.LIMIT_S if self.preset.training.compile else None)
        result, metrics = evaluate(self)
        if not math.isfinite(result):
            self._non_finite(self.progress.step)
        progress, patience = self.progress, self.preset.training.early_stopping
        # patience asks for a drop that is worth something; the best checkpoint is simply the best
        if progress.best_loss is None or result < progress.best_loss - (patience.min_delta if patience else 0.0):
            progress.best_loss, progress.bad_evaluations = result, 0
        else:
            progress.bad_evaluations += 1
        if best.note(self, result, metrics) and self.preset.checkpoints.keep_best:
            self.save()
        self.life.phase("training")
        return patience is not None and progress.bad_evaluations >= patience.patience

    def _checkpoint_due(self, word: int) -> bool:
        every = self.preset.checkpoints.every_steps
        return word == Control.CHECKPOINT or (every is not None and self.progress.step % every == 0)

    def save(self) -> None:
        """Checkpoint the present step, once; entered by all ranks."""
        step, progress = self.progress.step, self.progress
        if step == 0 or self._saved == step:
            return
        self.meter.flush()
        self._check_numbers()
        self.life.phase("saving checkpoint")
        protect = (progress.best_step,) if self.preset.checkpoints.keep_best and progress.best_step else ()
        path, seconds, size = self.checkpointer.save(step, vars(progress), protect)
        self._saved, self._checkpoint_at = step, time.monotonic()
        if self.checkpointer.keeper:
            self.life.events.write("checkpoint", step=step, path=str(path), duration_s=round(seconds, 3), bytes=size)
        self.life.phase("training")
