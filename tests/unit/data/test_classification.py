"""Labelled texts: read, checked with the row and the column named, split by label, laid out for ranks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.contract.preset import Preset
from engine.data.classification import prepare_classification_data
from engine.data.labels import ordered_classes, stratified
from engine.data.order import WINDOW_STEPS, grouped_step_indices
from engine.data.texts import TextData, open_text_data
from engine.errors import DataError
from tests.unit.data.helpers import write_jsonl

BERT = {"model_type": "bert", "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 64}


def preset(train: Path | str, training: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **data: Any) -> Preset:
    return Preset.model_validate({
        "name": "test", "task": "text-classification", "model": model or {"from_config": dict(BERT)},
        "data": {"train": str(train), "max_length": 32, **data},
        "training": {"global_batch": 1, "micro_batch": 1, **(training or {})}})


def prepared(folder: Path, *args: Any, **kwargs: Any) -> TextData:
    prepare_classification_data(preset(*args, **kwargs), folder, lambda detail, share: None)
    return open_text_data(folder)


def rows(count: int = 40) -> list[dict[str, Any]]:
    return [{"text": f"{'good' if n % 4 else 'bad'} text number {n} " + "and more " * (n % 7), "label": "up" if n % 4 else "down"}
            for n in range(count)]


def test_texts_and_their_classes(tmp_path):
    data = prepared(tmp_path / "out", write_jsonl(tmp_path / "a.jsonl", rows()), valid=0.25)
    assert data.classes == ["down", "up"] and data.packing is False
    assert (len(data.train), len(data.valid)) == (30, 10)
    assert data.summary["train_classes"] == {"down": 7, "up": 23} and data.summary["valid_classes"] == {"down": 3, "up": 7}
    tokenizer = tokenizer_of(tmp_path / "out")
    batch = data.train.collate([3, 5])
    assert set(batch) == {"input_ids", "attention_mask", "labels"} and batch["labels"].tolist() == data.train.labels[[3, 5]].tolist()
    assert batch["input_ids"].shape[1] % 8 == 0 and (batch["attention_mask"].sum(1).numpy() == data.train.tokens[[3, 5]]).all()
    text = tokenizer.decode(batch["input_ids"][0][batch["attention_mask"][0].bool()], skip_special_tokens=True)
    assert text.startswith("good text number" if batch["labels"][0] else "bad text number")
    assert batch["input_ids"][0, 0] == tokenizer.eos_token_id, "a place to gather what was read"
    assert (data.train.targets == 1).all()
    every = np.concatenate([data.train._rows, data.valid._rows])
    assert sorted(every) == list(range(40))


def tokenizer_of(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder / "tokenizer")


def test_what_is_prepared_depends_on_the_preset_alone(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", rows())
    one, two = (prepared(tmp_path / name, path, valid=0.25) for name in "ab")
    assert one.summary["fingerprint"] == two.summary["fingerprint"]
    assert prepared(tmp_path / "c", path, valid=0.25, training={"seed": 1}).summary["fingerprint"] != one.summary["fingerprint"]


@pytest.mark.parametrize(("values", "classes"), [
    ([1, 0, 10, 2], ["0", "1", "2", "10"]),
    (["10", "9", "-1"], ["-1", "9", "10"]),
    ([True, False], ["false", "true"]),
    ([1.0, 2.0], ["1", "2"]),
    (["b", " a", "b"], ["a", "b"]),
])
def test_labels_are_names_or_whole_numbers(tmp_path, values, classes):
    data = prepared(tmp_path / "out", write_jsonl(tmp_path / "a.jsonl", [{"text": f"text {n}", "label": value} for n, value in enumerate(values)]))
    assert data.classes == classes
    assert [data.classes[at] for at in data.train.labels] == [{True: "true", False: "false"}.get(value, str(value).strip().removesuffix(".0")) if isinstance(value, bool) else str(value).strip().removesuffix(".0") for value in values]


def test_a_model_that_tells_these_classes_keeps_their_numbers():
    known = {"up": 0, "down": 1, "level": 2}
    assert ordered_classes(["down", "up"], known) == ["up", "down", "level"]
    assert ordered_classes(["down", "left"], known) == ["down", "left"]
    assert ordered_classes(["down", "up"], {"up": 3, "down": 4}) == ["down", "up"]


def bad(number: int, **change: Any) -> list[dict[str, Any]]:
    """Rows of which row `number`, from 1, is changed; a None takes the column out."""
    found = rows(12)
    found[number - 1] = {key: value for key, value in (found[number - 1] | change).items() if value != "(gone)"}
    return found


@pytest.mark.parametrize(("content", "data", "words"), [
    (bad(3, text="  "), {}, r"a.jsonl, line 3: its text is empty"),
    (bad(3, text=5), {}, r"a.jsonl, line 3: its text is 5, not text"),
    (bad(4, label=None), {}, r"a.jsonl, line 4: its label is empty: it has no label"),
    (bad(4, label=1.5), {}, r"a.jsonl, line 4: its label is 1.5, neither a name nor a whole number"),
    (bad(5, label="(gone)"), {}, r"a.jsonl, line 5: no column 'label'; it has 'text'"),
    ([row | {"label": "up"} for row in rows(6)], {}, r"all 6 rows of .*a.jsonl have the same label, 'up'; .* at least two classes"),
    ([{"text": f"text {n}", "label": f"name {n}"} for n in range(60)], {}, r"the column 'label' .* has 60 different values in 60 rows"),
    (rows(12), {"columns": {"label": "lable"}}, r"data.columns.label: there is no column 'lable' in .* \(did you mean label\?\)"),
    (rows(12), {"columns": {"lable": "label"}}, r"no role 'lable' for text-classification; roles are text, text_pair, label"),
    ([{"a": "x", "b": "y", "c": "z"}], {}, r"the text was not found for text-classification; the columns are 'a', 'b', 'c'"),
])
def test_what_cannot_be_used_is_named_with_its_row_and_column(tmp_path, content, data, words):
    with pytest.raises(DataError, match=words):
        prepared(tmp_path / "out", write_jsonl(tmp_path / "a.jsonl", content), **data)


def test_a_label_that_only_validation_has(tmp_path):
    train = write_jsonl(tmp_path / "a.jsonl", rows())
    valid = write_jsonl(tmp_path / "valid.jsonl", [{"text": "one", "label": "up"}, {"text": "two", "label": "upp"}])
    with pytest.raises(DataError, match=r"valid.jsonl, line 2: its label is 'upp', which no row of data.train has; the classes are 'down', 'up' \(did you mean 'up'\?\)"):
        prepared(tmp_path / "out", train, valid=str(valid))
    data = prepared(tmp_path / "out", train, valid=str(valid), on_bad_row="skip")
    assert len(data.valid) == 1 and data.valid.collate([0])["labels"].tolist() == [1]
    assert any("1 rows could not be used" in text for text in data.summary["warnings"])
    assert "no row to evaluate on has the class 'down'" in data.summary["warnings"]


def test_bad_rows_are_skipped_where_that_is_wished(tmp_path):
    data = prepared(tmp_path / "out", write_jsonl(tmp_path / "a.jsonl", bad(3, text="")), on_bad_row="skip")
    assert len(data.train) == 11 and data.summary["skipped_rows"] == 1


def test_two_columns_of_any_name_and_pairs(tmp_path):
    (tmp_path / "a.csv").write_text("review,stars\n" + "".join(f"text {n},{n % 5}\n" for n in range(20)))
    assert prepared(tmp_path / "one", tmp_path / "a.csv").summary["columns"] == {"text": "review", "label": "stars"}
    pairs = [{"premise": f"it rains {n}", "hypothesis": "it is wet", "label": n % 2} for n in range(8)]
    data = prepared(tmp_path / "two", write_jsonl(tmp_path / "b.jsonl", pairs))
    assert data.summary["columns"] == {"text": "premise", "text_pair": "hypothesis", "label": "label"}
    text = tokenizer_of(tmp_path / "two").decode(data.train.collate([0])["input_ids"][0], skip_special_tokens=False)
    assert text.count("<|endoftext|>") == 3 and "it rains 0" in text and "it is wet" in text


def test_long_texts_are_cut_and_counted(tmp_path):
    content = rows(8)
    content[2]["text"] = "word after word " * 40
    data = prepared(tmp_path / "out", write_jsonl(tmp_path / "a.jsonl", content), max_length=16)
    assert data.train.tokens.max() == 16 and any("longer than data.max_length 16" in text for text in data.summary["warnings"])


def test_a_split_is_stratified():
    labels = np.array([0] * 70 + [1] * 20 + [2] * 9 + [3])
    held = stratified(labels, 0.1, 7)
    assert Counter(labels[held].tolist()) == {0: 7, 1: 2, 2: 1}
    assert (held == stratified(labels, 0.1, 7)).all() and (held != stratified(labels, 0.1, 8)).any()
    two_each = stratified(np.array([0, 0, 1, 1, 2, 2]), 0.05, 1)
    assert two_each.sum() == 3
    assert not stratified(np.array([0, 1, 2]), 0.5, 1).any()
    assert stratified(np.array([0, 0, 1, 1]), 0.99, 1).sum() == 2, "something is left to train on"


@pytest.mark.parametrize(("n", "batch"), [(100, 8), (64, 8), (7, 8), (1000, 3), (8, 8), (300, 4)])
def test_like_lengths_share_a_step_and_every_epoch_holds_everything_once(n, batch):
    lengths = np.array([5 + (number * 37) % 91 for number in range(n)])
    steps = [grouped_step_indices(lengths, 5, step, batch) for step in range(3 * n // batch)]
    assert all(len(step) == batch for step in steps)
    stream = np.concatenate(steps)
    for epoch in range(len(stream) // n):
        first, last = -(-epoch * n // batch) * batch, (epoch + 1) * n // batch * batch
        whole = stream[first:last]
        assert len(set(whole.tolist())) == len(whole)
    assert sorted(np.bincount(stream, minlength=n))[0] >= len(stream) // n - 1
    assert all((np.diff(lengths[step]) <= 0).all() for step in steps)
    if n // batch >= WINDOW_STEPS:
        padding = np.mean([step_lengths.max() - step_lengths.mean() for step_lengths in (lengths[step] for step in steps)])
        assert padding < 0.3 * (lengths.max() - lengths.mean())


def test_the_summary_says_what_a_person_wants_to_know(tmp_path):
    data = prepared(tmp_path / "out", write_jsonl(tmp_path / "a.jsonl", rows()), valid=0.25)
    from engine.tasks.text_classification import describe_data

    assert describe_data(data).endswith("tokens: up 23, down 7")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["train_lengths"]["longest"] == int(data.train.tokens.max())


def test_no_data_and_too_little(tmp_path):
    with pytest.raises(DataError, match="global_batch 64"):
        prepared(tmp_path / "out", write_jsonl(tmp_path / "a.jsonl", rows(12)), training={"global_batch": 64})
    (tmp_path / "e.jsonl").write_text("")
    with pytest.raises(DataError, match="no row to train on"):
        prepared(tmp_path / "out", tmp_path / "e.jsonl")
