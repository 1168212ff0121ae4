"""Real launches: the traps of accelerate and torchrun that must be impossible, and every way a run ends.

A launch costs ten seconds, so each one serves several checks.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.cluster.commands import events, in_phase, kill_rank, living, role, steps, until
from wizard.errors import ExitCode
from wizard.launch.liveness import current_status

pytestmark = pytest.mark.launch

#: What `accelerate config` may have left: each value would change how the preset is trained.
STALE = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: fp16
num_machines: 1
num_processes: 1
use_cpu: true
debug: false
fsdp_config: {fsdp_version: 1, fsdp_offload_params: true}
"""
DECOY = "import pathlib\npathlib.Path({marker!r}).write_text('taken')\nraise SystemExit('a stranger')\n"
LEFT_BEHIND = {
    "ACCELERATE_MIXED_PRECISION": "fp16", "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1", "ACCELERATE_USE_DEEPSPEED": "true",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "7", "ACCELERATE_DYNAMO_BACKEND": "INDUCTOR", "RANK": "5", "LOCAL_RANK": "5",
    "WORLD_SIZE": "9", "MASTER_ADDR": "10.255.255.1", "MASTER_PORT": "1", "PET_NNODES": "3", "OMP_NUM_THREADS": "61",
    "TORCHELASTIC_RESTART_COUNT": "2", "OMPI_COMM_WORLD_SIZE": "4", "PYTHONPATH": ":decoys:",
}


