"""Which checkpoints are kept, and whose weights the final model has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.contract.run_dir import RunDir
from tests.engine.trainings import events, losses, new_run, next_attempt, tiny_preset, train_on_rank, write_text


def overfitting(folder: Path, **overrides):
    """Four rows by heart: what other rows cost rises again after a while."""
    valid = folder / "valid.jsonl"
    words = ["buckets", "of", "data", "wait", "while", "another", "rank", "reads", "over", "its", "gradients"]
    texts = [" ".join(words[(row * 5 + i * 3) % len(words)] for i in range(12)) for row in range(8)]
    valid.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    values = {"data__valid": str(valid), "training__max_steps": 200, "training__global_batch": 4, "training__micro_batch": 2,
              "training__learning_rate": 5e-3, "training__scheduler": "constant",
              "training__eval_every": 5, "training__early_stopping": {"patience": 2}, "checkpoints__every_steps": 5,
              "checkpoints__keep_last": 1, "checkpoints__keep_best": True}
    return tiny_preset(write_text(folder / "train.jsonl", rows=4), 2, **values | overrides)


def same_weights(_rank: int, root: str, step: int) -> bool:
    import torch
    from safetensors.torch import load_file

    run = RunDir(root)
    kept = torch.load(run.checkpoint(step) / "weights.pt", map_location="cpu", weights_only=True)
    final = load_file(run.model / "model.safetensors")
    return len(final) > 5 and all(torch.equal(weight, kept[name]) for name, weight in final.items())


def test_the_best_checkpoint_is_the_result_also_after_a_stop(ranks, tmp_path):
    preset = overfitting(tmp_path)
    run = new_run(tmp_path, preset)
    assert ranks(2).run(train_on_rank, str(run.root))[0][:2] == ("finished", "early_stopped")
    found = {record["step"]: record["loss"] for record in events(run, "evaluation")}
    best, last = min(found, key=found.get), max(found)
    assert best == last - 10, found
    assert run.checkpoint_steps() == [best, last]
    told = events(run, "exported")
    assert [(record["step"], record["best"], record["metric"], record["value"]) for record in told] == [(best, True, "eval_loss", found[best])]
    assert ranks(1).run(same_weights, str(run.root), best) == [True] and ranks(1).run(same_weights, str(run.root), last) == [False]

    again = new_run(tmp_path / "again", preset)
    ranks(2).run(train_on_rank, str(again.root), best + 3)
    assert again.checkpoint_steps() == [best, best + 3]
    again.clear_stop()
    next_attempt(again, preset)
    assert ranks(2).run(train_on_rank, str(again.root))[0][:2] == ("finished", "early_stopped")
    assert losses(again) == losses(run) and again.checkpoint_steps() == [best, last]
    assert events(again, "exported")[0]["step"] == best and ranks(1).run(same_weights, str(again.root), best) == [True]


def test_the_last_step_is_the_result_where_it_is_the_best_or_nothing_else_was_asked(ranks, tmp_path):
    for name, changes in (("a", {"training__max_steps": 5}), ("b", {"checkpoints__keep_best": False})):
        run = new_run(tmp_path / name, overfitting(tmp_path, **changes))
        ranks(2).run(train_on_rank, str(run.root))
        last = max(losses(run))
        told = events(run, "exported")[0]
        assert (told["step"], told["best"]) == (last, name == "a")
        assert run.checkpoint_steps() == [last] and ranks(1).run(same_weights, str(run.root), last) == [True]


def test_best_by_a_metric_and_a_metric_that_is_none(ranks, tmp_path):
    for metric, warned in (("eval_perplexity", []), ("eval_beauty", ["best"])):
        run = new_run(tmp_path / metric, overfitting(tmp_path, checkpoints__metric=metric, training__max_steps=10))
        ranks(2).run(train_on_rank, str(run.root))
        assert [record["kind"] for record in events(run, "warning")] == warned
        assert events(run, "exported")[0]["metric"] == ("eval_loss" if warned else metric)


@pytest.mark.parametrize(("minutes", "least", "most"), [(1e-4, 4, 12), (60.0, 1, 1)])
def test_checkpoints_by_the_clock(ranks, tmp_path, minutes, least, most):
    run = new_run(tmp_path, tiny_preset(write_text(tmp_path / "text.jsonl"), 2, checkpoints__every_minutes=minutes, training__max_steps=12))
    ranks(2).run(train_on_rank, str(run.root))
    saved = [record["step"] for record in events(run, "checkpoint")]
    assert least <= len(saved) <= most and saved[-1] == 12 and run.checkpoint_steps() == saved[-2:]


def largest_difference(_rank: int, first: str, second: str) -> float:
    from safetensors.torch import load_file

    one, other = (load_file(Path(folder, "model.safetensors")) for folder in (first, second))
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_the_best_of_a_sharded_training_is_the_result_too(ranks, tmp_path):
    found = []
    for strategy in ("ddp", "fsdp"):
        # not to where it stops by itself: small differences grow while a few rows are learned by heart
        run = new_run(tmp_path / strategy, overfitting(tmp_path, distributed__strategy=strategy, training__max_steps=20, training__early_stopping=None))
        assert ranks(2).run(train_on_rank, str(run.root))[0][0] == "finished"
        found.append((run, events(run, "exported")[0]))
    (_, plain), (_, sharded) = found
    assert sharded["best"] and sharded["step"] == plain["step"] < 20 and sharded["value"] == pytest.approx(plain["value"], rel=1e-3)
    assert ranks(1).run(largest_difference, *(str(run.model) for run, _ in found))[0] < 1e-3
