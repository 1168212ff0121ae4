"""Processes killed at random moments, the run resumed: the same losses as never having been disturbed."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass

import psutil
import pytest

from engine.contract.run_dir import RunDir
from tests.cluster.commands import Workshop, events, living, steps, until
from tests.engine.trainings import losses
from wizard.errors import ExitCode
from wizard.launch.liveness import current_status

pytestmark = pytest.mark.launch

SETTINGS = ["--set", "checkpoints.every_steps=20", "--set", "checkpoints.keep_last=1", "--set", "training.scheduler=cosine"]
#: How each process is known by its command line; the launcher's own names the ranks' module too.
WORDS = {"supervisor": "wizard.launch.supervisor", "launcher": "accelerate.commands.launch", "rank": "engine.train"}
OUTCOME = {"rank": ExitCode.TRAINING_FAILED, "launcher": ExitCode.TRAINING_FAILED, "supervisor": ExitCode.LOST}
#: Where a kill may come; twice as often while training as anywhere else.
MOMENTS = ("starting", "loading libraries", "connecting", "loading data", "loading model", "preparing", "training", "training",
           "saving checkpoint")


@dataclass(frozen=True)
class Kill:
    """Kill `role` once rank 0 has been `s` seconds in the phase `moment`, in training after `steps` steps."""

    role: str
    moment: str
    s: float
    steps: int


def processes(run: RunDir, role: str) -> list[psutil.Process]:
    others = [words for name, words in WORDS.items() if name != role and role == "rank"]
    lines = [(process, " ".join(process.cmdline())) for process in living(run.root)]
    return [process for process, line in lines if WORDS[role] in line and not any(words in line for words in others)]


def reached(run: RunDir, attempt: int, kill: Kill) -> bool:
    if kill.moment == "training":
        return steps(run, kill.steps, attempt)()
    return any(event["attempt"] == attempt and event["name"] == kill.moment for event in events(run, kind="phase"))


def killed(run: RunDir, attempt: int, kill: Kill, chance: random.Random) -> None:
    """Carry out one kill, and see that nothing is left alive and every checkpoint can be read."""
    until(lambda: run.read_status().attempt == attempt and processes(run, kill.role) and reached(run, attempt, kill))
    time.sleep(kill.s)
    chance.choice(processes(run, kill.role)).kill()
    until(lambda: living(run.root) == [], 30)
    assert current_status(run).state == ("lost" if kill.role == "supervisor" else "failed")
    for step in run.checkpoint_steps():
        readable(run, step)


def readable(run: RunDir, step: int) -> None:
    import torch

    folder = run.checkpoint(step)
    assert json.loads((folder / "state.json").read_text())["step"] == step
    tensors = [torch.load(file, map_location="cpu", weights_only=True) for file in folder.glob("*.pt")]
    assert len(tensors) == 4, sorted(file.name for file in folder.iterdir())  # weights, optimizer, two ranks' randomness


def kill_and_resume(workshop: Workshop, max_steps: int, kills: list[Kill], seed: int) -> None:
    chance = random.Random(seed)
    reference = workshop.preset("reference", max_steps)
    assert workshop.command("run", reference, "--plain", *SETTINGS)[0] == ExitCode.OK
    undisturbed = losses(workshop.run_of("reference"))

    command = workshop.start("run", workshop.preset("killed", max_steps), "--plain", *SETTINGS)
    run = workshop.run_of("killed")
    for attempt, kill in enumerate(kills, 1):
        told = f"seed {seed}, attempt {attempt}, {kill}"
        try:
            killed(run, attempt, kill, chance)
        except Exception as error:
            raise AssertionError(f"{told}: {command.err.read_text()[-2000:]}") from error
        assert command.wait(timeout=90) == OUTCOME[kill.role], f"{told}: {command.out.read_text()[-2000:]}"
        command = workshop.start("run", str(run.root), "--resume", "--plain")
        until(lambda attempt=attempt: run.read_status().attempt == attempt + 1)
    assert command.wait(timeout=300) == ExitCode.OK, f"seed {seed}: {command.err.read_text()}"
    assert living(run.root) == []
    # two launches of one preset agree to the bit, with and without a way through a checkpoint
    assert losses(run) == undisturbed, f"seed {seed}"


def test_a_rank_killed_in_training(workshop):
    seed = random.randrange(10**6)
    kill_and_resume(workshop, 400, [Kill("rank", "training", 0.0, random.Random(seed).randrange(1, 200))], seed)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_fifty_kills_of_anyone_at_any_moment(workshop):
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    kills = [Kill(chance.choice(["rank", "rank", "launcher", "supervisor"]), chance.choice(MOMENTS), chance.uniform(0, 0.4),
                  chance.randrange(1, 60)) for _ in range(50)]
    kill_and_resume(workshop, 6000, kills, seed)
