"""What differs between the strategies around one training step: wrapping, gradient traffic, clipping; and the proof
that a model is wrapped as the preset says."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel

from engine import hooks, sharding
from engine.contract.preset import Preset
from engine.errors import PresetMismatch
from engine.optim import build_optimizer


def wrap(model: Any, preset: Preset, accelerator: Any, on_last_bucket: Callable[[], None]) -> tuple[Any, Any]:
    """Model and optimizer, ready to train on this rank's device; entered by all ranks.

    `on_last_bucket` is called in each backward pass when this rank's last gradient is ready (DDP only). Raises
    PresetMismatch when what came out is not the preset's strategy.
    """
    from_scratch = preset.model.from_config is not None
    if preset.distributed.strategy == "fsdp":
        # the optimizer comes second: sharding replaces the weights it must know
        model = sharding.shard(model, preset, accelerator.device)
        optimizer = accelerator.prepare(build_optimizer(model, preset.training, from_scratch))
    else:
        model, optimizer = accelerator.prepare(model, build_optimizer(model, preset.training, from_scratch))
    check(model, preset)
    if preset.distributed.strategy == "ddp":
        hooks.register(model, preset.distributed.communication.compression, on_last_bucket)
    if preset.training.compile:
        model.compile()
    return model, optimizer


def strategy_of(model: Any) -> str:
    """The strategy in the preset's words, read off the wrapped model itself."""
    if sharding.is_sharded(model):
        return "fsdp"
    if isinstance(model, DistributedDataParallel):
        return "ddp"
    return "single" if not dist.is_initialized() or dist.get_world_size() == 1 else "several models that know nothing of each other"


def check(model: Any, preset: Preset) -> None:
    """Raises PresetMismatch unless `model` is wrapped as the preset says, over all its ranks."""
    is_, should = strategy_of(model), preset.distributed.strategy
    if is_ != should:
        raise PresetMismatch(f"what was started is not what the preset says: strategy is {is_}, the preset says {should}")
    if should == "fsdp":
        world = dist.get_world_size()
        for name, weight in model.named_parameters():
            cut = isinstance(weight, DTensor) and weight.device_mesh.size() == world and weight.placements == (Shard(0),)
            if not cut:
                raise PresetMismatch(f"strategy fsdp: {name} is not cut into parts for all {world} ranks")


def gradient_traffic(model: Any, preset: Preset, accelerator: Any, last: bool) -> contextlib.AbstractContextManager[Any]:
    """The context of one micro-batch's forward and backward pass: gradients travel with the `last` of a step only.

    With `distributed.fsdp.accumulate_sharded` they travel each time, so that no rank keeps them whole in between.
    """
    if preset.distributed.strategy == "fsdp":
        model.set_requires_gradient_sync(last or preset.distributed.fsdp.accumulate_sharded)
        return contextlib.nullcontext()
    return contextlib.nullcontext() if last else accelerator.no_sync(model)


def clip(model: Any, preset: Preset, accelerator: Any) -> torch.Tensor:
    """Clip the gradients to `training.max_grad_norm`; returns their norm over all ranks before that, on all ranks."""
    limit = preset.training.max_grad_norm or math.inf
    if preset.distributed.strategy == "fsdp":
        accelerator.unscale_gradients()
        return sharding.clip_grad_norm(model.parameters(), limit, accelerator.device)
    return accelerator.clip_grad_norm_(model.parameters(), limit)
