"""From a preset to sequences: what is trained on, what is left out, and what is said about it."""

from __future__ import annotations

import os
import resource

import numpy as np
import pytest
import torch

from engine.data.order import step_indices
from engine.data.prepare import prepare_llm_data
from engine.data.store import open_llm_data
from engine.errors import DataError, DiskError, ModelError
from tests.unit.data.helpers import TINY, prepared, preset, sentences, talk, write_jsonl


def own_tokenizer(folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder / "tokenizer")


def shown(batch, row, tokenizer):
    """A sequence as text, and its targets as text."""
    labels = batch["labels"][row]
    return tokenizer.decode(batch["input_ids"][row]), tokenizer.decode(labels[labels != -100])


@pytest.fixture
def rows(tmp_path):
    return write_jsonl(tmp_path / "d.jsonl", sentences(100))


@pytest.mark.parametrize("packing", [True, False])
def test_pretraining_learns_every_token_of_every_document_once(tmp_path, rows, packing):
    data = prepared(tmp_path / "out", rows, packing=packing, max_length=16)
    tokenizer = own_tokenizer(tmp_path / "out")
    texts = [row["text"] for row in sentences(100)]
    expected = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in texts]
    batch = data.train.collate(range(len(data.train)))
    labels = batch["labels"][batch["labels"] != -100].tolist()
    assert sorted(labels) == sorted(token for ids in expected for token in ids[1:])
    assert data.train.targets.sum() == len(labels) == data.summary["train_targets"]
    assert data.train.rows == 100 and data.packing is packing and data.valid is None
    if packing:
        assert labels == [token for ids in expected for token in ids[1:]]  # in order, across the cuts
        assert (data.train.tokens[:-1] == 16).all()


def test_positions_and_labels_restart_with_each_document(tmp_path, rows):
    data = prepared(tmp_path / "out", rows, max_length=64)
    eos = data.summary["eos_id"]
    batch = data.train.collate(range(len(data.train)))
    for ids, positions, labels, size in zip(*(batch[name] for name in ("input_ids", "position_ids", "labels")),
                                            data.train.tokens, strict=True):
        ends = np.flatnonzero(ids[:size] == eos)
        assert (labels[ends] == -100).all() and (positions[0] == 0)
        assert all(positions[end + 1] == 0 for end in ends if end + 1 < size)
        assert (positions[1:][positions[1:] != 0] == positions[:-1][positions[1:] != 0] + 1).all()
        inside = [at for at in range(size - 1) if at not in ends]
        assert (labels[inside] == ids[np.array(inside) + 1]).all()
    assert batch["input_ids"].dtype == batch["labels"].dtype == batch["position_ids"].dtype == torch.int64
    assert all(value.is_contiguous() for value in batch.values())


def test_batches_are_padded_to_a_multiple_of_eight_within_the_longest_allowed(tmp_path, rows):
    data = prepared(tmp_path / "out", rows, packing=False, max_length=13)
    widths = {data.train.collate([index])["input_ids"].shape[1] for index in range(len(data.train))}
    assert widths == {8, 13}
    index = int(data.train.tokens.argmin())
    batch = data.train.collate([index])
    size = int(data.train.tokens[index])
    assert (batch["labels"][0, size:] == -100).all() and (batch["input_ids"][0, size:] == data.summary["pad_id"]).all()
    assert batch["position_ids"][0].tolist() == list(range(batch["position_ids"].shape[1]))


def test_the_same_preset_gives_the_same_data_and_the_seed_chooses_the_validation(tmp_path, rows):
    one, two, other = (prepared(tmp_path / name, rows, valid=0.1, training={"seed": seed}, task="llm-sft")
                       for name, seed in (("1", 1), ("2", 1), ("3", 2)))
    assert one.summary == two.summary and one.summary["fingerprint"] != other.summary["fingerprint"]
    assert one.train.rows == 90 and one.valid.rows == 10
    batches = [data.train.collate(step_indices(len(data.train), 1, 3, 2)) for data in (one, two)]
    assert all(torch.equal(batches[0][name], batches[1][name]) for name in batches[0])
    seen = {ids for data in (one.train, one.valid) for ids in documents(data)}
    assert len(seen) == 100 and not set(documents(one.train)) & set(documents(one.valid))


