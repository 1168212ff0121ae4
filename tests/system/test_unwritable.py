"""Folders that even root cannot write, since their disk is mounted read-only."""

from __future__ import annotations

import pytest

from tests.cluster.commands import living
from tests.fake_run import FakeRun
from tests.system.disk import make_read_only, small_disk
from tests.system.needs import require
from wizard.errors import ExitCode

pytestmark = pytest.mark.system


def test_runs_that_cannot_be_written(disk, workshop):
    make_read_only(disk.path)
    for words in (["run", workshop.preset("locked")], ["run", "locked.yaml", "--dry-run"]):
        code, _, err = workshop.command(*words)
        assert code == ExitCode.PREFLIGHT
        assert "runs cannot be written here: " in err and f"{disk.path}: " in err and "Read-only file system" in err
        assert "--runs DIR" in err
        assert err.count("\n") == 2 and "Traceback" not in err
    assert list(disk.path.iterdir()) == [] and living(workshop.folder) == []
    # nothing was remembered of a run that never was
    assert "no runs yet" in workshop.command("runs")[1]


def test_a_run_on_a_read_only_disk_can_be_watched_but_not_resumed(disk, workshop):
    fake = FakeRun(disk.path, steps=6).play("exception")
    for writer in fake.writers.values():
        writer.close()
    make_read_only(disk.path)
    root = str(fake.run.root)
    code, out, _ = workshop.command("watch", root, "--plain")
    assert code == ExitCode.TRAINING_FAILED and "failed" in out
    code, _, err = workshop.command("run", "--resume", root)
    assert code in (ExitCode.PREFLIGHT, ExitCode.INVALID) and "Traceback" not in err
    code, _, err = workshop.command("stop", root)
    assert "failed already" in err


def test_a_preset_that_cannot_be_saved(workshop, tmp_path):
    require("mount")
    with small_disk(tmp_path / "presets") as disk:
        make_read_only(disk.path)
        target = disk.path / "mine.yaml"
        code, _, err = workshop.command("new", "--defaults", "--set", "data.train=text.txt", "--set", "task=llm-pretrain",
                                        "-o", str(target))
        assert code in (ExitCode.USAGE, ExitCode.PREFLIGHT) and "Read-only file system" in err and str(target) in err
        assert "Traceback" not in err and not target.exists()
