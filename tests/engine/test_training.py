"""Real trainings of a tiny model in pools of 1, 2 and 4 Gloo ranks: correct, the same each time, resumable."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from engine.contract.events import EVENT_TYPES
from tests.engine.pool import RankFailed
from tests.engine.trainings import events, losses, new_run, next_attempt, tiny_preset, train_on_rank, write_text


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_text(tmp_path_factory.mktemp("data") / "text.jsonl")


def finished(ranks, tmp_path, preset):
    run = new_run(tmp_path, preset)
    world = preset.distributed.num_processes_per_node
    assert [outcome[0] for outcome in ranks(world).run(train_on_rank, str(run.root))] == ["finished"] * world
    return run


def test_two_ranks_train_tell_and_leave_a_model(ranks, tmp_path, data):
    preset = tiny_preset(data, 2, data__valid=0.2, training__eval_every=3, training__max_steps=30, checkpoints__every_steps=10)
    run = finished(ranks, tmp_path, preset)
    for rank in (0, 1):
        told = [record for kind in EVENT_TYPES for record in events(run, kind, rank)]
        for record in told:
            EVENT_TYPES[record["event"]].model_validate(record)
        ready = events(run, "rank_ready", rank)[0]
        assert (ready["world_size"], ready["backend"], ready["device"], ready["strategy"], ready["precision"]) == (2, "gloo", "cpu", "ddp", "fp32")
        steps = events(run, "step", rank)
        assert [record["step"] for record in steps] == list(range(1, 31))
        for record in steps:
            assert record["wait_ms"] >= 0 and record["compute_ms"] > 0 and record["samples"] == 4
            parts = record["data_ms"] + record["compute_ms"] + record["wait_ms"] + record["optimizer_ms"]
            assert parts == pytest.approx(record["step_time_ms"], rel=0.02, abs=0.05)
        names = [record["name"] for record in events(run, "phase", rank)]
        assert names[0] == "starting" and "loading data" in names and names[-1] == "ending"
    curve = losses(run)
    assert curve[30] < curve[1] - 1
    assert [record["step"] for record in events(run, "evaluation")] == list(range(3, 31, 3))
    assert run.checkpoint_steps() == [20, 30]
    assert events(run, "generation")[0]["text"]
    plan = events(run, "plan")[0]
    assert plan["total_steps"] == 30 and plan["parameters"] == plan["trainable_parameters"] > 10_000
    ranks(1).run(model_loads_and_generates, str(run.model))


def model_loads_and_generates(_rank: int, folder: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert all(bool(torch.isfinite(weight).all()) for weight in model.parameters())
    written = pipeline("text-generation", model=model, tokenizer=tokenizer)("the rank", max_new_tokens=5, do_sample=False)
    assert written[0]["generated_text"].startswith("the rank")


def test_the_same_preset_gives_the_same_losses_to_the_bit(ranks, tmp_path, data):
    preset = tiny_preset(data, 2)
    first, second = (losses(finished(ranks, tmp_path / name, preset)) for name in "ab")
    assert first == second
    other = losses(finished(ranks, tmp_path / "c", tiny_preset(data, 2, training__seed=8)))
    assert other != first


@pytest.mark.parametrize("packing", [True, False], ids=["packed", "padded"])
def test_world_size_and_accumulation_do_not_change_the_curve(ranks, tmp_path, data, packing):
    """The loss is weighted by target tokens over ranks and micro-batches: unevenly filled ones give the same curve."""
    reference = losses(finished(ranks, tmp_path / "1", tiny_preset(data, 1, data__packing=packing)))
    for world, micro, accumulation in ((1, 2, 4), (2, 4, 1), (2, 1, 4), (4, 1, 2)):
        preset = tiny_preset(data, world, data__packing=packing, training__micro_batch=micro, training__gradient_accumulation=accumulation)
        curve = losses(finished(ranks, tmp_path / f"{world}-{accumulation}", preset))
        assert curve == pytest.approx(reference, rel=2e-5), (world, micro, accumulation)


@pytest.mark.parametrize("step", [1, 4, 5])
def test_stop_and_resume_equal_never_having_stopped(ranks, tmp_path, data, step):
    preset = tiny_preset(data, 2, data__valid=0.2, training__eval_every=2, checkpoints__every_steps=100,
                         model__adapter={"r": 4, "dropout": 0.3, "target_modules": ["q_proj", "v_proj"]})
    undisturbed = losses(finished(ranks, tmp_path / "a", preset))
    run = new_run(tmp_path / "b", preset)
    assert ranks(2).run(train_on_rank, str(run.root), step) == [("stopped", "requested", None)] * 2
    assert run.checkpoint_steps() == [step] and max(losses(run)) == step
    run.clear_stop()
    next_attempt(run, preset)
    assert ranks(2).run(train_on_rank, str(run.root))[0][0] == "finished"
    assert losses(run) == undisturbed
    assert events(run, "run_started")[-1]["resumed_from_step"] == step


def test_resume_on_another_number_of_ranks_keeps_the_curve(ranks, tmp_path, data):
    undisturbed = losses(finished(ranks, tmp_path / "a", tiny_preset(data, 2)))
    run = new_run(tmp_path / "b", tiny_preset(data, 2))
    ranks(2).run(train_on_rank, str(run.root), 3)
    run.clear_stop()
    next_attempt(run, tiny_preset(data, 4))
    assert ranks(4).run(train_on_rank, str(run.root))[0][0] == "finished"
    assert losses(run) == pytest.approx(undisturbed, rel=2e-5)


def test_evaluation_is_the_same_on_any_number_of_ranks(ranks, tmp_path, data):
    found = []
    valid = write_text(tmp_path / "valid.jsonl", rows=7)
    for world in (1, 2, 4):
        # one sequence a rank at a time: on one rank nothing has to be filled up, on two and four the last batch does
        preset = tiny_preset(data, world, data__valid=str(valid), data__packing=False, data__max_length=64, training__max_steps=2, training__micro_batch=1, training__gradient_accumulation=8 // world)
        run = finished(ranks, tmp_path / str(world), preset)
        found.append(events(run, "evaluation")[-1])
    assert [record["target_tokens"] for record in found] == [found[0]["target_tokens"]] * 3
    assert [record["loss"] for record in found] == pytest.approx([found[0]["loss"]] * 3, rel=1e-5)
    assert found[0]["metrics"]["perplexity"] == pytest.approx(math.exp(found[0]["loss"]))


def test_early_stopping_is_a_finish(ranks, tmp_path, data):
    preset = tiny_preset(data, 2, data__valid=0.2, training__max_steps=50, training__eval_every=1, training__learning_rate=1e-9,
                         training__early_stopping={"patience": 2, "min_delta": 0.5})
    run = new_run(tmp_path, preset)
    assert ranks(2).run(train_on_rank, str(run.root))[0][:2] == ("finished", "early_stopped")
    assert max(losses(run)) == 3 and run.model.is_dir()


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_compressed_gradients_travel_over_gloo(ranks, tmp_path, data, compression):
    exact = losses(finished(ranks, tmp_path / "a", tiny_preset(data, 2)))
    rounded = losses(finished(ranks, tmp_path / "b", tiny_preset(data, 2, distributed__communication={"compression": compression, "bucket_mb": 1})))
    assert rounded != exact and rounded == pytest.approx(exact, abs=0.02)


def test_gradient_checkpointing_changes_memory_not_mathematics(ranks, tmp_path, data):
    plain = losses(finished(ranks, tmp_path / "a", tiny_preset(data, 2)))
    assert losses(finished(ranks, tmp_path / "b", tiny_preset(data, 2, training__gradient_checkpointing=True))) == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(("changes", "words"), [
    ({"distributed__num_processes_per_node": 3}, "world size is 2, the preset says 3"),
    ({"distributed__strategy": "single", "distributed__backend": "none"}, "strategy is ddp, the preset says single"),
    ({"training__precision": "fp16"}, "fp16 does nothing on a CPU"),
    ({"distributed__num_gpus_per_node": 2, "distributed__backend": "nccl"}, "backend is gloo, the preset says nccl"),
])
def test_what_the_preset_says_is_asserted_before_the_first_step(ranks, tmp_path, data, changes, words):
    run = new_run(tmp_path, tiny_preset(data, 2, **changes))
    with pytest.raises(RankFailed, match=f"PresetMismatch.*{words}"):
        ranks(2).run(train_on_rank, str(run.root))
    assert events(run, "step") == [] and {record["exit_reason"]["kind"] for record in events(run, "run_ended")} == {"preset"}


def test_numbers_that_are_no_numbers_are_never_trained_on(ranks, tmp_path, data):
    preset = tiny_preset(data, 2, training__learning_rate=1e6, training__max_grad_norm=None, training__max_steps=60, training__optimizer="sgd")
    run = new_run(tmp_path / "a", preset)
    with pytest.raises(RankFailed, match="NonFiniteError: loss or gradients are not finite at step"):
        ranks(2).run(train_on_rank, str(run.root))
    assert not run.model.exists()
    steps = ranks(2).run(train_with_bad_gradients, str(new_run(tmp_path / "b", tiny_preset(data, 2, training__on_non_finite="skip")).root))
    assert steps == [[3], [3]]


def train_with_bad_gradients(rank: int, root: str) -> list[int]:
    """Rank 1's loss of step 3 is infinite; returns the steps that were skipped."""
    import engine.loop
    from engine.contract.run_dir import RunDir
    from engine.tasks import llm

    original, calls = llm.loss_sum, []

    def loss_sum(model: Any, batch: Any) -> Any:
        calls.append(1)
        return original(model, batch) * (math.inf if rank == 1 and len(calls) == 3 else 1)

    seen: list[int] = []
    update = engine.loop.Training._update

    def watched(self: Any, step: int) -> Any:
        norm = update(self, step)
        seen[:] = self.progress.skipped
        return norm

    llm.loss_sum, engine.loop.Training._update = loss_sum, watched
    try:
        assert train_on_rank(rank, root)[0] == "finished"
    finally:
        llm.loss_sum, engine.loop.Training._update = original, update
    assert [record["kind"] for record in events(RunDir(root), "warning", rank)] == ["non_finite"]
    return seen


