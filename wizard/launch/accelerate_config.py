"""The accelerate and DeepSpeed configurations of one launch, generated with every value explicit.

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


def accelerate_config(preset: Preset, node_rank: int = 0, deepspeed_file: str | None = None) -> dict[str, Any]:
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
    if how.strategy == "deepspeed":
        config["deepspeed_config"] = {"deepspeed_config_file": deepspeed_file, "zero3_init_flag": False,
                                      "deepspeed_multinode_launcher": "standard"}
    return config


def distributed_type(preset: Preset) -> str:
    """accelerate's word for the launch. It is told nothing of fsdp, which it would turn into DDP on a CPU: the engine
    shards the model itself, in a plain group of processes."""
    how = preset.distributed
    if how.strategy == "deepspeed":
        return "DEEPSPEED"
    if world_size(preset) == 1:
        return "NO"
    return "MULTI_CPU" if how.num_gpus_per_node == 0 else _GPU_KINDS[how.backend]


def main_port(preset: Preset) -> int:
    """The rendezvous port; 0 lets accelerate take a free one (one machine only)."""
    port = preset.distributed.main_port
    return 0 if port == "auto" else port


def deepspeed_config(preset: Preset) -> dict[str, Any]:
    """A complete DeepSpeed configuration: the preset's own words first, `distributed.deepspeed` laid over them."""
    training = preset.training
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": training.micro_batch,
        "gradient_accumulation_steps": training.gradient_accumulation,
        "train_batch_size": training.global_batch,
        "zero_optimization": {"stage": 2, "overlap_comm": True, "contiguous_gradients": True},
        "bf16": {"enabled": training.precision == "bf16"},
        "fp16": {"enabled": training.precision == "fp16"},
        "steps_per_print": 1_000_000_000,  # progress is told by events; DeepSpeed's own prints only fill the log
    }
    if training.max_grad_norm is not None:
        config["gradient_clipping"] = training.max_grad_norm
    return _merged(config, preset.distributed.deepspeed)


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
