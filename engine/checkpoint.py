"""Checkpoints: complete or absent, never in between; and exact resume from them."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch

from engine import saved_state
from engine.contract.run_dir import RunDir
from engine.errors import DiskError
from engine.process_group import Control
from engine.sharding import is_sharded

_STATE = "state.json"


class Checkpointer:
    """Saves and restores everything a training is: weights, optimizer, randomness, and how far it came.

    The position in the data is the step itself, since the order of the data is a function of seed and step. `keeper`:
    whether this rank looks after the run's folder. Each machine has one where they share none, and each keeper then
    saves all that its ranks need to go on: of a sharded model too, gathered, since shards in other machines' folders
    could not be read. Made by all ranks at once.
    """

    def __init__(self, run: RunDir, accelerator: Any, model: Any, optimizer: Any, control: Control, keep_last: int,
                 keeper: bool):
        self.run, self.accelerator, self.control, self.keep_last = run, accelerator, control, keep_last
        self.model, self.optimizer, self.keeper = model, optimizer, keeper
        self.rank = accelerator.process_index
        self.sharded = is_sharded(model)
        self._in_shards = self.sharded and control.total(keeper)[0] == 1

    def save(self, step: int, extra: dict[str, Any], protect: tuple[int, ...] = ()) -> tuple[Path, float, int]:
        """Write the checkpoint of `step`; entered by all ranks. Returns (path, seconds, bytes).

        `extra` are small facts to go on with (tokens seen, best loss). `protect`: steps that are kept whatever their
        age. Raises DiskError on every rank when any rank could not write; older checkpoints are then untouched.
        """
        began = time.perf_counter()
        final = self.run.checkpoint(step)
        partial = final.with_name(f".{final.name}.partial")

        def prepare() -> None:
            shutil.rmtree(partial, ignore_errors=True)
            self.run.checkpoints.mkdir(mode=0o700, exist_ok=True)  # someone may have cleared it away
            partial.mkdir(mode=0o700)

        self._together(prepare if self.keeper else None, step)
        self._together(lambda: self._write(partial, step, extra), step)

        def publish() -> None:
            for file in partial.rglob("*"):
                if file.is_file():
                    _fsync(file)
            if final.exists():
                shutil.rmtree(final)
            partial.rename(final)
            _fsync(self.run.checkpoints)

        self._together(publish if self.keeper else None, step)
        # only now, so that there always is one that all machines have
        self._together((lambda: self._prune(protect + (step,))) if self.keeper else None, step)
        size = sum(file.stat().st_size for file in final.rglob("*") if file.is_file()) if self.keeper else 0
        return final, time.perf_counter() - began, size

    def _together(self, work: Callable[[], None] | None, step: int) -> None:
        """Do `work` where there is some; all ranks go on, or all raise."""
        failure: Exception | None = None
        try:
            if work:
                work()
        except Exception as error:
            failure = error
        if self.control.all_ok(failure is None):
            return
        if self.keeper:
            shutil.rmtree(self.run.checkpoint(step).with_name(f".{self.run.checkpoint(step).name}.partial"), ignore_errors=True)
        if failure is None:
            raise DiskError(f"checkpoint of step {step}: another rank could not write it")
        raise disk_error(failure, f"checkpoint of step {step}", self.run.checkpoints) from failure

    def _write(self, folder: Path, step: int, extra: dict[str, Any]) -> None:
        model = self.accelerator.unwrap_model(self.model)
        if self._in_shards:
            saved_state.save_shards(folder, model, self.optimizer, self.control.group)
        elif self.keeper or self.sharded:
            saved_state.save_whole(folder if self.keeper else None, model, self.optimizer)
        torch.save(_randomness(self.accelerator), folder / f"random-{self.rank:05d}.pt")
        if self.keeper:
            state = {"step": step, "world_size": self.accelerator.num_processes, **extra}
            (folder / _STATE).write_text(json.dumps(state, indent=1) + "\n")

    def restore(self, step: int) -> dict[str, Any]:
        """Load the checkpoint of `step` on all ranks; returns its state (`step`, `world_size` and the extra facts)."""
        folder = self.run.checkpoint(step)
        state = json.loads((folder / _STATE).read_text())
        saved_state.load(folder, self.accelerator.unwrap_model(self.model), self.optimizer)
        own = folder / f"random-{self.rank:05d}.pt"
        if state["world_size"] == self.accelerator.num_processes and own.exists():
            _restore_randomness(torch.load(own, map_location="cpu", weights_only=True), self.accelerator)
        return state

    def _prune(self, protect: tuple[int, ...]) -> None:
        steps = self.run.checkpoint_steps()
        for step in steps[: -self.keep_last]:
            if step not in protect:
                # renamed first, so that no reader takes a half-removed folder for a checkpoint
                dying = self.run.checkpoints / f".step-{step}.removing"
                self.run.checkpoint(step).rename(dying)
                shutil.rmtree(dying, ignore_errors=True)


def _randomness(accelerator: Any) -> dict[str, Any]:
    device = accelerator.device
    scaler = getattr(accelerator, "scaler", None)
    name, keys, *rest = numpy.random.get_state()
    # plain values and tensors only, so that loading a checkpoint never runs code that came with it
    return {"python": random.getstate(), "numpy": (name, torch.from_numpy(keys.astype("int64")), *rest),
            "torch": torch.get_rng_state(),
            "device": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
            "scaler": scaler.state_dict() if scaler is not None else None}


def _restore_randomness(state: dict[str, Any], accelerator: Any) -> None:
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    numpy.random.set_state((name, keys.numpy().astype("uint32"), *rest))
    torch.set_rng_state(state["torch"])
    if state["device"] is not None and accelerator.device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], accelerator.device)
    if state["scaler"] is not None and getattr(accelerator, "scaler", None) is not None:
        accelerator.scaler.load_state_dict(state["scaler"])


def disk_error(error: Exception, what: str, where: Path) -> Exception:
    """`error` as one clear DiskError when the disk is the cause, else itself.

    torch's and safetensors' writers report a full disk as errors of their own, so the free space decides.
    """
    cause = _errno(error)
    if not where.is_dir():
        return DiskError(f"{what} could not be written: the folder {where} is gone")
    free = shutil.disk_usage(where).free
    if cause == errno.ENOSPC or (not isinstance(error, OSError) and free < 1 << 20):
        return DiskError(f"{what} could not be written: no space left on the disk of {where} "
                         f"({free / 1e6:.0f} MB free); earlier checkpoints are kept")
    if isinstance(error, OSError):
        return DiskError(f"{what} could not be written to {where}: {error.strerror or error}")
    if "write" in str(error).lower():  # PytorchStreamWriter and safetensors keep the reason to themselves
        return DiskError(f"{what} could not be written to {where}: {str(error).splitlines()[0]} ({free / 1e6:.0f} MB free)")
    return error


def _errno(error: BaseException | None) -> int | None:
    while error is not None:
        if isinstance(error, OSError):
            return error.errno
        error = error.__cause__ or error.__context__
    return None


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
