"""Every format gives the same rows, and what is broken is named with its file and row."""

from __future__ import annotations

import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest

from engine.data.readers import FORMATS
from engine.data.rejects import Rejects
from engine.data.sources import open_source
from engine.errors import DataError
from tests.unit.data.helpers import write_jsonl

ROWS = [{"text": f"row {number}, \"quoted\"; ünïcode\nline two", "label": str(number)} for number in range(5)]


def read(where, split="train", on_bad_row="fail", subset=None):
    source = open_source(str(where), split, subset)
    rejects = Rejects(on_bad_row)
    return [row.values for row in source.rows(rejects)], rejects


def as_csv(separator):
    quoted = [[f'"{value.replace(chr(34), chr(34) * 2)}"' for value in row.values()] for row in ROWS]
    return "\n".join(separator.join(fields) for fields in [["text", "label"], *quoted]) + "\n"


@pytest.mark.parametrize(("name", "content"), [
    ("d.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n\n"),
    ("d.ndjson", "\ufeff" + "\n".join(map(json.dumps, ROWS))),
    ("d.json", json.dumps(ROWS)),
    ("e.json", json.dumps({"version": "1", "data": ROWS})),
    ("lines.json", "\n".join(map(json.dumps, ROWS))),
    ("d.csv", as_csv(",")),
    ("s.csv", as_csv(";")),
    ("bom.csv", "\ufeff" + as_csv(",")),
    ("d.tsv", as_csv("\t")),
])
def test_formats(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert read(path)[0] == ROWS
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read(packed)[0] == ROWS
    with pyarrow.CompressedOutputStream(str(tmp_path / f"{name}.zst"), "zstd") as out:
        out.write(content.encode())
    assert read(tmp_path / f"{name}.zst")[0] == ROWS


def test_parquet(tmp_path):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "d.parquet")
    assert read(tmp_path / "d.parquet")[0] == ROWS
    (tmp_path / "d.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="d.parquet: not a readable Parquet file"):
        read(tmp_path / "d.parquet")


def test_one_text_file_becomes_documents_that_a_share_can_be_held_out_of(tmp_path):
    paragraphs = ["\r\n".join(f"line {line} of paragraph {number}" for line in range(8)) for number in range(400)]
    (tmp_path / "book.txt").write_bytes("\r\n\r\n".join(paragraphs).encode())
    rows, _ = read(tmp_path / "book.txt")
    assert 20 < len(rows) < 80
    assert "\n\n".join(row["text"] for row in rows) == "\n\n".join(paragraphs).replace("\r\n", "\n")


def test_a_folder_of_texts_has_one_document_a_file(tmp_path):
    for number in range(30):
        (tmp_path / f"{number:02}.md").write_text(f"# {number}\n\ntext\n\n" * 100)
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "picture.png").write_bytes(b"no")
    (tmp_path / "31.md").symlink_to(tmp_path / "gone.md")
    assert [row["text"].split("\n")[0] for row in read(tmp_path)[0]] == [f"# {number}" for number in range(30)]


def test_a_folder_of_tables_is_not_its_readme_and_not_its_test_split(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "README.md").write_text("about")
    (tmp_path / "dataset_infos.json").write_text("{}")
    for name in ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001", "test-00000"):
        write_jsonl(tmp_path / "data" / f"{name}.jsonl", [{"text": name}])
    source = open_source(str(tmp_path), "train")
    assert [row.values["text"][:11] for row in source.rows(Rejects("fail"))] == ["train-00000", "train-00001"]
    assert len(source.notes) == 2
    assert [row["text"][:10] for row in read(tmp_path, "valid")[0]] == ["validation"]


def test_broken_json_on_line_7012(tmp_path):
    lines = [json.dumps({"text": f"{number}"}) for number in range(8000)]
    lines[7011] = '{"text": "half'
    path = write_jsonl(tmp_path / "d.jsonl", lines)
    with pytest.raises(DataError, match=r"d\.jsonl, line 7,012: not valid JSON \(Unterminated.*\n.*on_bad_row: skip"):
        read(path)
    rows, rejects = read(path, on_bad_row="skip")
    assert len(rows) == 7999 and rejects.count == 1 and "line 7,012" in rejects.examples[0]


