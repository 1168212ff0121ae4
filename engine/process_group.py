"""Joining the ranks together, and proof that what was joined is what the preset says."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from engine.contract.preset import Preset
from engine.errors import PresetMismatch

_MIXED = {"fp32": "no", "fp16": "fp16", "bf16": "bf16"}


def expected_world_size(preset: Preset) -> int:
    return preset.distributed.num_nodes * preset.distributed.num_processes_per_node


def connect(preset: Preset) -> Any:
    """The Accelerator of this rank, on the preset's backend, with the preset's timeout.

    Only code chooses the backend: no flag of the launcher and no environment variable does. Raises PresetMismatch
    when world size, backend, device, strategy or precision are not the preset's.
    """
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs

    choice, precision = preset.distributed, preset.training.precision
    cpu = choice.num_gpus_per_node == 0
    if cpu and precision == "fp16":
        raise PresetMismatch("training.precision: fp16 does nothing on a CPU; use fp32 (or bf16 with AMX or AVX512-BF16)")
    if choice.strategy == "fsdp" and choice.backend == "gloo" and not cpu:
        raise PresetMismatch("distributed.backend: gloo does not reduce and scatter GPU tensors, which fsdp needs; use auto")
    torch.set_num_threads(choice.threads_per_process)
    warnings.filterwarnings("ignore", message=".*broadcast_buffers.*")
    handlers: list[Any] = [DistributedDataParallelKwargs(
        # buffers of language models are constants; sending them before each forward pass costs a round trip
        broadcast_buffers=False, bucket_cap_mb=choice.communication.bucket_mb, gradient_as_bucket_view=True)]
    if choice.backend != "none":
        handlers.append(InitProcessGroupKwargs(backend=choice.backend, timeout=timedelta(seconds=choice.timeout_s)))
    accelerator = Accelerator(cpu=cpu, mixed_precision=_MIXED[precision], kwargs_handlers=handlers)
    _check(accelerator, preset)
    return accelerator


def _check(accelerator: Any, preset: Preset) -> None:
    choice, facts = preset.distributed, describe(accelerator, preset)
    wrong = []
    for name, is_, should in (
        ("world size", facts["world_size"], expected_world_size(preset)),
        ("backend", facts["backend"], choice.backend),
        ("device", "cpu" if facts["device"] == "cpu" else "gpu", "cpu" if choice.num_gpus_per_node == 0 else "gpu"),
        ("strategy", facts["strategy"], choice.strategy),
        ("precision", facts["precision"], preset.training.precision),
    ):
        if is_ != should:
            wrong.append(f"{name} is {is_}, the preset says {should}")
    if wrong:
        raise PresetMismatch("what was started is not what the preset says: " + "; ".join(wrong))
    if facts["world_size"] > 1:
        total = torch.ones(1, device=accelerator.device)
        dist.all_reduce(total)
        if int(total) != facts["world_size"]:
            raise PresetMismatch(f"an all-reduce of ones over {facts['world_size']} ranks gave {float(total)}")


def describe(accelerator: Any, preset: Preset) -> dict[str, Any]:
    """What this rank really runs on, in the preset's words.

    Of the strategy this is what the launch allows for: in a plain group of processes the engine wraps the model
    itself, and `engine.strategy.check` proves it before the first step.
    """
    from accelerate.utils import DistributedType

    kind = accelerator.distributed_type
    plain = preset.distributed.strategy if preset.distributed.strategy in ("ddp", "fsdp") else "ddp"
    strategy = {DistributedType.NO: "single", DistributedType.FSDP: "accelerate's own fsdp", DistributedType.DEEPSPEED: "accelerate's deepspeed"}
    device = accelerator.device
    cuda = device.type == "cuda"
    return {
        "world_size": accelerator.num_processes,
        "backend": _real_backend(device.type),
        "device": "cpu" if device.type == "cpu" else str(device),
        "device_name": torch.cuda.get_device_name(device) if cuda else None,
        "strategy": strategy.get(kind, plain),
        "precision": {"no": "fp32"}.get(accelerator.mixed_precision, accelerator.mixed_precision),
        "host": platform.node(),
        "pid": os.getpid(),
        "threads": torch.get_num_threads(),
    }


def _real_backend(device_type: str) -> str:
    if not dist.is_initialized():
        return "none"
    name = dist.get_backend()
    # sharded strategies may ask for one backend per device type: the device's own is what carries gradients
    return dict(part.split(":") for part in name.split(",")).get(device_type, name) if ":" in name else name


class Control:
    """Agreement between ranks that does not ride on the gradients' communication.

    Its groups are Gloo over CPU tensors, so that words cost no device synchronisation. `long` waits a day, for what
    one rank does while the others wait (reading and tokenizing data).
    """

    #: Words in order of urgency: the most urgent one is heard. A stop saves a checkpoint as well.
    CHECKPOINT, STOP, ABORT = 1, 2, 3

    def __init__(self, world_size: int, timeout_s: int):
        self.world_size = world_size
        self._pending: tuple[torch.Tensor, Any] | None = None
        if world_size > 1:
            self.group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout_s))
            self.long = dist.new_group(backend="gloo", timeout=timedelta(hours=24))

    def announce(self, word: int) -> None:
        """Start telling `word` (0: none) to all ranks; it travels while they compute. Entered by all ranks."""
        tensor = torch.tensor([word], dtype=torch.int64)
        work = None
        if self.world_size > 1:
            work = dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self.group, async_op=True)
        self._pending = (tensor, work)

    def heard(self) -> int:
        """The most urgent word of those announced before, the same on all ranks."""
        tensor, work = self._pending
        if work is not None:
            work.wait()
        return int(tensor)

    def gather(self, *values: int) -> list[tuple[int, ...]]:
        """The values of every rank, by rank. Entered by all ranks, each with as many."""
        if self.world_size == 1:
            return [values]
        mine = torch.tensor(values, dtype=torch.int64)
        theirs = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(theirs, mine, group=self.group)
        return [tuple(rank.tolist()) for rank in theirs]

    def total(self, *values: float) -> list[float]:
        """Sums over all ranks, in double precision. Entered by all ranks."""
        return self.total_later(*values)()

    def total_later(self, *values: float) -> Callable[[], list[float]]:
        """The same, begun now; what is returned waits for the sums, which travel meanwhile."""
        tensor = torch.tensor(values, dtype=torch.float64)
        work = dist.all_reduce(tensor, group=self.group, async_op=True) if self.world_size > 1 else None

        def sums() -> list[float]:
            if work is not None:
                work.wait()
            return tensor.tolist()

        return sums

    def all_ok(self, ok: bool, long: bool = False) -> bool:
        """Whether every rank says ok; also a barrier. Entered by all ranks, failed ones too."""
        if self.world_size == 1:
            return ok
        tensor = torch.tensor([int(ok)], dtype=torch.int64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MIN, group=self.long if long else self.group)
        return bool(tensor)
