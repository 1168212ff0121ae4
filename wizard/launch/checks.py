"""What would make a launch fail on this machine, found before anything starts."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import tempfile
from pathlib import Path

from engine.contract.outside import what_is_missing
from engine.contract.preset import Preset
from wizard import formatting
from wizard.errors import PreflightError
from wizard.facts.model import ModelFacts
from wizard.launch.rendezvous import check_rendezvous

#: Events, logs, the prepared data of a small set: what a run writes besides weights.
_OTHER_BYTES = 64 * 10**6
_WEIGHT_BYTES = 4
#: Bytes of optimizer state per trained parameter (two fp32 moments; one for SGD with momentum).
_OPTIMIZER_BYTES = {"adamw": 8, "sgd": 4}


def check_launch(resolved: Preset, model: ModelFacts | None, folder: Path, node_rank: int = 0) -> None:
    """Raises PreflightError when `folder` (where the run goes) cannot take the run, the port is taken, the other
    machines cannot be met, or rank 0 could not report where the preset says.
    """
    if node_rank == 0:
        check_outside(resolved)
    check_writable(folder)
    check_disk(folder, bytes_needed(resolved, model))
    if node_rank == 0:
        check_port(resolved)
    check_rendezvous(resolved, node_rank)


def check_outside(resolved: Preset) -> None:
    """Raises PreflightError when a tracker's package or the hub's token is not there; rank 0's machine needs them."""
    missing = what_is_missing(resolved, os.environ)
    if missing:
        raise PreflightError("; ".join(what for what, _ in missing), "; ".join(todo for _, todo in missing))


def check_writable(folder: Path) -> None:
    """Write a file where the run would go; a look at permission bits alone would believe root and read-only disks."""
    there = _existing(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".autotrain-wizard-"):
            pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PreflightError(f"{folder}: the disk is full", "free some space, or choose another place: --runs DIR") from None
        why = error.strerror or str(error)
        raise PreflightError(f"{folder}: runs cannot be written here: {why if there == folder else f'{there}: {why}'}",
                             "choose another place: --runs DIR, or AUTOTRAIN_WIZARD_RUNS=DIR") from None


def check_disk(folder: Path, needed: int | None) -> None:
    """Raises PreflightError when less is free than the run will write. Unknown sizes are only held to the minimum."""
    try:
        free = shutil.disk_usage(_existing(folder)).free
    except OSError:
        return
    needed = _OTHER_BYTES if needed is None else needed
    if free < needed:
        raise PreflightError(
            f"{folder}: {formatting.size(free)} free, and this run needs about {formatting.size(needed)} for checkpoints, model and logs",
            "free some space, choose another place (--runs DIR), or keep fewer checkpoints (checkpoints.keep_last)")


def bytes_needed(resolved: Preset, model: ModelFacts | None) -> int | None:
    """What a run writes at its peak: the kept checkpoints, one more while it is written, and the model.

    None when the size of the model is not known.
    """
    total = model.parameters if model else None
    if not total:
        return None
    trained = total
    if resolved.model.adapter is not None:
        trained = total // 50  # an upper bound for common ranks; the base model is not saved again
    checkpoint = trained * (_WEIGHT_BYTES + _OPTIMIZER_BYTES[resolved.training.optimizer])
    merged = resolved.model.adapter is None or resolved.model.adapter.merge
    final = (total if merged else trained) * _WEIGHT_BYTES
    kept = resolved.checkpoints.keep_last + resolved.checkpoints.keep_best
    return checkpoint * (kept + 1) + final + _OTHER_BYTES


def check_port(resolved: Preset) -> None:
    """Raises PreflightError when a port that the preset fixes is in use on the machine that must listen there."""
    port = resolved.distributed.main_port
    if port == "auto":
        return
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                return
            what = "is in use" if error.errno == errno.EADDRINUSE else "may not be opened by this user"
            todo = "choose another: --set distributed.main_port=PORT"
            if resolved.distributed.num_nodes == 1:
                todo = "leave it to the launch: --set distributed.main_port=auto"
            raise PreflightError(f"distributed.main_port: port {port} {what}", todo) from None


def _existing(folder: Path) -> Path:
    """The folder itself or the nearest one above it that exists."""
    folder = Path(os.path.abspath(folder))
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