@pytest.mark.parametrize(("name", "content", "problem"), [
    ("a.jsonl", b'{"text": "ok"}\n{"text": "caf\xe9"}\n', r"a.jsonl, line 2: not UTF-8 text.*iconv.*byte 0xe9, column 14"),
    ("a.jsonl", '{"text": "ok"}'.encode("utf-16"), "a.jsonl, line 1: UTF-16, not UTF-8"),
    ("a.jsonl", b'{"text": "ok"}\n[1, 2]\n', "line 2: not an object"),
    ("a.jsonl", b"[" * 200_000, "line 1: "),
    ("a.json", b'{"a": [1], "b": [2]}', r"several lists \(a, b\)"),
    ("a.json", b'[{"text": "a"}, 3]', "item 2: not an object"),
    ("a.json", b'[{"text": "a"},\n {"text"]', "line 2: not valid JSON"),
    ("a.json", b"3", "found 3; expected a list"),
    ("a.csv", b"text,label\na,1\nb\n", "line 3: 1 fields, but the first line names 2 columns"),
    ("a.csv", b"text,label\na,1\ncaf\xe9,1\n", "line 3: not UTF-8"),
    ("a.csv", b"text,text\na,1\n", "two columns are named 'text'"),
    ("a.txt", b"ok\ncaf\xe9\n", "line 2: not UTF-8"),
    ("a.jsonl.gz", b"no gzip", "cannot be read: Not a gzipped file"),
    ("a.jsonl.gz", gzip.compress(b'{"text": "a"}\n' * 9000)[:-30], "cannot be read"),
    ("a.jsonl.zst", b"no zstd", "cannot be read"),
])
def test_files_and_rows_that_cannot_be_read(tmp_path, name, content, problem):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem):
        read(tmp_path / name)


def test_bad_rows_are_skipped_where_the_rest_is_good(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"text,label\na,1\nb\ncaf\xe9,1\nc,2\n")
    rows, rejects = read(tmp_path / "a.csv", on_bad_row="skip")
    assert [row["text"] for row in rows] == ["a", "c"] and rejects.count == 2


@pytest.mark.parametrize(("where", "problem"), [
    ("missing.jsonl", "no file or folder .*missing.jsonl"),
    ("data/missing.jsonl", "no file or folder"),
    ("/nowhere/at/all", "no file or folder"),
    ("builtin:java-docs", "there is builtin:python-docs"),
])
def test_nothing_there(where, problem):
    with pytest.raises(DataError, match=problem):
        open_source(where, "train")


def test_unknown_formats_are_refused_with_the_known_ones(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"")
    for where in (tmp_path / "a.xlsx", tmp_path):
        with pytest.raises(DataError, match=r"known .* \.parquet"):
            open_source(str(where), "train")
    assert ".jsonl" in FORMATS


def test_a_hub_data_set_that_cannot_be_loaded(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets, "load_dataset", _offline)
    with pytest.raises(DataError, match=r"owner/name \(split test, subset main\) cannot be loaded: no network") as caught:
        read("owner/name:test", subset="main")
    assert "no local file or folder" in str(caught.value)


def _offline(*args, **kwargs):
    raise ConnectionError("no network")


def test_a_hub_data_set(monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []

    def load_dataset(name, subset, split):
        asked.append((name, subset, split))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert read("owner/name", "valid")[0] == ROWS and asked == [("owner/name", None, "validation")]


def test_a_saved_data_set(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)}).save_to_disk(str(tmp_path / "saved"))
    assert read(tmp_path / "saved")[0] == ROWS
    with pytest.raises(DataError, match="no split 'validation'"):
        read(tmp_path / "saved", "valid")


def test_the_documentation_of_python():
    source = open_source("builtin:python-docs", "train")
    first = [row.values["text"] for row in source.rows(Rejects("fail"))]
    assert sum(map(len, first)) > 1_500_000 and len(first) > 300 and source.share == 1
    assert first == [row.values["text"] for row in source.rows(Rejects("fail"))]
    assert any("def loads(s," in text and "Deserialize" in text for text in first)
