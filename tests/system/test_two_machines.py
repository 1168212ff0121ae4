"""Two machines over Gloo, each with a run of its own: the same training as on one, and every way it ends."""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest

from engine.contract.run_dir import RunDir
from tests.cluster.commands import events, kill_rank, living, steps
from tests.system.machines import INTERFACE
from tests.system.waiting import SLOW_S, until
from wizard.errors import ExitCode

pytestmark = [pytest.mark.system, pytest.mark.launch, pytest.mark.timeout(3 * SLOW_S)]

#: Each of the two believes that it has all cores; more threads than there are make steps ten times as long.
TWO = ["--set", "distributed.num_nodes=2", "--set", "distributed.num_processes_per_node=1", "--set", "distributed.threads_per_process=1"]
MEET = [*TWO, "--set", "distributed.main_address=10.231.9.1"]


def set_words(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def losses(*runs: RunDir, attempt: int = 1) -> dict[int, float]:
    """Loss of every step over all ranks, wherever they wrote it."""
    sums: dict[int, list[float]] = {}
    for run in runs:
        for rank in run.event_files():
            for event in events(run, rank, "step"):
                if event["attempt"] == attempt:
                    total = sums.setdefault(event["step"], [0.0, 0])
                    total[0] += event["loss_sum"]
                    total[1] += event["target_tokens"]
    return {step: loss / tokens for step, (loss, tokens) in sorted(sums.items())}


def finish(processes: list[subprocess.Popen], timeout_s: float = SLOW_S) -> list[int]:
    return [process.wait(timeout=timeout_s) for process in processes]


def told(process: subprocess.Popen) -> str:
    return process.out.read_text() + process.err.read_text()


def test_two_machines_train_what_one_does_and_go_on_after_a_stop_on_either(cluster):
    """No disk in common; the first machine's own name is a loopback address on itself, as Debian has it."""
    cluster.machines.name_hosts(0, {"machine-a": "127.0.1.1", "machine-b": cluster.machines.addresses[1]})
    preset = cluster.preset("pair", 6)
    settings = set_words("distributed.main_address=machine-a", "checkpoints.every_steps=2", "checkpoints.keep_last=1")
    started = cluster.both(preset, *TWO, *settings)
    runs = [cluster.run_on(number, "pair") for number in (0, 1)]
    for number, run in enumerate(runs):
        pid = until(lambda run=run, number=number: [event["pid"] for event in events(run, number, "rank_ready")])[0]
        assert os.readlink(f"/proc/{pid}/ns/net") == cluster.machines.namespace(number)
    assert finish(started) == [ExitCode.OK, ExitCode.OK], told(started[0]) + told(started[1])

    for number, run in enumerate(runs):
        ready = events(run, number, "rank_ready")[0]
        assert (ready["world_size"], ready["backend"], ready["strategy"], ready["host"]) == (2, "gloo", "ddp", cluster.machines.hosts[number])
        assert run.read_status().state == "finished" and list(run.event_files()) == [number]
        # each machine has all that it needs to go on, and the preparation of the data is cleared away
        assert run.checkpoint_steps() == [6] and not (run.root / "data").exists()
        assert {"weights.pt", "optimizer.pt", f"random-0000{number}.pt"} <= {path.name for path in run.checkpoint(6).iterdir()}
        assert f"of rank {number}" in told(started[number]) and "Traceback" not in told(started[number])
    assert runs[0].model.is_dir() and not runs[1].model.exists() and "on the first machine" in told(started[1])
    assert living(cluster.folder) == []

    # the same on one machine
    alone = cluster.start("run", preset, *set_words("training.max_steps=6", "distributed.threads_per_process=1"))
    assert finish([alone]) == [ExitCode.OK], told(alone)
    assert losses(*runs) == losses(cluster.run_of("pair")) and len(losses(*runs)) == 6

    # prolonged, without naming the machines again; a stop asked for on the second machine stops both, with a checkpoint
    longer = [cluster.start_on(number, "run", "--resume", str(runs[number].root), "--set", "training.max_steps=1000000") for number in (0, 1)]
    for number, run in enumerate(runs):
        until(steps_of(run, number, 3))
    code, _, err = cluster.command_on(1, "stop", str(runs[1].root))
    assert code == ExitCode.OK, err
    assert finish(longer) == [ExitCode.STOPPED, ExitCode.STOPPED], told(longer[0]) + told(longer[1])
    for number, run in enumerate(runs):
        assert events(run, number, "run_started")[-1]["resumed_from_step"] == 6
        assert run.read_status().state == "stopped"
    assert runs[0].checkpoint_steps() == runs[1].checkpoint_steps() and runs[0].checkpoint_steps()[-1] >= 9
    assert living(cluster.folder) == []


def steps_of(run: RunDir, rank: int, count: int, attempt: int = 2):
    return lambda: sum(event["attempt"] == attempt for event in events(run, rank, "step")) >= count


def test_one_shared_folder_a_lost_rank_and_a_restart_of_both(cluster):
    """On a shared disk each machine still has a run of its own; both go on from the newest checkpoint that both have."""
    shared = {"AUTOTRAIN_WIZARD_RUNS": str(cluster.folder / "shared" / "runs"), "XDG_STATE_HOME": str(cluster.folder / "shared" / "state")}
    preset = cluster.preset("shared")
    started = cluster.both(preset, *MEET, *set_words("checkpoints.every_steps=5", "distributed.max_restarts=1"), **shared)
    runs = [cluster.run_on(number, "shared") for number in (0, 1)]
    assert runs[0].root.parent == runs[1].root.parent and runs[0].root != runs[1].root
    until(lambda: all(run.checkpoint_steps() for run in runs) and all(run.read_status().state == "running" for run in runs))
    kill_rank(runs[1], 1)
    for number, run in enumerate(runs):
        until(steps_of(run, number, 3))
    assert cluster.command_on(0, "stop", str(runs[0].root), **shared)[0] == ExitCode.OK
    assert finish(started) == [ExitCode.STOPPED, ExitCode.STOPPED], told(started[0]) + told(started[1])
    resumed = [events(run, number, "run_started")[-1] for number, run in enumerate(runs)]
    assert [event["attempt"] for event in resumed] == [2, 2]
    assert resumed[0]["resumed_from_step"] == resumed[1]["resumed_from_step"] >= 5
    why = json.loads((runs[0].attempt(2) / "launch.json").read_text())["restart_of"]["exit_reason"]
    assert why["kind"] == "lost" and "another machine" in why["message"]
    assert living(cluster.folder) == []

    # by the preset's name each machine finds its own
    for number in (0, 1):
        code, out, err = cluster.command_on(number, "run", preset, "--resume", "--node-rank", str(number), "--dry-run", "--json",
                                            "--set", "training.max_steps=500", **shared)
        assert code == ExitCode.OK, err
        assert json.loads(out)["run_dir"] == str(runs[number].root)


@pytest.mark.parametrize("number", [0, 1])
def test_a_machine_that_never_comes(cluster, number):
    began = time.monotonic()
    code, out, err = cluster.command_on(number, "run", cluster.preset("alone"), *MEET, "--node-rank", str(number),
                                        "--set", "distributed.join_timeout_s=3")
    assert code == ExitCode.TRAINING_FAILED and time.monotonic() - began < SLOW_S
    words = "only 1 of 2 machines joined" if number == 0 else "the first machine did not answer at 10.231.9.1 port 29500"
    assert words in out and "--node-rank" in out and "Traceback" not in out
    assert f"machine {number} of 2: waiting up to 3 s for the others" in err
    status = cluster.run_on(number, "alone").read_status()
    assert (status.state, status.exit_reason.kind) == ("failed", "launch")
    assert living(cluster.folder) == []


def test_presets_that_differ_are_named(cluster):
    preset = cluster.preset("differ", 6)
    started = [cluster.start_on(number, "run", preset, *MEET, "--node-rank", str(number), *set_words(f"training.seed={number}", *more))
               for number, more in enumerate(([], ["training.learning_rate=2e-3"]))]
    assert finish(started) == [ExitCode.INVALID, ExitCode.INVALID]
    for process in started:
        assert "the preset is not the same on all machines" in told(process)
        assert "training.seed" in told(process) and "training.learning_rate" in told(process)
    assert living(cluster.folder) == []


def test_a_cable_that_is_pulled(cluster):
    """Silence on the network is no error of TCP's: the collective's own timeout has to end it, on both machines."""
    preset = cluster.preset("cable")
    started = cluster.both(preset, *MEET, *set_words("distributed.timeout_s=15", "checkpoints.every_steps=5"))
    runs = [cluster.run_on(number, "cable") for number in (0, 1)]
    until(steps(runs[0], 3))
    until(lambda: all(run.checkpoint_steps() for run in runs))
    subprocess.run(["ip", "-n", cluster.machines.spaces[1], "link", "set", INTERFACE, "down"], check=True, timeout=10)
    codes = finish(started)
    assert all(code in (ExitCode.TRAINING_FAILED, ExitCode.LOST) for code in codes), codes
    for run, process in zip(runs, started, strict=True):
        assert run.read_status().state == "failed"
        assert "another machine" in told(process) and "run --resume" in told(process)
    assert living(cluster.folder) == []


@pytest.mark.parametrize(("number", "settings", "code", "words"), [
    (0, [], ExitCode.INVALID, "distributed.main_address: found nothing"),
    (0, ["main_address=nowhere.invalid"], ExitCode.PREFLIGHT, "the name nowhere.invalid is not known"),
    (0, ["main_address=10.231.9.2"], ExitCode.PREFLIGHT, "10.231.9.2 does not lead to this machine"),
    (0, ["main_address=127.0.0.1"], ExitCode.PREFLIGHT, "127.0.0.1 cannot be reached from the other machines"),
    (1, ["main_address=127.0.0.1"], ExitCode.PREFLIGHT, "127.0.0.1 means this machine itself"),
    (1, ["main_address=10.99.0.1"], ExitCode.PREFLIGHT, "no way from this machine to 10.99.0.1"),
    (0, ["main_address=10.231.9.1", "network_interface=eth7"], ExitCode.PREFLIGHT, f"no interface eth7 on this machine\n  there are: {INTERFACE}"),
    (0, ["main_address=10.231.9.1", "network_interface=lo"], ExitCode.PREFLIGHT, "lo leads to this machine alone"),
])
def test_what_cannot_work_is_said_at_once(cluster, number, settings, code, words):
    began = time.monotonic()
    found, _, err = cluster.command_on(number, "run", cluster.preset("wrong"), *TWO, "--node-rank", str(number),
                                       *set_words(*(f"distributed.{setting}" for setting in settings)))
    assert found == code and words in err, err
    assert time.monotonic() - began < 60, "an answer before anything is started"
    assert not list(cluster.home(number).glob("runs/*/*")) and living(cluster.folder) == []


def test_a_name_that_is_loopback_elsewhere(cluster):
    """The first machine may be known to the second by a loopback address only through a mistake in /etc/hosts."""
    cluster.machines.name_hosts(1, {"machine-a": "127.0.1.1"})
    code, _, err = cluster.command_on(1, "run", cluster.preset("wrong"), *TWO, "--node-rank", "1", "--set", "distributed.main_address=machine-a")
    assert code == ExitCode.PREFLIGHT and "machine-a (127.0.1.1) means this machine itself" in err


def test_the_interface_is_chosen_by_the_main_address(cluster):
    for number in (0, 1):
        code, out, err = cluster.command_on(number, "run", cluster.preset("chosen"), *MEET, "--node-rank", str(number), "--dry-run", "--json")
        assert code == ExitCode.OK, err
        env = json.loads(out)["env"]
        assert (env["GLOO_SOCKET_IFNAME"], env["NCCL_SOCKET_IFNAME"]) == (INTERFACE, f"={INTERFACE}")


def test_a_taken_port_is_named(cluster):
    listen = "import socket, time; s = socket.create_server(('', 29500)); print('up', flush=True); time.sleep(60)"
    taker = subprocess.Popen(["ip", "netns", "exec", cluster.machines.spaces[0], "python3", "-c", listen], stdout=subprocess.PIPE)
    cluster.started.append(taker)
    assert taker.stdout.readline() == b"up\n"
    code, _, err = cluster.command_on(0, "run", cluster.preset("taken"), *MEET)
    assert code == ExitCode.PREFLIGHT
    assert "distributed.main_port: port 29500 is in use" in err and "--set distributed.main_port=PORT" in err
    # who forgets --node-rank on the second machine is told so, though the first one answers there
    code, _, err = cluster.command_on(1, "run", "taken.yaml", *MEET)
    assert code == ExitCode.PREFLIGHT and "does not lead to this machine" in err and "--node-rank" in err
    taker.stdout.close()
