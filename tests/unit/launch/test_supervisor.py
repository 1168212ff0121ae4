"""The supervisor over a launcher and ranks that end in every way, without torch: the verdict, and that nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine.contract.run_dir import ENDED, RunDir
from wizard.launch.liveness import current_status
from wizard.launch.stop import stop_run

LAUNCHER = Path(__file__).with_name("fake_launcher.py")
REPOSITORY = Path(__file__).parents[3]
PATIENCE = "boundary_s=0.6, slow_phase_s=1, before_training_s=0.6, leftovers_s=0.4, ended_s=0.5, folder_gone_s=0.5"
CODE = f"""
import sys
from engine.contract.run_dir import RunDir
from wizard.launch.stop_ladder import Patience
from wizard.launch.supervisor import Supervisor
Supervisor(RunDir(sys.argv[1]), Patience({PATIENCE})).supervise()
"""


def wait_until(condition, timeout_s: float = 20.0):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {condition}")


@pytest.fixture
def supervise(tmp_path):
    """Start a supervisor over a scenario; whatever is left at the end of the test is ended."""
    started: list[tuple[subprocess.Popen, RunDir]] = []

    def start(scenario: str, ranks: int = 2) -> tuple[subprocess.Popen, RunDir]:
        run = RunDir.create(tmp_path, "fake")
        run.preset.write_text("version: 1\n")
        run.attempt(1).mkdir()
        argv = [sys.executable, str(LAUNCHER), str(run.root), scenario, str(ranks)]
        env = {"PYTHONPATH": str(REPOSITORY)}
        (run.attempt(1) / "launch.json").write_text(json.dumps(
            {"argv": argv, "env": env, "first_rank": 0, "local_ranks": ranks}))
        process = subprocess.Popen([sys.executable, "-c", CODE, str(run.root)], cwd=REPOSITORY, start_new_session=True)
        started.append((process, run))
        return process, run

    yield start
    for process, run in started:
        left = alive_of(run)
        if process.poll() is None:
            process.kill()
            process.wait()
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


def alive_of(run: RunDir) -> list[psutil.Process]:
    """Every living process that has the run's folder among its arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(run.root) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def ended(process: subprocess.Popen, run: RunDir):
    process.wait(timeout=30)
    status = run.read_status()
    assert status.state in ENDED and status.ended_unix_s is not None
    assert alive_of(run) == [], "processes were left behind"
    return status


def stepping(run: RunDir):
    return lambda: (run.events(0).exists() and run.events(0).read_text().count('"step"') > 4
                    and run.read_status().state == "running")


def test_all_ranks_finish(supervise):
    process, run = supervise("finishes")
    status = ended(process, run)
    assert (status.state, status.exit_reason.kind, status.exit_reason.step) == ("finished", "completed", 5)
    assert status.model_path == str(run.model)
    assert [record.role for record in status.processes] == ["supervisor", "launcher", "rank", "rank"]
    assert status.processes[-1].rank == 1


def test_finished_without_a_model_is_a_failure(supervise):
    status = ended(*supervise("no-model"))
    assert status.state == "failed" and "no model" in status.exit_reason.message


def test_one_process_instead_of_two_is_a_failure(supervise):
    status = ended(*supervise("one-of-two"))
    assert status.state == "failed" and status.exit_reason.kind == "launch"
    assert "only 1 of 2 ranks began (missing: 1)" in status.exit_reason.message


def test_the_first_failure_is_named_not_the_one_it_caused(supervise):
    status = ended(*supervise("raises"))
    reason = status.exit_reason
    assert (status.state, reason.kind, reason.rank, reason.step, reason.message) == ("failed", "exception", 1, 3, "ValueError: boom")


def test_a_killed_rank_is_named_and_the_hanging_one_ended(supervise):
    status = ended(*supervise("killed-endless"))
    reason = status.exit_reason
    assert (status.state, reason.kind, reason.rank, reason.step) == ("failed", "signal", 1, 3)
    assert "SIGKILL" in reason.message and "while training" in reason.message


def test_a_launcher_that_starts_nothing_is_quoted(supervise):
    status = ended(*supervise("broken-launch"))
    assert (status.state, status.exit_reason.kind) == ("failed", "launch")
    assert "No module named 'accelerate'" in status.exit_reason.message


