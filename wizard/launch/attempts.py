"""The folder of one attempt: what was resolved, generated and decided, frozen before anything starts."""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine.contract import yaml_text
from engine.contract.atomic import write_text_atomic
from engine.contract.events import ExitReason
from engine.contract.load import dump_preset, load_preset
from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir
from wizard.launch.command import Launch, launch_command
from wizard.launch.environment import link_packages, noted, stripped

_PACKAGES = ("autotrain-wizard", "torch", "accelerate", "transformers", "datasets", "peft")


def write_attempt(run: RunDir, attempt: int, resolved: Preset, inventory: str, node_rank: int, **more: Any) -> None:
    """Make `attempts/NNNN` with all its files. `inventory` is JSON text; `more` is added to launch.json.

    Raises FileExistsError when another command has begun this attempt, OSError when it cannot be written.
    """
    folder = run.attempt(attempt)
    folder.mkdir(mode=0o700)
    launch = launch_command(resolved, run, attempt, node_rank)
    link_packages(folder / "path")
    write_text_atomic(run.resolved(attempt), dump_preset(resolved, full=True))
    write_text_atomic(folder / "accelerate.yaml", yaml_text.dump(launch.accelerate_config))
    write_text_atomic(folder / "inventory.json", inventory)
    write_text_atomic(folder / "launch.json", json.dumps({**_record(launch, node_rank), "machines": resolved.distributed.num_nodes, **more}, indent=1) + "\n")


def write_restart(run: RunDir, failed: int, reason: ExitReason) -> int:
    """The attempt that tries again what attempt `failed` ran, from the newest checkpoint; returns its number."""
    before = read_launch(run, failed)
    inventory = (run.attempt(failed) / "inventory.json").read_text(encoding="utf-8")
    write_attempt(run, failed + 1, load_preset(run.resolved(failed)), inventory, before["node_rank"],
                  # the supervisor's own environment is already cleaned: what the person's held is known from before
                  env_removed=before["env_removed"], cwd=before["cwd"],
                  restart_of={"attempt": failed, "exit_reason": reason.model_dump()})
    return failed + 1


def read_launch(run: RunDir, attempt: int) -> dict[str, Any]:
    return json.loads((run.attempt(attempt) / "launch.json").read_text(encoding="utf-8"))


def node_of(run: RunDir) -> int | None:
    """The number of the machine whose part of a training this run was, None when nothing was launched in it."""
    try:
        return read_launch(run, run.latest_attempt())["node_rank"]
    except (OSError, ValueError, KeyError):
        return None


def _record(launch: Launch, node_rank: int) -> dict[str, Any]:
    return {
        "argv": launch.argv, "env": launch.env, "env_removed": stripped(os.environ), "env_inherited": noted(os.environ),
        "node_rank": node_rank, "first_rank": launch.first_rank, "local_ranks": launch.local_ranks,
        "max_restarts": launch.max_restarts, "cwd": str(Path.cwd()), "versions": _versions(),
        "created_unix_s": round(time.time(), 3),
    }


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
