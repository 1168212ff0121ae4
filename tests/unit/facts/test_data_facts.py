"""Data facts: rows, columns, kind and lengths without reading large files whole; and data that cannot be used."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from engine.contract.load import parse_preset
from wizard.errors import InvalidError
from wizard.facts import sampling
from wizard.facts.data import check_columns, read_data_facts
from wizard.facts.locate import absolute, is_path

CHAT = {"messages": [{"role": "user", "content": "four"}, {"role": "assistant", "content": "sixsix"}], "source": "x"}


def write(path: Path, rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_a_chat(tmp_path):
    write(tmp_path / "d.jsonl", [CHAT] * 30)
    facts = read_data_facts("d.jsonl", tmp_path)
    assert (facts.kind, facts.rows, facts.columns, facts.roles) == (
        "chat",
        30,
        ["messages", "source"],
        {"messages": "messages"},
    )
    assert facts.lengths.mean == 10 and facts.lengths.rows == 30


@pytest.mark.parametrize(
    "row,kind,roles",
    [
        ({"text": "a"}, "text", {"text": "text"}),
        ({"id": 3, "body": "a"}, "text", {"text": "body"}),
        ({"Prompt": "a", "Completion": "b"}, "prompt-completion", {"prompt": "Prompt", "completion": "Completion"}),
        (
            {"instruction": "a", "output": "b", "n": 1},
            "prompt-completion",
            {"prompt": "instruction", "completion": "output"},
        ),
        ({"conversations": [{"from": "human", "value": "hi"}]}, "chat", {"messages": "conversations"}),
        ({"turns": [{"role": "user", "content": "hi"}]}, "chat", {"messages": "turns"}),
        ({"a": "x", "b": "y"}, "unknown", {}),
        ({"n": 1}, "unknown", {}),
    ],
    ids=str,
)
def test_kinds(tmp_path, row, kind, roles):
    write(tmp_path / "d.jsonl", [row] * 3)
    facts = read_data_facts("d.jsonl", tmp_path)
    assert (facts.kind, facts.roles) == (kind, roles)


def test_a_large_file_is_not_parsed_whole_but_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "_SAMPLE_BYTES", 1000)
    write(tmp_path / "d.jsonl", [{"text": "x" * 50}] * 2000)
    facts = read_data_facts("d.jsonl", tmp_path)
    assert facts.rows == 2000 and facts.lengths.rows < 30
    monkeypatch.setattr(sampling, "_COUNT_BYTES", 1000)
    facts = read_data_facts("d.jsonl", tmp_path)
    assert facts.rows is None and "large" in facts.unknown["rows"]


def test_csv_tsv_json_and_compressed(tmp_path):
    (tmp_path / "a.csv").write_text('question,answer\n"line\nbreak",b\nc,d\n')
    (tmp_path / "b.tsv").write_text("text\tn\nhello\t1\n")
    (tmp_path / "c.json").write_text(json.dumps({"version": 1, "data": [{"text": "a"}, {"text": "b"}]}))
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as handle:
        handle.write('{"text": "abc"}\n' * 5)
    assert [read_data_facts(name, tmp_path).rows for name in ("a.csv", "b.tsv", "c.json", "d.jsonl.gz")] == [2, 1, 2, 5]
    assert read_data_facts("a.csv", tmp_path).kind == "prompt-completion"


def test_a_large_json_array_is_sampled(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "_SAMPLE_BYTES", 500)
    (tmp_path / "d.json").write_text(json.dumps([{"text": "x" * 40}] * 500))
    facts = read_data_facts("d.json", tmp_path)
    assert facts.rows is None and facts.kind == "text" and facts.lengths.mean == 40


def test_parquet(tmp_path):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"text": ["abc"] * 7, "n": list(range(7))}), tmp_path / "d.parquet")
    facts = read_data_facts("d.parquet", tmp_path)
    assert (facts.rows, facts.columns, facts.kind, facts.lengths.mean) == (7, ["text", "n"], "text", 3)


def test_a_folder_leaves_readme_and_held_out_files_aside(tmp_path):
    write(tmp_path / "d" / "train-1.jsonl", [{"text": "a"}] * 3)
    write(tmp_path / "d" / "train-2.jsonl", [{"text": "a"}] * 4)
    write(tmp_path / "d" / "test.jsonl", [{"text": "a"}] * 100)
    (tmp_path / "d" / "README.md").write_text("about")
    facts = read_data_facts("d", tmp_path)
    assert (facts.rows, facts.files) == (7, 2)


def test_text_files_have_bytes_not_rows(tmp_path):
    (tmp_path / "a.txt").write_text("hello\n\nworld\n")
    facts = read_data_facts("a.txt", tmp_path)
    assert (facts.kind, facts.rows, facts.bytes) == ("text", None, 13)


def test_bad_lines_are_counted(tmp_path):
    (tmp_path / "d.jsonl").write_text('{"text": "a"}\nnot json\n[1]\n')
    assert read_data_facts("d.jsonl", tmp_path).bad_rows == 2


@pytest.mark.parametrize(
    "source,message",
    [
        ("nothing.jsonl", "does not exist"),
        ("empty.jsonl", "is empty"),
        ("blank.txt", "is empty"),
        ("bad.jsonl", "no usable row"),
        ("x.docx", "not known by its name"),
        ("folder", "no data files"),
        ("broken.json", "line 1"),
        ("broken.parquet", "Parquet"),
        ("header.csv", "is empty"),
        ("folder/nothing", "does not exist"),
        ("builtin:other", "no built-in"),
    ],
)
def test_unusable_data_is_one_clear_error(tmp_path, source, message):
    for name, text in {
        "empty.jsonl": "",
        "blank.txt": " \n",
        "bad.jsonl": "no\nno\n",
        "x.docx": "x",
        "broken.json": "[1,",
        "broken.parquet": "x",
        "header.csv": "a,b\n",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidError, match=message):
        read_data_facts(source, tmp_path)


def test_a_slip_of_the_pen_is_answered_with_what_is_there(tmp_path):
    write(tmp_path / "dialogues.jsonl", [CHAT])
    with pytest.raises(InvalidError) as caught:
        read_data_facts("dialoges.jsonl", tmp_path)
    assert "did you mean dialogues.jsonl" in caught.value.todo


def test_hub_and_builtin_are_not_touched(tmp_path):
    assert not read_data_facts("owner/data:train[:10%]", tmp_path).found
    assert read_data_facts("builtin:python-docs", tmp_path).kind == "text"


def preset(**changes: str):
    lines = {"model": "{path: owner/model}", "data": "{train: d.jsonl}"} | changes
    return parse_preset(
        "version: 1\nname: t\ntask: llm-sft\n" + "".join(f"{key}: {value}\n" for key, value in lines.items())
    )


def test_a_wrong_column_names_those_that_exist(tmp_path):
    write(tmp_path / "d.jsonl", [CHAT])
    facts = read_data_facts("d.jsonl", tmp_path)
    with pytest.raises(InvalidError) as caught:
        check_columns(preset(data="{train: d.jsonl, columns: {messages: mesages}}"), facts)
    assert "'mesages'" in str(caught.value) and "messages, source" in str(caught.value)
    check_columns(preset(data="{train: d.jsonl, columns: {messages: messages}}"), facts)


def test_paths_become_absolute_and_ids_stay(tmp_path):
    (tmp_path / "m").mkdir()
    moved = absolute(
        preset(model="{path: m, tokenizer: owner/tok}", data="{train: sub/../d.jsonl, valid: owner/valid}"), tmp_path
    )
    assert (moved.model.path, moved.model.tokenizer) == (str(tmp_path / "m"), "owner/tok")
    assert (moved.data.train, moved.data.valid) == (str(tmp_path / "d.jsonl"), "owner/valid")
    assert absolute(moved, Path("/elsewhere")) == moved


@pytest.mark.parametrize(
    "text,data,expected",
    [
        ("owner/name", False, False),
        ("gpt2", False, False),
        ("./x", False, True),
        ("~/x", True, True),
        ("a/b/c", False, True),
        ("d.jsonl", True, True),
        ("plain", True, True),
        ("owner/name:train", True, False),
        ("builtin:python-docs", True, False),
        ("folder/name", True, True),
        ("C:\\data\\x", True, True),
    ],
)
def test_what_is_a_path(tmp_path, text, data, expected):
    (tmp_path / "folder").mkdir()
    assert is_path(text, tmp_path, data) is expected