def test_a_full_disk_ends_the_run_on_all_ranks_and_keeps_older_checkpoints(ranks, tmp_path, data):
    run = new_run(tmp_path, tiny_preset(data, 2, checkpoints__every_steps=2))
    with pytest.raises(RankFailed, match="DiskError: checkpoint of step 4 could not be written.*no space left"):
        ranks(2).run(train_with_full_disk, str(run.root), 4)
    assert run.checkpoint_steps() == [2] and [p.name for p in run.checkpoints.iterdir()] == ["step-00000002"]
    assert {record["exit_reason"]["kind"] for record in events(run, "run_ended")} == {"disk"}


def train_with_full_disk(rank: int, root: str, step: int) -> None:
    import errno

    import torch

    original = torch.save

    def save(value: Any, path: Any, **options: Any) -> None:
        if f"{step:08d}" in str(path) and rank == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(value, path, **options)

    torch.save = save
    try:
        train_on_rank(rank, root)
    finally:
        torch.save = original


def test_an_adapter_is_saved_and_merged(ranks, tmp_path, data):
    base = finished(ranks, tmp_path / "base", tiny_preset(data, 1, training__max_steps=1)).model
    for merge in (False, True):
        preset = tiny_preset(data, 2, model={"path": str(base), "adapter": {"r": 4, "dropout": 0.0, "merge": merge}})
        run = finished(ranks, tmp_path / str(merge), preset)
        assert (run.model / "adapter_config.json").exists() is not merge
        plan = events(run, "plan")[0]
        assert 0 < plan["trainable_parameters"] < plan["parameters"] / 2
        ranks(1).run(model_loads_and_generates, str(run.model))
    kept = finished(ranks, tmp_path / "kept", tiny_preset(data, 2, model={"path": str(base), "adapter": {"r": 4}}, checkpoints__every_steps=3))
    weights = sum(file.stat().st_size for file in kept.checkpoint(6).rglob("*"))
    assert weights < 3 * sum(file.stat().st_size for file in kept.model.rglob("adapter_model*")) + 200_000
