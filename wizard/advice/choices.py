"""Choices of the person that this machine cannot follow, or only badly."""

from __future__ import annotations

from engine.contract.findings import Finding
from wizard.advice.devices import Devices
from wizard.advice.reasons import asked, count_of, finding, short_name
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds


def choice_findings(
    devices: Devices,
    inventory: HardwareInventory,
    needs: TrainingNeeds,
    *,
    backend: str,
    strategy: str,
    precision: str,
    processes: int,
    best_precision: str,
) -> list[Finding]:
    """Choices of the person that this machine cannot follow, or only badly."""
    found: list[Finding] = []
    cpu, usable = devices.kind == "cpu", len(devices.used)
    if devices.count > usable and not cpu and not devices.unknown:
        found.append(
            finding(
                "num-processes-exceeds-gpus",
                "certain",
                f"{count_of(devices.count, 'GPU')} asked for, {usable} usable on this machine",
                "inventory",
                devices.words() if usable else "no usable GPU",
                [f"set distributed.num_gpus_per_node to {usable}"],
                {"distributed.num_gpus_per_node": usable},
            )
        )
    elif devices.count and processes > devices.count and not devices.unknown:
        found.append(
            finding(
                "num-processes-exceeds-gpus",
                "certain",
                f"{processes} processes on {count_of(devices.count, 'GPU')}: NCCL fails with two ranks on one device",
                "preset",
                f"distributed.num_processes_per_node: {processes}",
                [f"set it to {devices.count}"],
                {"distributed.num_processes_per_node": devices.count},
            )
        )
    if backend in ("nccl", "xccl", "hccl") and cpu:
        found.append(
            finding(
                "backend-needs-gpu",
                "certain",
                f"backend {backend} cannot carry CPU tensors",
                "preset",
                f"distributed.backend: {backend}",
                ["set distributed.backend to gloo (or auto)"],
                {"distributed.backend": "gloo"},
            )
        )
    if backend == "gloo" and not cpu and processes * needs.num_nodes > 1 and inventory.platform.system != "windows":
        found.append(
            finding(
                "slow-gloo-on-gpu",
                "certain",
                "Gloo moves GPU tensors through host memory: correct, but far slower than NCCL",
                "preset",
                "distributed.backend: gloo",
                ["set distributed.backend to auto"],
                {"distributed.backend": "auto"},
            )
        )
    if processes * needs.num_nodes == 1 and (backend != "none" or strategy != "single"):
        found.append(
            finding(
                "one-rank",
                "certain",
                f"{strategy} over {backend} with one process: there is nobody to share with",
                "preset",
                f"distributed.backend: {needs.backend}, distributed.strategy: {needs.strategy}",
                ["leave backend and strategy to auto, or use several GPUs or machines"],
                {"distributed.backend": "auto", "distributed.strategy": "auto"},
            )
        )
    if strategy == "deepspeed" and cpu:
        found.append(
            finding(
                "deepspeed-on-cpu",
                "certain",
                "DeepSpeed is for GPUs",
                "preset",
                f"distributed.strategy: {strategy}",
                ["set distributed.strategy to fsdp, which shards on a CPU too, or ddp"],
                {"distributed.strategy": "fsdp"},
            )
        )
    if needs.quantization and cpu:
        found.append(
            finding(
                "quantization-needs-gpu",
                "certain",
                "quantized weights need a GPU",
                "preset",
                f"model.quantization: {needs.quantization}",
                ["leave model.quantization out"],
            )
        )
    found += _packages(inventory, needs)
    if asked(needs.precision):
        found += _precision(devices, inventory, precision, best_precision)
    if asked(needs.threads_per_process) and int(needs.threads_per_process) * processes > inventory.cpu.usable_cores:
        cores, total = inventory.cpu.usable_cores, int(needs.threads_per_process) * processes
        found.append(
            finding(
                "slow-thread-oversubscription",
                "certain",
                f"{total} threads on {count_of(cores, 'usable core')}: they take turns and slow each other down",
                "preset",
                f"distributed.threads_per_process: {needs.threads_per_process}",
                [f"set it to {max(1, cores // processes)} or auto"],
                {"distributed.threads_per_process": max(1, cores // processes)},
            )
        )
    return found


def _packages(inventory: HardwareInventory, needs: TrainingNeeds) -> list[Finding]:
    """Optional packages that a choice needs; unknown where the inventory names none at all."""
    have = inventory.software.packages
    wanted = {
        "bitsandbytes": ("quantization", "model.quantization", needs.quantization),
        "deepspeed": ("deepspeed", "distributed.strategy", needs.strategy if needs.strategy == "deepspeed" else None),
    }
    return [
        finding(
            f"{name}-not-installed",
            "certain",
            f"{key}: {value} needs the package {name}, which is not installed here",
            "installed packages",
            f"torch {have['torch']}, no {name}",
            [f"pip install 'autotrain-wizard[{extra}]'"],
        )
        for name, (extra, key, value) in wanted.items()
        if value and "torch" in have and name not in have
    ]


def _precision(devices: Devices, inventory: HardwareInventory, precision: str, best: str) -> list[Finding]:
    patch = {"training.precision": best}
    if devices.kind == "cpu" and precision == "fp16":
        return [
            finding(
                "fp16-on-cpu",
                "certain",
                "fp16 does nothing on a CPU",
                "preset",
                "training.precision: fp16",
                [f"set it to {best}"],
                patch,
            )
        ]
    if devices.kind == "cpu" and precision == "bf16" and not inventory.cpu.fast_bf16:
        return [
            finding(
                "bf16-slow-on-cpu",
                "certain",
                "this CPU has no bf16 units: several times slower than fp32",
                "cpu flags",
                ", ".join(inventory.cpu.flags) or "none of AMX, AVX512-BF16",
                ["set training.precision to fp32"],
                patch,
            )
        ]
    if devices.kind == "apple" and precision != "fp32":
        return [
            finding(
                "mps-amp-unsupported",
                "possible",
                f"{precision} on Apple GPUs works only with recent torch",
                "preset",
                f"training.precision: {precision}",
                ["set it to fp32"],
                patch,
            )
        ]
    old = [device for device in devices.used if device.capability is not None and device.capability < (8, 0)]
    if precision == "bf16" and old:
        return [
            finding(
                "bf16-unsupported-gpu" if old[0].capability < (7, 0) else "bf16-emulated-not-hardware",
                "certain",
                f"{short_name(old[0])} has no bf16 units (compute capability {old[0].compute_capability}, needs 8.0)",
                "NVML",
                f"GPU {old[0].index}: {old[0].compute_capability}",
                [f"set training.precision to {best}"],
                patch,
            )
        ]
    return []
