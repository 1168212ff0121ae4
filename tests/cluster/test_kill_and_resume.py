"""A rank killed at a random step, the run resumed: the same losses as never having been disturbed."""

from __future__ import annotations

import random

import pytest

from tests.cluster.commands import kill_rank, living, steps, until
from tests.engine.trainings import losses
from wizard.errors import ExitCode

pytestmark = pytest.mark.launch

SETTINGS = ["--set", "checkpoints.every_steps=20", "--set", "checkpoints.keep_last=1", "--set", "training.scheduler=cosine"]


def kill_and_resume(workshop, name: str, max_steps: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    reference = workshop.preset("reference", max_steps)
    assert workshop.command("run", reference, "--plain", *SETTINGS)[0] == ExitCode.OK
    undisturbed = losses(workshop.run_of("reference"))

    command = workshop.start("run", workshop.preset(name, max_steps), "--plain", *SETTINGS)
    run = workshop.run_of(name)
    for attempt in range(1, kills + 1):
        rank = chance.randrange(2)
        until(lambda attempt=attempt: run.read_status().attempt == attempt and run.read_status().state == "running")
        until(steps(run, chance.randrange(1, max_steps // (kills + 1)), attempt))
        kill_rank(run, rank)
        assert command.wait(timeout=90) == ExitCode.TRAINING_FAILED, f"seed {seed}"
        assert living(run.root) == []
        assert run.read_status().exit_reason.rank == rank
        command = workshop.start("run", str(run.root), "--resume", "--plain")
        until(lambda attempt=attempt: run.read_status().attempt == attempt + 1)
    assert command.wait(timeout=180) == ExitCode.OK, f"seed {seed}: {command.err.read_text()}"
    assert losses(run) == undisturbed, f"seed {seed}"


def test_killed_once(workshop):
    kill_and_resume(workshop, "killed", max_steps=400, kills=1, seed=random.randrange(10**6))


@pytest.mark.torture
def test_killed_twenty_times(workshop):
    kill_and_resume(workshop, "killed", max_steps=3000, kills=20, seed=random.randrange(10**6))
