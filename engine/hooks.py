"""Gradient communication: compression, and the moments from which waiting is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks


def bf16_hook(_group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average gradients with bf16 on the wire; torch's own hook refuses Gloo."""
    compressed = bucket.buffer().to(torch.bfloat16).div_(dist.get_world_size())
    future = dist.all_reduce(compressed, async_op=True).get_future()
    buffer = bucket.buffer()
    return future.then(lambda done: buffer.copy_(done.value()[0]))


_HOOKS = {"none": default_hooks.allreduce_hook, "fp16": default_hooks.fp16_compress_hook, "bf16": bf16_hook}


def register(model: Any, compression: str, on_last_bucket: Callable[[], None]) -> None:
    """Install the hook of `compression` on a DDP model; `on_last_bucket` is called when the last gradient is ready.

    Registered on the model itself: accelerate ignores a hook that is named by a string.
    """
    inner = _HOOKS[compression]

    # DDP checks the parameter's name
    def hook(_state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        if bucket.is_last():
            on_last_bucket()
        return inner(None, bucket)

    # annotations are strings here, and DDP compares them with the classes
    hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    model.register_comm_hook(None, hook)
