"""Sharded training over Gloo: the same curve as unsharded, a part of the memory, checkpoints and a model for anyone."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.contract.run_dir import RunDir
from tests.engine.labelled import labelled_preset, write_labelled
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


@pytest.mark.parametrize("step", [2, 6])
def test_resume_is_exact_and_on_any_number_of_ranks_and_strategy(ranks, tmp_path, data, step):
    how = {"data__valid": 0.2, "training__eval_every": 2, "training__gradient_accumulation": 2, "training__micro_batch": 2}
    preset = sharded(data, **how, training__max_steps=8)
    undisturbed = losses(finished(ranks, tmp_path / "a", preset))
    run = new_run(tmp_path / "b", preset)
    assert ranks(2).run(train_on_rank, str(run.root), step) == [("stopped", "requested", None)] * 2
    shards = run.checkpoint(step) / "shards"
    sizes = [sum(file.stat().st_size for file in shards.glob(f"__{rank}_*.distcp")) for rank in (0, 1)]
    assert min(sizes) > 0.8 * max(sizes), "each rank writes its own half"
    others = [(2, "fsdp", undisturbed), (4, "fsdp", pytest.approx(undisturbed, rel=2e-5))]
    if step == 2:
        others += [(2, "ddp", pytest.approx(undisturbed, rel=2e-5)), (1, "single", pytest.approx(undisturbed, rel=2e-5))]
    for world, strategy, expected in others:
        copy = copied(run, tmp_path / f"{world}-{strategy}")
        how |= {"training__micro_batch": 4 // world, "distributed__strategy": strategy}
        next_attempt(copy, tiny_preset(data, world, **how, training__max_steps=8))
        assert ranks(world).run(train_on_rank, str(copy.root))[0][0] == "finished"
        assert losses(copy) == expected, (world, strategy)
        assert events(copy, "run_started")[-1]["resumed_from_step"] == step


def copied(run: RunDir, to: Path) -> RunDir:
    shutil.copytree(run.root, to)
    copy = RunDir(to)
    copy.clear_stop()
    return copy


def test_a_whole_checkpoint_goes_into_shards(ranks, tmp_path, data):
    """What ddp saved, and what machines without a shared folder save of a sharded model."""
    undisturbed = losses(finished(ranks, tmp_path / "a", tiny_preset(data, 2)))
    for strategy in ("ddp", "fsdp"):
        run = new_run(tmp_path / strategy, tiny_preset(data, 2, distributed__strategy=strategy))
        ranks(2).run(train_with_folders_apart, str(run.root), 3)
        assert (run.checkpoint(3) / "weights.pt").exists() and not (run.checkpoint(3) / "shards").exists()
        run.clear_stop()
        next_attempt(run, sharded(data))
        assert ranks(2).run(train_on_rank, str(run.root))[0][0] == "finished"
        # of the first three steps only rank 0 told in this folder
        assert list(losses(run).values())[3:] == pytest.approx(list(undisturbed.values())[3:], rel=2e-5)
    said = [record["message"] for record in events(run, "warning") if record["kind"] == "checkpoints"]
    assert len(said) == 1 and "share no run folder" in said[0]


def train_with_folders_apart(rank: int, root: str, stop_after: int) -> None:
    """As on two machines, each with a folder of its own; rank 1's is beside rank 0's."""
    from engine import agreement

    found = agreement.keeps_folder
    agreement.keeps_folder = lambda run, rank, control: found(run, rank, control) or True
    own = root if rank == 0 else f"{root}-other"
    if rank:
        new_run_at(Path(own), RunDir(root))
    try:
        train_on_rank(rank, own, stop_after)
    finally:
        agreement.keeps_folder = found


def new_run_at(root: Path, like: RunDir) -> None:
    shutil.copytree(like.root, root, ignore=shutil.ignore_patterns("rank-*"))


def test_every_rank_holds_its_part_only(ranks, tmp_path, data):
    """Weights, gradients and optimizer state of a rank, in bytes, against those of a whole model."""
    whole = ranks(1).run(held_bytes, str(new_run(tmp_path / "1", tiny_preset(data, 1)).root))[0]
    for world in (2, 4):
        parts = ranks(world).run(held_bytes, str(new_run(tmp_path / str(world), sharded(data, world)).root))
        for kind, size in whole.items():
            shares = [part[kind] / size for part in parts]
            assert sum(shares) == pytest.approx(1, rel=0.02) and max(shares) < 1.1 / world, (kind, shares)


def held_bytes(rank: int, root: str) -> dict[str, int]:
    """What this rank holds right before the last optimizer step."""
    import engine.loop
    from engine.sharding import local_bytes

    held: dict[str, int] = {}
    update = engine.loop.Training._update

    def watched(self: Any, step: int) -> Any:
        weights = list(self.model.parameters())
        state = [value for entry in self.optimizer.state.values() for value in entry.values() if value.ndim]
        held.update(weights=local_bytes(weights), gradients=local_bytes(weight.grad for weight in weights), optimizer=local_bytes(state))
        return update(self, step)

    engine.loop.Training._update = watched
    try:
        assert train_on_rank(rank, root)[0] == "finished"
    finally:
        engine.loop.Training._update = update
    return held


@pytest.mark.parametrize("options", [{"reshard_after_forward": False}, {"accumulate_sharded": True}], ids=lambda options: next(iter(options)))
def test_options_change_memory_and_traffic_not_the_curve(ranks, tmp_path, data, options):
    how = {"training__gradient_accumulation": 2, "training__micro_batch": 2, "training__gradient_checkpointing": True}
    reference = losses(finished(ranks, tmp_path / "a", tiny_preset(data, 2)))
    counts = {}
    for name, fsdp in (("plain", {}), ("option", options)):
        run = new_run(tmp_path / name, sharded(data, **how, distributed__fsdp=fsdp))
        counts[name] = ranks(2).run(count_collectives, str(run.root))[0]
        assert losses(run) == pytest.approx(reference, rel=2e-5)
    # three units: two blocks, and what lies around them
    assert counts["plain"] == {"_allgather": 2 * (3 + 2), "_reduce_scatter": 3, "allreduce": 1}, "the norm takes one all-reduce"
    changed = {"_allgather": 2 * 3} if "reshard_after_forward" in options else {"_reduce_scatter": 2 * 3}
    assert counts["option"] == counts["plain"] | changed


def count_collectives(rank: int, root: str) -> dict[str, int]:
    """Collectives of the last step: gathers of weights and reductions of gradients."""
    from torch.utils._python_dispatch import TorchDispatchMode

    import engine.loop

    counts: dict[str, int] = {}
    step = engine.loop.Training._optimizer_step

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            for word in counts:
                counts[word] += op.name().startswith(f"c10d::{word}")
            return op(*args, **(kwargs or {}))

    def watched(self: Any, number: int) -> None:
        counts.update(_allgather=0, _reduce_scatter=0, allreduce=0)
        with Watch():
            step(self, number)

    engine.loop.Training._optimizer_step = watched
    try:
        assert train_on_rank(rank, root)[0] == "finished"
    finally:
        engine.loop.Training._optimizer_step = step
    return counts


def test_bf16_gathers_and_computes_in_16_bits(ranks, tmp_path, data):
    exact = losses(finished(ranks, tmp_path / "a", tiny_preset(data, 2)))
    rounded = losses(finished(ranks, tmp_path / "b", sharded(data, training__precision="bf16")))
    assert rounded != exact and rounded == pytest.approx(exact, abs=0.05)


def test_an_adapter_beside_a_sharded_frozen_base(ranks, tmp_path, data):
    base = finished(ranks, tmp_path / "base", tiny_preset(data, 1, training__max_steps=1)).model
    for merge in (False, True):
        how = {"model": {"path": str(base), "adapter": {"r": 4, "dropout": 0.0, "merge": merge}}, "checkpoints__every_steps": 3}
        reference = losses(finished(ranks, tmp_path / f"ddp-{merge}", tiny_preset(data, 2, **how)))
        run = finished(ranks, tmp_path / f"fsdp-{merge}", sharded(data, **how))
        assert losses(run) == pytest.approx(reference, rel=2e-5)
        assert (run.model / "adapter_config.json").exists() is not merge
        ranks(1).run(model_loads_and_generates, str(run.model))
        saved = ranks(1).run(saved_names, str(run.checkpoint(6)))[0]
        assert saved and all("lora_" in name for name in saved), "a frozen base is not saved"


def saved_names(_rank: int, folder: str) -> list[str]:
    from torch.distributed.checkpoint import FileSystemReader

    return list(FileSystemReader(f"{folder}/shards").read_metadata().state_dict_metadata)


def test_a_classifier_is_sharded_as_well(ranks, tmp_path):
    labelled = write_labelled(tmp_path / "labelled.jsonl")
    how = {"data__valid": 0.2, "training__eval_every": 3}
    copies = finished(ranks, tmp_path / "ddp", labelled_preset(labelled, 2, **how))
    parts = finished(ranks, tmp_path / "fsdp", labelled_preset(labelled, 2, distributed__strategy="fsdp", **how))
    assert losses(parts) == pytest.approx(losses(copies), rel=2e-5)
    for ours, theirs in zip(events(parts, "evaluation"), events(copies, "evaluation"), strict=True):
        assert ours["metrics"] == pytest.approx(theirs["metrics"], rel=1e-5)
    assert [record["text"] for record in events(parts, "generation")] == [record["text"] for record in events(copies, "generation")]


def test_blocks_are_found_in_the_model_itself(ranks):
    found = ranks(1).run(names_of_blocks)[0]
    if found["bert"][0] == "BertEmbeddings":  # whether it may be split differs between versions of transformers
        del found["bert"][0]
    assert found == {"llama": ["LlamaDecoderLayer"] * 2, "gpt2": ["GPT2Block"] * 2, "bert": ["BertLayer", "BertLayer"],
                     "plain": ["Linear"] * 3, "tied": ["Linear"], "one": []}


def names_of_blocks(_rank: int) -> dict[str, list[str]]:
    import torch
    from torch import nn
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

    from engine.sharding import blocks
    from tests.engine.labelled import TINY_BERT
    from tests.engine.trainings import TINY

    def built(auto: Any, kind: str, values: dict[str, Any]) -> nn.Module:
        config = AutoConfig.for_model(kind, **{key: value for key, value in values.items() if key != "model_type"})
        with torch.device("meta"):
            return auto.from_config(config)

    plain, tied = nn.Module(), nn.Module()
    plain.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    tied.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
    tied.head = nn.Linear(2, 2)
    tied.head.weight = tied.layers[1].weight
    models = {"llama": built(AutoModelForCausalLM, "llama", TINY),
              "gpt2": built(AutoModelForCausalLM, "gpt2", {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 100}),
              "bert": built(AutoModelForSequenceClassification, "bert", TINY_BERT),
              "plain": plain, "tied": tied, "one": nn.Linear(2, 2)}
    return {name: [type(block).__name__ for block in blocks(model)] for name, model in models.items()}


def test_a_full_disk_on_one_rank_ends_the_run_on_all(ranks, tmp_path, data):
    run = new_run(tmp_path, sharded(data, checkpoints__every_steps=2))
    with pytest.raises(RankFailed, match="DiskError: checkpoint of step 4 could not be written.*no space left"):
        ranks(2).run(train_with_full_disk_on_rank_1, str(run.root), 4)
    assert run.checkpoint_steps() == [2] and [path.name for path in run.checkpoints.iterdir()] == ["step-00000002"]
    assert {record["exit_reason"]["kind"] for record in events(run, "run_ended")} == {"disk"}


def train_with_full_disk_on_rank_1(rank: int, root: str, step: int) -> None:
    import errno

    from torch.distributed.checkpoint import FileSystemWriter

    original = FileSystemWriter.write_data

    def write(self: Any, *args: Any) -> Any:
        if rank == 1 and f"{step:08d}" in str(self.path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, *args)

    FileSystemWriter.write_data = write
    try:
        train_on_rank(rank, root)
    finally:
        FileSystemWriter.write_data = original


def test_a_preset_that_says_fsdp_never_runs_as_something_else(ranks, tmp_path, data):
    run = new_run(tmp_path, sharded(data))
    with pytest.raises(RankFailed, match="PresetMismatch.*strategy is several models that know nothing of each other, the preset says fsdp"):
        ranks(2).run(train_without_sharding, str(run.root))
    assert events(run, "step") == []


def train_without_sharding(rank: int, root: str) -> None:
    from engine import sharding

    original = sharding.shard
    sharding.shard = lambda model, preset, device: model
    try:
        train_on_rank(rank, root)
    finally:
        sharding.shard = original


def test_reading_a_checkpoint_runs_no_code_in_it(ranks, tmp_path, data):
    run = new_run(tmp_path, sharded(data))
    ranks(2).run(train_on_rank, str(run.root), 2)
    (run.checkpoint(2) / "shards" / ".metadata").write_bytes(pickle.dumps(Trap(str(tmp_path / "ran"))))
    run.clear_stop()
    next_attempt(run, sharded(data))
    with pytest.raises(RankFailed, match="DiskError.*does not belong there"):
        ranks(2).run(train_on_rank, str(run.root))
    assert not (tmp_path / "ran").exists()


class Trap:
    def __init__(self, path: str):
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")