def documents(data):
    batch = data.collate(range(len(data)))
    for ids, positions, size in zip(batch["input_ids"], batch["position_ids"], data.tokens, strict=True):
        starts = [*np.flatnonzero(positions[:size] == 0).tolist(), int(size)]
        yield from (tuple(ids[a:b].tolist()) for a, b in zip(starts, starts[1:], strict=False))


def test_validation_from_a_file_of_its_own(tmp_path, rows):
    valid = write_jsonl(tmp_path / "v.jsonl", sentences(7))
    data = prepared(tmp_path / "out", rows, valid=str(valid))
    assert (data.train.rows, data.valid.rows) == (100, 7)


def test_chat_with_a_real_model(tmp_path, smollm2, tokenizer):
    path = write_jsonl(tmp_path / "d.jsonl", [
        {"messages": talk("What is a ring?", "Nodes that pass sums around.", "Why?", "Each link is used at once.")},
        {"messages": talk("Hi", "Hello")}])
    data = prepared(tmp_path / "out", path, "llm-sft", model={"path": str(smollm2)}, max_length=256)
    assert len(data.train) == 1 and data.train.rows == 2
    text, targets = shown(data.train.collate([0]), 0, tokenizer)
    assert targets == "Nodes that pass sums around.<|im_end|>Each link is used at once.<|im_end|>Hello<|im_end|>"
    assert text.count("You are a helpful AI assistant") == 2
    assert data.summary["stop_ids"] == [tokenizer.convert_tokens_to_ids("<|im_end|>")]
    saved = own_tokenizer(tmp_path / "out")
    assert saved.chat_template == tokenizer.chat_template and len(saved) == len(tokenizer)


@pytest.mark.parametrize(("row", "options", "expected"), [
    ({"prompt": "Q: one\nA:", "completion": " two"}, {}, " two<|im_end|>"),
    ({"prompt": "Q", "completion": "two"}, {"chat_template": "zephyr"}, "two<|im_end|>"),
    ({"instruction": "Add", "input": "1 2", "output": "three"}, {}, "three<|im_end|>"),
    ({"question": "Add", "answer": "three"}, {}, "three<|im_end|>"),
    ({"text": "all of it"}, {}, " of it<|im_end|>"),  # nothing comes before the first token
    ({"prompt": talk("a"), "completion": [{"role": "assistant", "content": "b"}]}, {}, "b<|im_end|>"),
    ({"q": "a", "a": "b", "text": "c"}, {"columns": {"prompt": "q", "completion": "a"}}, "b<|im_end|>"),
])
def test_pairs_and_text(tmp_path, smollm2, tokenizer, row, options, expected):
    data = prepared(tmp_path / "out", write_jsonl(tmp_path / "d.jsonl", [row]), "llm-sft", model={"path": str(smollm2)},
                    **options)
    text, targets = shown(data.train.collate([0]), 0, tokenizer)
    assert targets == expected
    if "instruction" in row:
        assert "<|im_start|>user\nAdd\n\n1 2<|im_end|>" in text


@pytest.mark.parametrize("chat", ["chatml", "zephyr"])
def test_a_chat_model_from_scratch(tmp_path, chat):
    path = write_jsonl(tmp_path / "d.jsonl", [{"messages": talk("Hi there", "Hello")}] * 4)
    data = prepared(tmp_path / "out", path, "llm-sft", chat_template=chat, max_length=256)
    tokenizer = own_tokenizer(tmp_path / "out")
    _, targets = shown(data.train.collate([0]), 0, tokenizer)
    assert targets == f"Hello{tokenizer.eos_token}" * 4 and data.summary["stop_ids"] == [tokenizer.eos_token_id]