def test_two_ranks_are_two_whatever_lies_around(workshop):
    """Stale configuration, variables of another launcher, a stranger's engine.py: nothing of it changes anything."""
    marker = workshop.folder / "marker"
    (workshop.folder / "hf" / "accelerate").mkdir(parents=True)
    (workshop.folder / "hf" / "accelerate" / "default_config.yaml").write_text(STALE)
    (workshop.folder / "decoys" / "engine").mkdir(parents=True)
    for decoy in ("engine.py", "decoys/engine/__init__.py", "accelerate.py", "torch.py"):
        (workshop.folder / decoy).write_text(DECOY.format(marker=str(marker)))
    # the command itself is started as its console script does it: without the current folder on the path
    code, out, err = workshop.command("run", workshop.preset("tiny", 6), "--json", PYTHONSAFEPATH="1", **LEFT_BEHIND)
    assert code == ExitCode.OK, err
    assert not marker.exists()

    told = [json.loads(line) for line in out.splitlines()]
    ready = [event for event in told if event["event"] == "rank_ready"]
    assert {event["rank"] for event in ready} == {0, 1} and len({event["pid"] for event in ready}) == 2
    for event in ready:
        assert (event["world_size"], event["backend"], event["device"], event["strategy"], event["precision"]) == (2, "gloo", "cpu", "ddp", "fp32")
    assert [event["step"] for event in told if event["event"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert sum(event["event"] == "run_ended" for event in told) == 1
    last = told[-1]
    assert (last["event"], last["state"]) == ("run_ended", "finished")
    assert os.path.exists(os.path.join(last["model_path"], "config.json"))

    run = workshop.run_of("tiny")
    record = json.loads((run.attempt(1) / "launch.json").read_text())
    assert set(LEFT_BEHIND) <= set(record["env_removed"])
    assert oct(run.root.stat().st_mode & 0o777) == "0o700"
    assert living(workshop.folder) == []


def test_two_runs_at_once_one_loses_a_rank_the_other_is_stopped_and_resumed(workshop):
    doomed = workshop.start("run", workshop.preset("doomed"), "--json")
    healthy = workshop.start("run", workshop.preset("healthy"))
    first, second = workshop.run_of("doomed"), workshop.run_of("healthy")
    until(steps(first, 3))
    until(steps(second, 3))
    until(lambda: first.read_status().state == second.read_status().state == "running")

    kill_rank(first, 1)
    assert doomed.wait(timeout=60) == ExitCode.TRAINING_FAILED
    last = json.loads(doomed.out.read_text().splitlines()[-1])
    assert (last["event"], last["state"]) == ("run_ended", "failed")
    assert (last["exit_reason"]["kind"], last["exit_reason"]["rank"]) == ("signal", 1) and last["exit_reason"]["step"] >= 3
    assert living(first.root) == []

    # hang-up leaves a run alone; another terminal stops it
    healthy.send_signal(signal.SIGHUP)
    assert healthy.wait(timeout=30) == ExitCode.HANGUP
    assert second.read_status().state == "running"
    code, out, _ = workshop.command("stop")
    assert code == ExitCode.OK and second.checkpoint_steps()
    assert second.read_status().state == "stopped" and living(second.root) == []
    stopped_at = second.checkpoint_steps()[-1]

    # resumed, detached; then its supervisor is killed: lost, and nothing lives on
    code, out, err = workshop.command("run", "healthy.yaml", "--resume", "--detach")
    assert code == ExitCode.OK and out.strip() == str(second.root), err
    assert events(second, kind="run_started")[-1]["resumed_from_step"] == stopped_at
    assert min(event["step"] for event in events(second, kind="step") if event["attempt"] == 2) == stopped_at + 1
    os.kill(role(second, "supervisor"), signal.SIGKILL)
    until(lambda: living(second.root) == [], 15)
    assert current_status(second).state == "lost"
    assert workshop.command("watch", str(second.root), "--plain")[0] == ExitCode.LOST


def test_a_crashed_group_is_restarted_and_a_killed_launcher_leaves_no_orphan(workshop):
    settings = ["--set", "distributed.max_restarts=1", "--set", "checkpoints.every_steps=5"]
    assert workshop.command("run", workshop.preset("tiny"), "--detach", *settings)[0] == ExitCode.OK
    run = workshop.run_of("tiny")
    until(lambda: run.read_status().state == "running" and run.checkpoint_steps())
    before = {record.pid for record in run.read_status().processes if record.role == "rank"}
    kill_rank(run, 1)
    until(lambda: run.read_status().attempt == 2 and run.read_status().state == "running")
    resumed = events(run, kind="run_started")[-1]["resumed_from_step"]
    assert resumed >= 5 and resumed % 5 == 0
    assert before.isdisjoint({record.pid for record in run.read_status().processes if record.role == "rank"})
    why = json.loads((run.attempt(2) / "launch.json").read_text())["restart_of"]
    assert (why["attempt"], why["exit_reason"]["kind"], why["exit_reason"]["rank"]) == (1, "signal", 1)

    os.kill(role(run, "launcher"), signal.SIGKILL)
    until(lambda: run.read_status().state == "failed", 30)
    until(lambda: living(workshop.folder) == [], 10)
    assert run.read_status().exit_reason.kind == "signal"


@pytest.mark.parametrize(("phase", "number", "code"), [
    ("", signal.SIGINT, ExitCode.INTERRUPTED), ("loading libraries", signal.SIGTERM, ExitCode.TERMINATED)])
def test_interrupted_before_training(workshop, phase, number, code):
    command = workshop.start("run", workshop.preset("tiny"))
    run = workshop.run_of("tiny")
    if phase:
        until(in_phase(run, phase))
    command.send_signal(number)
    assert command.wait(timeout=40) == code
    assert run.read_status().state == "stopped" and living(workshop.folder) == []
    assert "before the first step" in run.read_status().exit_reason.message or "while" in run.read_status().exit_reason.message
    assert "Traceback" not in command.err.read_text()


def test_one_process_is_interrupted_in_training(workshop):
    preset = workshop.preset("alone")
    settings = ["--set", "distributed.strategy=single", "--set", "distributed.backend=none", "--set", "distributed.num_processes_per_node=1"]
    command = workshop.start("run", preset, *settings)
    run = workshop.run_of("alone")
    until(steps(run, 3))
    assert events(run, kind="rank_ready")[0]["world_size"] == 1
    command.send_signal(signal.SIGINT)
    assert command.wait(timeout=60) == ExitCode.INTERRUPTED
    assert run.read_status().state == "stopped" and run.checkpoint_steps()
    assert living(workshop.folder) == []
