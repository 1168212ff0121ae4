"""Fully sharded data parallel: weights, gradients and optimizer state cut into one part per rank.

torch's own FSDP2 is applied here, block by block, instead of accelerate's plugin: on a CPU accelerate turns FSDP into
DDP without a word, and one path that is run with every test on CPU ranks is worth more than two of which one never is.
accelerate is told of a plain group of processes, and the strategy is read off the wrapped model.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from engine.contract.preset import Preset
from engine.errors import ModelError

_M_MMAP_THRESHOLD, _MMAP_FROM_BYTES = -3, 2 << 20  # the number of mallopt(3)
_WIDTHS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def shard(model: nn.Module, preset: Preset, device: torch.device) -> nn.Module:
    """Shard `model` in place over all ranks and move it to `device`; entered by all ranks. Returns it.

    One transformer block is one unit: gathered for its forward pass, dropped, gathered again for its backward pass.
    What belongs to no block (embeddings, last norm, output matrix) is a unit of its own that stays gathered from
    forward to backward. Under bf16 and fp16 weights are gathered and used in 16 bits and gradients summed in fp32,
    which replaces autocast. Raises ModelError when nothing in the model can be told to be a block.
    """
    options = preset.distributed.fsdp
    found = blocks(model)
    if not found:
        raise ModelError(f"distributed.strategy: no repeated block is found in {type(model).__name__}, so fsdp would gather "
                         "all of it at once; use ddp")
    if device.type == "cpu":
        _give_back_what_is_freed()
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    width = _WIDTHS.get(preset.training.precision)
    settings: dict[str, Any] = {
        "mesh": mesh,
        "mp_policy": MixedPrecisionPolicy(param_dtype=width, reduce_dtype=torch.float32 if width else None),
        "offload_policy": CPUOffloadPolicy() if options.offload_params else OffloadPolicy(),
    }
    for block in found:
        fully_shard(block, reshard_after_forward=options.reshard_after_forward, **settings)
    return fully_shard(model, **settings)


def _give_back_what_is_freed() -> None:
    """Have the C library return freed tensors to the system (glibc only).

    Gathered weights come and go in each pass. By default glibc soon keeps blocks of up to 32 MB for later, and a model
    of 135 million parameters, sharded over 2 ranks, held 2.9 GB a rank where 1.6 are enough. The price is page faults.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # TypeError: no library of the whole process (Windows)
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MMAP_FROM_BYTES)


def blocks(model: nn.Module) -> list[nn.Module]:
    """The repeated blocks of a model, in the order of their work.

    Those that transformers says must not be split, else the entries of the longest list of equal modules. A block
    that shares a weight with the rest of the model (a tied embedding) is none: a weight belongs to one unit.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    named = set(getattr(base, "_no_split_modules", None) or ())
    lists = [list(module) for module in model.modules()
             if isinstance(module, nn.ModuleList) and len({type(entry) for entry in module}) == 1]
    told = _separate(model, [module for module in model.modules() if type(module).__name__ in named])
    return told or max((_separate(model, entries) for entries in lists), key=len, default=[])


def _separate(model: nn.Module, candidates: list[nn.Module]) -> list[nn.Module]:
    """Candidates that lie in no other candidate and whose weights are used nowhere else."""
    inner = {id(module) for block in candidates for module in block.modules() if module is not block}
    outer = [block for block in candidates if id(block) not in inner]
    uses: dict[int, int] = {}
    for module in model.modules():
        for weight in module.parameters(recurse=False):
            uses[id(weight)] = uses.get(id(weight), 0) + 1
    own = [_uses(block) for block in outer]
    return [block for block, mine in zip(outer, own, strict=True) if mine and all(uses[key] == count for key, count in mine.items())]


def _uses(block: nn.Module) -> dict[int, int]:
    counts: dict[int, int] = {}
    for module in block.modules():
        for weight in module.parameters(recurse=False):
            counts[id(weight)] = counts.get(id(weight), 0) + 1
    return counts


def is_sharded(model: nn.Module) -> bool:
    """Whether `shard` made it what it is."""
    return isinstance(model, FSDPModule)


def named_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights by name, each once; of a sharded model as the optimizer knows them, which is not what an evaluation
    leaves behind: weights gathered for a forward pass stay so until a backward pass."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
    return dict(model.named_parameters())


def local_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes that this rank holds of `tensors`."""
    return sum(local.numel() * local.element_size() for local in map(local_part, tensors))


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The whole of a sharded tensor, on every rank; entered by all ranks. Others are returned as they are."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A copy of `value`, which is whole on every rank, cut as `target` is; nothing travels."""
    if not isinstance(target, DTensor) or value.shape != target.shape:
        return value.clone()
    return distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None).clone()


def clip_grad_norm(weights: Iterable[torch.Tensor], max_norm: float, device: torch.device) -> torch.Tensor:
    """Scale sharded gradients so that their norm over all ranks is at most `max_norm`; returns the norm before.

    One all-reduce of a number on `device`, the group's; entered by all ranks, the same result on each. (torch's own
    clipping handles sharded gradients too, with one collective per weight.)
    """
    parts = [local_part(weight.grad) for weight in weights if weight.grad is not None]
    parts = [part for part in parts if part.numel()]
    squares = torch.zeros((), dtype=torch.float32, device=device)
    if parts:
        norms = torch.stack(torch._foreach_norm(parts))
        squares += torch.linalg.vector_norm(norms.float()).to(device) ** 2
    dist.all_reduce(squares)
    norm = squares.sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    if parts:
        torch._foreach_mul_(parts, scale.to(parts[0].device))
    return norm
