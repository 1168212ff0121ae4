"""Disks that are really full: before a run, under a checkpoint, under every line that is written."""

from __future__ import annotations

import re

import pytest

from engine.contract.run_dir import RunDir
from tests.cluster.commands import events, living, steps
from tests.system.disk import small_disk
from tests.system.needs import require
from tests.system.waiting import SLOW_S, until
from wizard.errors import ExitCode

pytestmark = [pytest.mark.system, pytest.mark.launch, pytest.mark.timeout(3 * SLOW_S)]

#: More threads than cores make a tiny step ten times as long.
ONE_THREAD = ["--set", "distributed.threads_per_process=1"]


def checkpoint_files(run: RunDir, step: int) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.checkpoint(step).iterdir()}


def assert_clean(text: str) -> None:
    """One clear message: no traceback, no escape codes, no line of a library."""
    assert "Traceback" not in text and "\x1b" not in text and "torch/" not in text and 'File "' not in text, text


def test_a_checkpoint_that_does_not_fit(disk, workshop):
    command = workshop.start("run", workshop.preset("full"), "--set", "checkpoints.every_steps=20", *ONE_THREAD)
    run = workshop.run_of("full")
    until(lambda: run.checkpoint_steps())
    disk.fill(leave=200_000)  # half a checkpoint, and room for events and the status
    assert command.wait(timeout=SLOW_S) == ExitCode.TRAINING_FAILED
    kept = run.checkpoint_steps()
    said = command.out.read_text() + command.err.read_text()
    assert_clean(said)
    failed = next(line for line in said.splitlines() if " failed " in line)
    assert f"no space left on the disk of {run.checkpoints}" in failed and "earlier checkpoints are kept" in failed
    assert f"resume  from step {kept[-1]}" in said

    status = run.read_status()
    assert (status.state, status.exit_reason.kind) == ("failed", "disk") and status.ended_unix_s
    assert kept and [path.name for path in run.checkpoints.iterdir() if path.name.startswith(".")] == []
    before = {step: checkpoint_files(run, step) for step in kept}
    assert living(workshop.folder) == []

    # with room again the run goes on from what it had kept
    disk.free()
    again = workshop.start("run", "--resume", str(run.root), "--set", f"training.max_steps={kept[-1] + 5}", "--set", "checkpoints.keep_last=9")
    assert again.wait(timeout=SLOW_S) == ExitCode.OK, again.out.read_text() + again.err.read_text()
    assert events(run, kind="run_started")[-1]["resumed_from_step"] == kept[-1]
    assert {step: checkpoint_files(run, step) for step in kept} == before
    assert run.model.is_dir() and living(workshop.folder) == []


def test_a_disk_without_a_single_byte_left(disk, workshop):
    """Not even the reason can be written down, nor the status anew: the run still ends, and says why."""
    command = workshop.start("run", workshop.preset("full"), "--set", "checkpoints.every_steps=60", *ONE_THREAD)
    run = workshop.run_of("full")
    until(steps(run, 2))
    disk.fill()
    assert command.wait(timeout=SLOW_S) == ExitCode.TRAINING_FAILED
    said = command.out.read_text() + command.err.read_text()
    assert_clean(said)
    assert "the disk with the run's folder is full" in said or "no space left on the disk" in said
    status = run.read_status()
    assert (status.state, status.exit_reason.kind) == ("failed", "disk")
    assert living(workshop.folder) == []
    assert [path.name for path in run.checkpoints.iterdir() if path.name.startswith(".")] == []
    # what was told before is still there for a watcher
    code, out, err = workshop.command("watch", str(run.root), "--plain")
    assert code == ExitCode.TRAINING_FAILED and "failed" in out
    assert_clean(out + err)


def test_too_little_room_is_found_before_the_start(disk, workshop):
    disk.fill(leave=30_000_000)
    code, _, err = workshop.command("run", workshop.preset("early"))
    assert code == ExitCode.PREFLIGHT
    found = re.search(r"(\S+): ([\d.]+) MB free, and this run needs about ([\d.]+) MB", err)
    assert found, err
    assert found[1] == str(disk.path) and float(found[2]) <= 30 < float(found[3])
    assert "--runs DIR" in err
    disk.fill()
    code, _, err = workshop.command("run", "early.yaml")
    assert code == ExitCode.PREFLIGHT and (f"{disk.path}: the disk is full" in err or f"{disk.path}: 0 B free" in err), err
    assert [path.name for path in disk.path.iterdir()] == ["ballast"]


def test_a_disk_without_room_for_another_file(workshop, tmp_path):
    """Free bytes are of no use when there is no inode left."""
    require("mount")
    with small_disk(tmp_path / "runs", "size=90m,nr_inodes=2") as disk:
        (disk.path / "last").touch()
        code, _, err = workshop.command("run", workshop.preset("inodes"))
        assert code == ExitCode.PREFLIGHT and f"{disk.path}: the disk is full" in err
        assert [path.name for path in disk.path.iterdir()] == ["last"]