def test_long_rows_are_cut_and_counted_and_hopeless_ones_refused(tmp_path, smollm2):
    long = " ".join(["word"] * 100)
    path = write_jsonl(tmp_path / "d.jsonl", [{"prompt": "a", "completion": long}, {"prompt": long, "completion": "a"}])
    model = {"path": str(smollm2)}
    with pytest.raises(DataError, match="line 2: of its 102 tokens none that is to be learned lies within data.max_length 64"):
        prepared(tmp_path / "out", path, "llm-sft", model=model)
    data = prepared(tmp_path / "out", path, "llm-sft", model=model, on_bad_row="skip")
    assert data.summary["truncated_rows"] == data.summary["skipped_rows"] == 1
    assert [warning.split()[0] for warning in data.summary["warnings"]] == ["1", "1"] and data.train.tokens.tolist() == [64]


@pytest.mark.parametrize(("task", "rows", "problem"), [
    ("llm-sft", [{"messages": talk("a", "b")}, {"messages": []}], "d.jsonl, line 2: the list of messages is empty"),
    ("llm-sft", [{"messages": talk("a", "b")}, {"massages": []}], "line 2: no column 'messages'; it has 'massages'"),
    ("llm-sft", [{"messages": talk("a")}], "line 1: no message is the assistant's"),
    ("llm-sft", [{"prompt": "a", "completion": ""}], "line 1: its completion is '', not text"),
    ("llm-pretrain", [{"text": "a b c"}, {"text": 3}], "line 2: its text is 3, not text"),
    ("llm-pretrain", [], "has no row to train on, it is empty"),
    ("llm-pretrain", [{"text": ""}, {"text": None}], "no row to train on: 2 were empty"),
    ("llm-pretrain", ["{", "{"], "d.jsonl, line 1: not valid JSON"),
])
def test_bad_data_names_the_row(tmp_path, task, rows, problem):
    path = write_jsonl(tmp_path / "d.jsonl", rows)
    with pytest.raises(DataError, match=problem):
        prepared(tmp_path / "out", path, task, chat_template="chatml" if task == "llm-sft" else None)
    assert os.listdir(tmp_path) == ["d.jsonl"]


def test_when_every_row_is_bad_the_first_is_shown(tmp_path, smollm2):
    path = write_jsonl(tmp_path / "d.jsonl", [{"messages": []}] * 3)
    with pytest.raises(DataError, match="3 rows could not be used. The first: .*line 1: the list of messages is empty"):
        prepared(tmp_path / "out", path, "llm-sft", model={"path": str(smollm2)}, on_bad_row="skip")


@pytest.mark.parametrize(("count", "data", "training", "problem"), [
    (1, {"valid": 0.5}, {}, "at least 2 rows are needed"),
    (40, {}, {"global_batch": 64}, "40 rows give .* sequences of up to 64 tokens, packed, but one step takes .* 64"),
    (40, {"packing": False}, {"global_batch": 64}, "40 rows give 40 sequences, but one step takes"),
])
def test_too_little_data(tmp_path, count, data, training, problem):
    path = write_jsonl(tmp_path / "d.jsonl", sentences(count))
    with pytest.raises(DataError, match=problem):
        prepared(tmp_path / "out", path, training=training, **data)


def test_an_empty_validation_file(tmp_path, rows):
    (tmp_path / "v.jsonl").write_text("")
    with pytest.raises(DataError, match="data.valid: .* has no row to evaluate on, it is empty"):
        prepared(tmp_path / "out", rows, valid=str(tmp_path / "v.jsonl"))


@pytest.mark.parametrize(("model", "problem"), [
    ({"path": "/nowhere/model"}, "tokenizer of /nowhere/model cannot be loaded"),
    ({"from_config": {**TINY, "vocab_size": 100}}, "vocab_size 100 is too small"),
    ({"from_config": "/nowhere/config.json"}, "configuration /nowhere/config.json cannot be read"),
    ({"from_config": {"model_type": "nonsense"}}, "neither vocab_size nor a model_type"),
])
def test_models_without_a_tokenizer_that_fits(tmp_path, rows, model, problem):
    with pytest.raises(ModelError, match=problem):
        prepared(tmp_path / "out", rows, model=model)


