"""Making a run's folder, freezing what was resolved, and starting its supervisor; the same again to resume."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from engine.contract.atomic import write_text_atomic
from engine.contract.load import load_preset, read_preset_text
from engine.contract.preset import Preset
from engine.contract.run_dir import ENDED, RunDir
from wizard.errors import ExitCode, PreflightError, UsageError, WizardError
from wizard.hardware.inventory import dump_inventory
from wizard.launch.attempts import node_of, write_attempt
from wizard.launch.checks import check_launch
from wizard.launch.environment import child_environment
from wizard.launch.index import remember
from wizard.launch.liveness import current_status
from wizard.launch.overrides import check_resumable
from wizard.launch.prepare import Prepared, reprepare
from wizard.launch.stop import end_recorded
from wizard.launch.supported import check_supported
from wizard.paths import runs_root as default_runs_root

#: Two machines cannot agree on a free port by themselves; torchrun's customary one is the word among them.
SHARED_PORT = 29500
_SUPERVISOR_S = 20.0


def start_run(prepared: Prepared, runs_root: Path | None = None, node_rank: int = 0) -> RunDir:
    """Start a new run under `runs_root` and return its folder once its supervisor watches over it.

    Raises PreflightError when it could not run here, WizardError when the supervisor does not start.
    """
    root = (runs_root or default_runs_root()).absolute()
    resolved = with_port(prepared.resolved)
    check_node_rank(resolved, node_rank)
    check_launch(resolved, prepared.model, root, node_rank)
    try:
        # on a shared disk the machines' folders lie side by side
        run = RunDir.create(root, resolved.name, suffix=f"-node{node_rank}" if resolved.distributed.num_nodes > 1 else "")
        write_text_atomic(run.preset, prepared.preset_text)
        write_attempt(run, 1, resolved, dump_inventory(prepared.inventory), node_rank)
    except OSError as error:
        raise PreflightError(f"{root}: the run's folder cannot be made: {error.strerror or error}",
                             "choose another place: --runs DIR") from None
    remember(run)
    _spawn_supervisor(run, 1)
    return run


def resume_run(run: RunDir, overrides: dict[str, Any] | None = None, node_rank: int | None = None) -> RunDir:
    """Go on with a run from its newest checkpoint (from the start when it has none).

    `overrides` may change only what `overrides.RESUMABLE` lists; `node_rank` is by default what it was. Raises UsageError when it is running or has
    finished, PresetError, PreflightError, WizardError as `start_run` does.
    """
    overrides = overrides or {}
    check_resumable(overrides)
    status, last = current_status(run), run.latest_attempt()
    if status is not None and status.state not in ENDED:
        raise UsageError(f"{run.root}: this run is {status.state}", f"watch it: autotrain-wizard watch {run.root}")
    extended = {"training.max_steps", "training.epochs"} & overrides.keys()
    if status is not None and status.state == "finished" and not extended:
        raise UsageError(f"{run.root}: this run has finished", "train longer: --set training.max_steps=N")
    node_rank = node_of(run) or 0 if node_rank is None else node_rank
    prepared = prepare_resume(run, overrides)
    resolved = with_port(prepared.resolved)
    check_node_rank(resolved, node_rank)
    check_launch(resolved, prepared.model, run.root, node_rank)
    if status is not None:
        end_recorded(status)  # what a killed supervisor may have left
    try:
        run.clear_stop()
        write_attempt(run, last + 1, resolved, dump_inventory(prepared.inventory), node_rank)
    except FileExistsError:
        raise UsageError(f"{run.root}: it is being resumed by another command", "watch it: autotrain-wizard watch") from None
    except OSError as error:
        raise PreflightError(f"{run.root}: cannot be written: {error.strerror or error}", "free some space, or mend the permissions") from None
    remember(run)
    _spawn_supervisor(run, last + 1)
    return run


def prepare_resume(run: RunDir, overrides: dict[str, Any]) -> Prepared:
    """What the next attempt would run: the last one's resolved preset with the overrides in it."""
    last = run.latest_attempt()
    source = run.resolved(last) if last else run.preset
    if not source.exists():
        raise UsageError(f"{run.root}: not the folder of a run that was started", "list the runs: autotrain-wizard runs")
    before = load_preset(source)
    preset = load_preset(source, overrides)
    check_supported(preset, "--set")
    if preset.distributed.num_nodes != before.distributed.num_nodes:
        # the global batch is what makes the losses comparable, so the accumulation gives way
        preset = load_preset(source, {**overrides, "training.gradient_accumulation": "auto"})
    return reprepare(read_preset_text(run.preset), preset)


def check_node_rank(resolved: Preset, node_rank: int) -> None:
    """Raises UsageError when there is no such machine in the preset."""
    nodes = resolved.distributed.num_nodes
    if not 0 <= node_rank < nodes:
        raise UsageError(f"--node-rank {node_rank}: this preset has {nodes} machine{'s' if nodes > 1 else ''}",
                         f"a number from 0 to {nodes - 1}" if nodes > 1 else "set distributed.num_nodes, or leave --node-rank out")


def with_port(resolved: Preset) -> Preset:
    """`auto` stays on one machine (accelerate takes a free port there); several need one that all know."""
    if resolved.distributed.num_nodes == 1 or resolved.distributed.main_port != "auto":
        return resolved
    distributed = resolved.distributed.model_copy(update={"main_port": SHARED_PORT})
    return resolved.model_copy(update={"distributed": distributed})


def _spawn_supervisor(run: RunDir, attempt: int) -> None:
    """Start the supervisor apart from this terminal and wait until it has written its first status."""
    paths = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(run.attempt(attempt) / "path")}
    log_path = run.logs / "supervisor.log"
    with open(log_path, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "wizard.launch.supervisor", str(run.root)], cwd=run.root,
            # what the launch takes out of the environment is taken out here already
            env=child_environment(os.environ, paths), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True)
    deadline = time.monotonic() + _SUPERVISOR_S
    while time.monotonic() < deadline:
        status = run.read_status()
        if status is not None and status.attempt == attempt:
            return
        if process.poll() is not None:
            break
        time.sleep(0.02)
    else:
        process.kill()
    lines = log_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise WizardError(f"the run's supervisor did not start: {lines[-1] if lines else 'it wrote nothing'}",
                      f"its output is in {log_path}", ExitCode.TRAINING_FAILED)
