"""Optimizer and learning-rate schedule. The rate is a function of the step alone: nothing to save or to restore."""

from __future__ import annotations

import math
from typing import Any

import torch

from engine.contract.preset import Training


def build_optimizer(model: torch.nn.Module, training: Training, from_scratch: bool) -> torch.optim.Optimizer:
    """AdamW (fused) or SGD with momentum 0.9 over the trainable weights.

    Weight decay applies to matrices only: decaying norms and biases pulls them from 1 and 0 for no gain
    (Loshchilov and Hutter 2019 decay all; leaving vectors out is the practice since GPT-2). From scratch beta2 is
    0.95, as in the same line of models: early gradients change faster than 0.999 can follow.
    """
    trainable = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in trainable if weight.ndim >= 2], "weight_decay": training.weight_decay},
        {"params": [weight for weight in trainable if weight.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if training.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=training.learning_rate, momentum=0.9)
    kinds = {weight.device.type for weight in trainable}
    return torch.optim.AdamW(groups, lr=training.learning_rate, betas=(0.9, 0.95 if from_scratch else 0.999),
                             fused=kinds <= {"cpu", "cuda", "xpu", "mps"})


def warmup_steps(training: Training, total_steps: int) -> int:
    """Steps in which the rate rises: as given, or a share of all steps (0.03 by default), rounded up."""
    if training.warmup_steps is not None:
        return training.warmup_steps
    ratio = 0.03 if training.warmup_ratio is None else training.warmup_ratio
    return math.ceil(ratio * total_steps)


def learning_rate_at(step: int, total_steps: int, training: Training) -> float:
    """Learning rate of optimizer step `step` (from 0).

    Rises linearly over the warm-up, then falls to 0 (linear), to a tenth along half a cosine (cosine; the tenth as
    in Hoffmann et al. 2022), or stays (constant).
    """
    peak, warm = training.learning_rate, warmup_steps(training, total_steps)
    if step < warm:
        return peak * (step + 1) / warm
    if training.scheduler == "constant":
        return peak
    share = min(1.0, (step - warm) / max(1, total_steps - warm))
    if training.scheduler == "linear":
        return peak * (1.0 - share)
    return peak * (0.1 + 0.45 * (1.0 + math.cos(math.pi * share)))


def set_learning_rate(optimizer: Any, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
