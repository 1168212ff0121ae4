"""What the preset's schema allows but a launch must refuse."""

from __future__ import annotations

from engine.contract.preset import TRAINABLE_TASKS, Preset
from engine.contract.problems import PresetError, Problem
from wizard.launch.environment import is_reserved, is_secret


def check_supported(preset: Preset, file: str | None = None) -> None:
    """Raises PresetError with every reason not to launch this preset with this version."""
    problems = []
    if preset.task not in TRAINABLE_TASKS:
        problems.append(Problem(key="task", found=preset.task, file=file,
                                expected=f"a task this version trains: {', '.join(TRAINABLE_TASKS)}"))
    for name in preset.distributed.env:
        key = f"distributed.env.{name}"
        if name == "OMP_NUM_THREADS":
            problems.append(Problem(key=key, found="a value", expected="distributed.threads_per_process", file=file))
        elif is_reserved(name):
            problems.append(Problem(key=key, found="a variable that the launch decides", file=file,
                                    expected="the preset's own keys for devices, ranks and strategy"))
        elif is_secret(name):
            problems.append(Problem(key=key, found="a secret", file=file,
                                    expected="it in the shell's environment, which every rank inherits"))
    if preset.distributed.strategy == "deepspeed":
        problems.append(Problem(key="distributed.strategy", found="deepspeed, which this version does not drive", file=file,
                                expected="fsdp: it shards the same weights, gradients and optimizer state (ZeRO stage 3)"))
    if preset.distributed.strategy == "fsdp" and preset.model.quantization:
        problems.append(Problem(key="distributed.strategy", found="fsdp with model.quantization", file=file,
                                expected="ddp: quantized weights are not cut into shards"))
    if preset.distributed.fsdp.offload_params and preset.distributed.num_gpus_per_node == 0:
        problems.append(Problem(key="distributed.fsdp.offload_params", found="true without GPUs", file=file,
                                expected="false: the weights are in host memory already"))
    if preset.distributed.num_nodes > 1 and not preset.distributed.main_address:
        problems.append(Problem(key="distributed.main_address", found="nothing", file=file,
                                expected="the address of the first machine, as the others reach it"))
    if problems:
        raise PresetError(problems)
