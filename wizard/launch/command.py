"""From a resolved preset to the exact command, environment and configuration files of a launch. Pure."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir
from wizard.launch import accelerate_config as config_of
from wizard.launch.environment import is_secret

ENTRY = "engine.train"
#: The agent must not kill ranks that save a large checkpoint; how long to wait for them is the supervisor's to decide.
_SHUTDOWN_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Launch:
    """All that one node needs to start its ranks. `env` holds only the variables that are added."""

    argv: list[str]
    env: dict[str, str]
    accelerate_config: dict[str, Any]
    first_rank: int
    local_ranks: int
    max_restarts: int

    def shell(self) -> str:
        """The command as it could be typed, added variables first, secrets hidden."""
        words = [f"{name}={'***' if is_secret(name) else shlex.quote(value)}" for name, value in self.env.items()]
        return " ".join(words + [shlex.quote(word) for word in self.argv])


def launch_command(resolved: Preset, run: RunDir, attempt: int, node_rank: int = 0) -> Launch:
    """The launch of a preset without `auto` (except main_port on one machine) on machine `node_rank`.

    Raises ValueError when node_rank is not one of the preset's machines.
    """
    how = resolved.distributed
    if not 0 <= node_rank < how.num_nodes:
        raise ValueError(f"node rank {node_rank} of {how.num_nodes} machines")
    folder = run.attempt(attempt)
    config = config_of.accelerate_config(resolved, node_rank)
    argv = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(folder / "accelerate.yaml"),
            *_flags(resolved, node_rank), "-m", ENTRY, str(run.root)]
    return Launch(
        argv=argv, env=_environment(resolved, folder), accelerate_config=config,
        first_rank=node_rank * how.num_processes_per_node, local_ranks=how.num_processes_per_node,
        max_restarts=how.max_restarts,
    )


def _flags(resolved: Preset, node_rank: int) -> list[str]:
    how = resolved.distributed
    flags = _strategy_flags(resolved)
    flags += ["--num_processes", str(config_of.world_size(resolved)), "--num_machines", str(how.num_nodes),
              "--machine_rank", str(node_rank)]
    if how.num_nodes > 1:
        flags += ["--main_process_ip", str(how.main_address)]
    flags += ["--main_process_port", str(config_of.main_port(resolved)), "--rdzv_backend", "static",
              # our supervisor restarts a crashed group: torchrun's static rendezvous keeps its store, where the new
              # ranks find the addresses of the dead ones
              "--rdzv_conf", f"timeout={how.join_timeout_s}", "--max_restarts", "0",
              "--mixed_precision", config_of.MIXED_PRECISION[resolved.training.precision],
              "--dynamo_backend", "no", "--gpu_ids", "all",
              "--num_cpu_threads_per_process", str(how.threads_per_process)]
    return flags


def _strategy_flags(resolved: Preset) -> list[str]:
    how = resolved.distributed
    if config_of.world_size(resolved) > 1:
        # on CPUs too: `--cpu` and a configuration of MULTI_CPU both start one process and call it success
        return ["--multi_gpu"]
    return ["--cpu"] if how.num_gpus_per_node == 0 else []


def _environment(resolved: Preset, folder: Path) -> dict[str, str]:
    how = resolved.distributed
    env = {
        # keeps the current folder off the path, where a person's own engine.py would be taken for ours
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": str(folder / "path"),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(how.threads_per_process),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(_SHUTDOWN_TIMEOUT_S),
        "TOKENIZERS_PARALLELISM": "true" if how.num_processes_per_node == 1 else "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    if how.num_gpus_per_node == 0:
        env["ACCELERATE_USE_CPU"] = "true"
    if how.network_interface:
        env["GLOO_SOCKET_IFNAME"] = how.network_interface
        # NCCL matches by prefix (eth1 would take eth10 too) unless the name follows `=`
        env["NCCL_SOCKET_IFNAME"] = f"={how.network_interface}"
    return {**env, **how.env}
