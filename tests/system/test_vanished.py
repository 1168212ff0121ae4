"""Run folders that are removed, in part or whole, under a run that goes on and under those who watch it."""

from __future__ import annotations

import shutil

import pytest

from tests.cluster.commands import living
from tests.system.waiting import SLOW_S, until
from wizard.errors import ExitCode

pytestmark = [pytest.mark.system, pytest.mark.launch, pytest.mark.timeout(3 * SLOW_S)]


def test_what_is_removed_piece_by_piece(workshop):
    command = workshop.start("run", workshop.preset("gone"), "--set", "checkpoints.every_steps=40", "--set", "distributed.threads_per_process=1")
    run = workshop.run_of("gone")
    until(lambda: run.checkpoint_steps() and run.read_status().state == "running")
    watch = workshop.start("watch", str(run.root), "--plain")
    until(lambda: "step" in watch.out.read_text())

    run.status.unlink()
    assert until(run.read_status).state == "running", "the supervisor writes it again"
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    assert until(lambda: run.checkpoint_steps()), "the next checkpoint makes its folder again"
    shutil.rmtree(run.ranks)
    until(lambda: "its events are gone" in watch.out.read_text())
    assert command.poll() is None and run.read_status().state == "running"

    while run.root.exists():  # something may be written into it in between
        shutil.rmtree(run.root, ignore_errors=True)
    for process in (command, watch):
        assert process.wait(timeout=SLOW_S) == ExitCode.LOST
        said = process.out.read_text() + process.err.read_text()
        assert f"the run's folder was removed: {run.root}" in said and "Traceback" not in said
    until(lambda: living(workshop.folder) == [])
    assert not run.root.exists()