def test_a_tokenizer_too_large_for_the_model(tmp_path, rows, smollm2):
    with pytest.raises(ModelError, match="has 49,152 tokens, but model.from_config has vocab_size 400"):
        prepared(tmp_path / "out", rows, model={"from_config": dict(TINY), "tokenizer": str(smollm2)})


def test_auto_packing(tmp_path):
    short = write_jsonl(tmp_path / "s.jsonl", [{"text": "a b " * (1 + 7 * number % 30)} for number in range(600)])
    data = prepared(tmp_path / "1", short, "llm-sft", packing="auto", training={"micro_batch": 8, "global_batch": 8})
    assert data.packing and "padding" in data.summary["packing_reason"]
    even = write_jsonl(tmp_path / "e.jsonl", [{"text": f"{number} " + "a b " * 30} for number in range(600)])
    data = prepared(tmp_path / "2", even, "llm-sft", packing="auto", training={"micro_batch": 8, "global_batch": 8})
    assert not data.packing


def test_a_tokenizer_from_scratch_writes_any_text_and_survives_beside_a_llama(tmp_path, rows):
    from transformers import AutoConfig, AutoTokenizer

    prepared(tmp_path / "out", rows)
    tokenizer = own_tokenizer(tmp_path / "out")
    text = "def f(x):\n\treturn 'ünïcode 日本 🙂'  "
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text and len(tokenizer) <= TINY["vocab_size"]
    assert tokenizer.eos_token_id is not None and tokenizer.pad_token_id not in (None, tokenizer.eos_token_id)
    tokenizer.save_pretrained(tmp_path / "model")
    AutoConfig.for_model(**TINY).save_pretrained(tmp_path / "model")
    assert AutoTokenizer.from_pretrained(tmp_path / "model")(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_progress_rises_to_one_and_names_what_is_done(tmp_path, rows):
    seen = []
    prepare_llm_data(preset(rows, valid=0.1), tmp_path / "out", lambda *report: seen.append(report))
    shares = [share for _, share in seen]
    assert shares == sorted(shares) and shares[-1] == 1.0
    activities = [what for what in dict.fromkeys(what for what, _ in seen) if not what.startswith(("reading", "opening"))]
    assert activities == ["training the tokenizer", "tokenizing rows", "arranging sequences", "data ready"]


def test_a_folder_that_cannot_be_written(tmp_path, rows):
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="cannot be written"):
        prepared(tmp_path / "file" / "out", rows)


@pytest.mark.parametrize(("limit", "problem"), [(100_000, "written to .*out: File too large"),
                                                (1_000, "tokenizer cannot be saved|written to .*out: File too large")])
def test_a_full_disk(tmp_path, limit, problem):
    path = write_jsonl(tmp_path / "d.jsonl", sentences(4000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # the tokenizer fits in the first, the tokens in none
    try:
        with pytest.raises(DiskError, match=problem):
            prepared(tmp_path / "out", path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == ["d.jsonl"]


def test_what_a_killed_process_left_is_removed(tmp_path, rows):
    import platform
    import subprocess
    import sys

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, living = (tmp_path / f".out.{platform.node()}.{pid}" for pid in (dead.pid, os.getppid()))
    left.mkdir()
    living.mkdir()
    prepared(tmp_path / "out", rows)
    assert not left.exists() and living.exists()


def test_opening_what_is_not_there(tmp_path):
    with pytest.raises(DataError, match="Remove the folder"):
        open_llm_data(tmp_path)


def test_an_older_result_is_replaced(tmp_path, rows):
    prepared(tmp_path / "out", rows, max_length=32)
    assert prepared(tmp_path / "out", rows, max_length=16).max_length == 16
    assert sorted(os.listdir(tmp_path)) == ["d.jsonl", "out"]
