"""What ranks on several machines must have in common, asked before it can go wrong silently."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir
from engine.errors import PresetMismatch
from engine.process_group import Control

#: May differ from machine to machine: where things lie, how the network is reached, what belongs to no training.
#: That the data is the same is asked of the prepared data itself.
_OWN = frozenset({
    "name", "model.path", "data.train", "data.valid", "distributed.main_address", "distributed.main_port",
    "distributed.network_interface", "distributed.env", "distributed.threads_per_process", "distributed.join_timeout_s",
    "distributed.max_restarts", "training.log_every", "hardware", "why", "hub", "tracking", "script",
})


def check_same_preset(preset: Preset, control: Control) -> None:
    """Raises PresetMismatch on every rank, naming the keys, when not all train the same; entered by all ranks."""
    values = {key: value for key, value in _leaves(preset.model_dump()) if key not in _OWN}
    if isinstance(values["model.from_config"], str):
        values["model.from_config"] = "a file"
    if len(set(control.gather(_fingerprint(list(values))))) > 1:
        raise PresetMismatch("not all machines have the same version of autotrain-wizard")
    theirs = control.gather(*(_fingerprint(value) for value in values.values()))
    different = [key for key, prints in zip(values, zip(*theirs, strict=True), strict=True) if len(set(prints)) > 1]
    if different:
        here = ", ".join(f"{key} ({json.dumps(values[key])} here)" for key in different)
        raise PresetMismatch(f"the preset is not the same on all machines: {here}; where a value is auto, each machine "
                             "decides for itself, so set it to one value for all")


def keeps_folder(run: RunDir, rank: int, control: Control) -> bool:
    """Whether this rank looks after the run's folder: the lowest of those that share it; entered by all ranks.

    Machines may share one folder or have one each. The preset in it is written once and never changes, so its inode
    and time of writing tell which it is.
    """
    own = run.preset if run.preset.exists() else run.root
    found = own.stat()
    folders = control.gather(_fingerprint([found.st_ino, found.st_mtime_ns]))
    return folders.index(folders[rank]) == rank


def agreed_step(steps: list[int] | None, control: Control) -> int | None:
    """The newest checkpoint that every rank has, of its own `steps`; entered by all ranks.

    `steps` is None for a rank that begins anew. Raises PresetMismatch on every rank when only some do, or when all
    resume from checkpoints and have none in common.
    """
    begins = {count for (count,) in control.gather(-1 if steps is None else 0)}
    if len(begins) > 1:
        raise PresetMismatch("some machines resume their run and others begin a new one: use run --resume on all of them")
    steps = steps or []
    newest = max(steps, default=-1)
    while True:
        told = [step for (step,) in control.gather(newest)]
        if len(set(told)) == 1:
            return None if newest < 0 else newest
        if min(told) < 0:
            raise PresetMismatch(f"no checkpoint to resume from is there on all machines (here: steps {steps or 'none'})")
        newest = max((step for step in steps if step <= min(told)), default=-1)


def _leaves(section: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Dotted keys and their values; what is below a key of a section is one value."""
    found: list[tuple[str, Any]] = []
    for name, value in section.items():
        nested = isinstance(value, dict) and not prefix and name not in _OWN
        found += _leaves(value, f"{name}.") if nested else [(f"{prefix}{name}", value)]
    return found


def _fingerprint(value: Any) -> int:
    """63 bits that tell values apart."""
    text = json.dumps(value, sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