def test_a_command_that_does_not_exist(supervise, tmp_path):
    run = RunDir.create(tmp_path, "missing")
    run.attempt(1).mkdir()
    (run.attempt(1) / "launch.json").write_text(json.dumps({"argv": ["/nowhere"], "env": {}, "first_rank": 0, "local_ranks": 1}))
    subprocess.run([sys.executable, "-c", CODE, str(run.root)], cwd=REPOSITORY, timeout=30, check=True)
    assert run.read_status().exit_reason.kind == "launch"


def test_a_launcher_that_stays_after_all_have_ended_is_ended(supervise):
    assert ended(*supervise("lingers")).state == "finished"


def test_stop_file_stops_with_a_checkpoint(supervise):
    process, run = supervise("endless")
    wait_until(stepping(run))
    run.stop_file.touch()
    status = ended(process, run)
    assert (status.state, status.exit_reason.kind) == ("stopped", "requested")
    assert run.checkpoint_steps()


def test_sigterm_is_a_stop_request(supervise):
    process, run = supervise("endless")
    wait_until(stepping(run))
    process.send_signal(signal.SIGTERM)
    status = ended(process, run)
    assert status.state == "stopped" and run.read_stop() == {"checkpoint": True} and run.checkpoint_steps()


def test_a_second_sigterm_stops_at_once(supervise):
    process, run = supervise("endless-deaf")
    wait_until(stepping(run))
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: run.read_status().state == "stopping")
    process.send_signal(signal.SIGTERM)
    status = ended(process, run)
    assert status.state == "stopped" and run.read_stop() == {"checkpoint": False}
    assert "at once" in status.exit_reason.message


def test_ranks_that_hear_nothing_are_ended_in_the_end(supervise):
    process, run = supervise("endless-deaf")
    wait_until(stepping(run))
    run.request_stop()
    status = ended(process, run)
    assert status.state == "stopped" and "without a checkpoint" in status.exit_reason.message


def test_stop_before_training_waits_for_no_step(supervise):
    process, run = supervise("stuck-loading")
    wait_until(lambda: (run.read_status() or 0) and len(run.read_status().processes) == 4)
    began = time.monotonic()
    status = stop_run(run)
    assert status.state == "stopped" and time.monotonic() - began < 5
    ended(process, run)


def test_stop_now(supervise):
    process, run = supervise("endless-deaf")
    wait_until(stepping(run))
    assert stop_run(run, now=True).state == "stopped"
    ended(process, run)


def test_a_killed_launcher_leaves_no_orphan(supervise):
    process, run = supervise("endless")
    wait_until(stepping(run))
    launcher = next(record for record in run.read_status().processes if record.role == "launcher")
    os.kill(launcher.pid, signal.SIGKILL)
    status = ended(process, run)
    assert (status.state, status.exit_reason.kind) == ("failed", "signal")
    assert "launcher" in status.exit_reason.message


def test_a_killed_supervisor_is_lost_and_stop_cleans_up(supervise):
    process, run = supervise("endless")
    wait_until(stepping(run))
    process.kill()
    process.wait()
    assert run.read_status().state == "running"  # its last word, which nobody takes back
    status = current_status(run)
    assert (status.state, status.exit_reason.kind) == ("lost", "lost")
    launcher = next(record for record in status.processes if record.role == "launcher")
    wait_until(lambda: not psutil.pid_exists(launcher.pid))
    # these ranks have no parent-death signal of their own, as a foreign script might not
    assert alive_of(run)
    assert stop_run(run).state == "lost"
    assert alive_of(run) == []


def test_a_removed_status_is_written_again_and_a_removed_folder_ends_the_run(supervise):
    process, run = supervise("endless")
    wait_until(lambda: run.read_status() and run.read_status().state == "running")
    run.status.unlink()
    assert wait_until(run.read_status).state == "running"
    shutil.rmtree(run.root, ignore_errors=True)
    shutil.rmtree(run.root, ignore_errors=True)  # a file that was just being written keeps the first one from its end
    assert process.wait(timeout=20) == 0
    assert alive_of(run) == [] and not run.root.exists()
