"""Sharded training over Gloo: the same curve as unsharded, a part of the memory, checkpoints and a model for anyone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.pool import RankFailed
from tests.engine.test_training import finished, model_loads_and_generates
from tests.engine.trainings import events, losses, new_run, next_attempt, tiny_preset, train_on_rank, write_text


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_text(tmp_path_factory.mktemp("data") / "text.jsonl")


def sharded(data: Path, world: int = 2, **changes: Any) -> Any:
    return tiny_preset(data, world, distributed__strategy="fsdp", **changes)


def test_the_curve_is_that_of_whole_models(ranks, tmp_path, data):
    how = {"data__valid": 0.2, "training__eval_every": 3, "training__max_grad_norm": 0.3}
    single = finished(ranks, tmp_path / "single", tiny_preset(data, 1, **how))
    copies = finished(ranks, tmp_path / "ddp", tiny_preset(data, 2, **how))
    parts = finished(ranks, tmp_path / "fsdp", sharded(data, **how))
    assert {record["strategy"] for record in events(parts, "rank_ready")} == {"fsdp"}
    for whole in (single, copies):
        assert losses(parts) == pytest.approx(losses(whole), rel=2e-5)
        for name, field in (("evaluation", "loss"), ("step", "grad_norm")):
            ours, theirs = ([record[field] for record in events(run, name, 0)] for run in (parts, whole))
            assert ours == pytest.approx(theirs, rel=2e-4), name
    assert events(parts, "generation")[0]["text"] == events(single, "generation")[0]["text"]
    ranks(1).run(model_loads_and_generates, str(parts.model))
    ranks(1).run(models_are_equal, str(parts.model), str(copies.model))


def models_are_equal(_rank: int, one: str, other: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    first, second = (AutoModelForCausalLM.from_pretrained(folder) for folder in (one, other))
    assert type(first) is type(second) and first.config.to_dict().keys() == second.config.to_dict().keys()
    for (name, ours), theirs in zip(first.named_parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=name)
