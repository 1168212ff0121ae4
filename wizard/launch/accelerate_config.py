"""The accelerate configuration of one launch, generated with every value explicit.

accelerate reads the user's own default configuration wherever none is named, and rejects keys it does not know, so
a preset cannot be that file and each launch gets its own.
"""

from __future__ import annotations

from typing import Any

from engine.contract.preset import Preset

#: accelerate's words for the preset's.
MIXED_PRECISION = {"fp32": "no", "fp16": "fp16", "bf16": "bf16"}
_GPU_KINDS = {"nccl": "MULTI_GPU", "gloo": "MULTI_GPU", "xccl": "MULTI_XPU", "hccl": "MULTI_NPU"}


def world_size(preset: Preset) -> int:
    return preset.distributed.num_nodes * preset.distributed.num_processes_per_node


def accelerate_config(preset: Preset, node_rank: int = 0) -> dict[str, Any]:
    """accelerate's configuration file for a resolved preset, as plain values."""
    how = preset.distributed
    config: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": distributed_type(preset),
        "use_cpu": how.num_gpus_per_node == 0,
        "debug": False,
        "mixed_precision": MIXED_PRECISION[preset.training.precision],
        "num_machines": how.num_nodes,
        "num_processes": world_size(preset),
        "machine_rank": node_rank,
        "gpu_ids": "all",
        "rdzv_backend": "static",
        "same_network": False,
        "main_training_function": "main",
        "enable_cpu_affinity": False,
        "downcast_bf16": False,
        "main_process_port": main_port(preset),
    }
    if how.num_nodes > 1:
        config["main_process_ip"] = how.main_address
    return config


def distributed_type(preset: Preset) -> str:
    """accelerate's word for the launch. It is told nothing of fsdp, which it would turn into DDP on a CPU: the engine
    shards the model itself, in a plain group of processes."""
    how = preset.distributed
    if world_size(preset) == 1:
        return "NO"
    return "MULTI_CPU" if how.num_gpus_per_node == 0 else _GPU_KINDS[how.backend]


def main_port(preset: Preset) -> int:
    """The rendezvous port; 0 lets accelerate take a free one (one machine only)."""
    port = preset.distributed.main_port
    return 0 if port == "auto" else port
