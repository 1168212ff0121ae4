"""`training.compile`: the same training, or one clear word before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.pool import RankFailed
from tests.engine.trainings import events, losses, new_run, tiny_preset, train_on_rank, write_text


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_text(tmp_path_factory.mktemp("data") / "text.jsonl")


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("world", [1, 2])
def test_a_compiled_model_trains_alike(ranks, tmp_path, data, world):
    found = []
    for name, compile_it in (("plain", False), ("compiled", True)):
        preset = tiny_preset(data, world, data__valid=0.2, training__compile=compile_it)
        run = new_run(tmp_path / name, preset)
        assert ranks(world).run(train_on_rank, str(run.root), timeout_s=1500)[0][0] == "finished"
        found.append(losses(run) | {"evaluation": events(run, "evaluation")[-1]["loss"]})
        assert events(run, "warning") == [] and events(run, "generation")[0]["text"]
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    phases = [(record["name"], record["s_limit"]) for record in events(run, "phase", 0)]
    assert ("preparing", 3600.0) in phases  # the compiler's minutes are no standstill


def train_without_compiler(rank: int, root: str) -> None:
    import torch

    def refuse(_function: object) -> object:
        def call(*_: object) -> None:
            raise RuntimeError("backend failed") from FileNotFoundError("g++: command not found")
        return call

    original, torch.compile = torch.compile, refuse
    try:
        train_on_rank(rank, root)
    finally:
        torch.compile = original


def test_no_compiler_is_said_before_anything_is_read(ranks, tmp_path, data):
    run = new_run(tmp_path, tiny_preset(data, 1, training__compile=True))
    with pytest.raises(RankFailed, match=r"PresetMismatch: training.compile: torch cannot compile on this machine: g\+\+: command not found. It needs a C\+\+ compiler"):
        ranks(1).run(train_without_compiler, str(run.root))
    assert "loading data" not in {record["name"] for record in events(run, "phase")}
