"""Evaluation over all ranks."""

from __future__ import annotations

import time
from typing import Any

import numpy
import torch


def evaluate(training: Any) -> tuple[float, dict[str, float | None]]:
    """Mean loss of a target (nats) over the validation split, and the task's metrics; the same on all ranks, which
    enter it together.

    Every rank runs the same number of batches (short ones repeat an example without targets), so that no rank waits
    in a collective that others do not enter, whatever the strategy.
    """
    began = time.perf_counter()
    accelerator, valid, life = training.accelerator, training.data.valid, training.life
    micro, world, rank = training.preset.training.micro_batch, accelerator.num_processes, accelerator.process_index
    batches = -(-len(valid) // (micro * world))
    training.model.eval()
    total = torch.zeros((), dtype=torch.float32 if accelerator.device.type == "mps" else torch.float64, device=accelerator.device)
    targets, counts = 0, None
    with torch.no_grad():
        for number in range(batches):
            first = (number * world + rank) * micro
            indices = numpy.arange(first, first + micro)
            real = indices < len(valid)
            batch = valid.collate(numpy.where(real, indices, 0))
            batch["labels"][~torch.from_numpy(real)] = -100
            targets += int(valid.targets[indices[real]].sum())
            batch = {key: value.to(accelerator.device, non_blocking=True) for key, value in batch.items()}
            loss_sum, found = training.task.evaluate(training.model, batch)
            total += loss_sum
            counts = found.to(total) if counts is None else counts + found
            life.phase("evaluating", (number + 1) / batches)
    training.model.train()
    loss_sum, target_tokens, *sums = training.control.total(float(total), targets, *counts.tolist())
    loss = loss_sum / max(1.0, target_tokens)
    metrics = training.task.metrics(loss, sums)
    if training.checkpointer.keeper:
        life.events.write("evaluation", step=training.progress.step, loss=loss, target_tokens=int(target_tokens),
                          duration_s=round(time.perf_counter() - began, 3), metrics=metrics)
    return loss, metrics
