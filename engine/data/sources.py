"""Rows from wherever `data.train` or `data.valid` points: a file, a folder, a hub data set, or a built-in text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.data import builtin
from engine.data.readers import COMPRESSIONS, FORMATS, FileReader, file_format
from engine.data.rejects import Rejects
from engine.errors import DataError

#: A text file longer than the largest block is always cut at paragraphs: a tokenizer works a document at a time.
_LARGEST_BLOCK = 1_000_000
#: With fewer files than this, documents are cut so that a share of them can be held out for validation.
_FEW_FILES = 20
#: Files that describe a data set rather than hold it.
_DESCRIPTIONS = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "metadata.json"}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(:[\w.\[\]%:+-]+)?")
_SPLITS = {"train": re.compile(r"(^|[-_./])train(ing)?([-_./]|$)", re.I),
           "valid": re.compile(r"(^|[-_./])(valid|validation|val|dev)([-_./]|$)", re.I),
           "test": re.compile(r"(^|[-_./])(test|eval)([-_./]|$)", re.I)}


@dataclass(frozen=True, slots=True)
class Row:
    """One row and where it was found, for messages."""

    source: Any
    number: int
    values: dict[str, Any]

    @property
    def place(self) -> str:
        return self.source.place(self.number)


class Source(Protocol):
    """Rows in a fixed order; may be read several times. `share` is how much has been read, None where unknown.

    `notes` say what was chosen where there was a choice.
    """

    name: str
    share: float | None
    notes: list[str]

    def rows(self, rejects: Rejects) -> Iterator[Row]: ...


def class_names(source: Source, column: str) -> list[str] | None:
    """The names of the numbers in `column`, where the data set itself says them; known once rows were read."""
    features = getattr(getattr(source, "data", None), "features", None)
    return getattr(features[column], "names", None) if features and column in features else None


def open_source(where: str, split: str, subset: str | None = None) -> Source:
    """The source behind `where`; `split` is train or valid and picks files from a folder that holds both.

    Raises DataError when there is nothing there, it may not be read, or its format is not known.
    """
    try:
        return _open(where, split, subset)
    except OSError as error:
        raise DataError(f"data.{split}: {where} cannot be read: {error.strerror or error}.") from None


def _open(where: str, split: str, subset: str | None) -> Source:
    if where.startswith("builtin:"):
        if where != builtin.NAME:
            raise DataError(f"data.{split}: no built-in data {where!r}; there is {builtin.NAME}.")
        return _Builtin()
    path = Path(where).expanduser()
    if path.is_dir():
        if (path / "state.json").exists() or (path / "dataset_dict.json").exists():
            return _Hub(where, split, None, saved=True)
        return _Files(path, *_files_of(path, split))
    if path.exists():
        if file_format(path) is None:
            raise DataError(f"data.{split}: the format of {path} is not known by its name; known are "
                            f"{', '.join(FORMATS)}, and with {' or '.join(COMPRESSIONS)} after it.")
        return _Files(path, [path], [])
    if _HUB_ID.fullmatch(where) and file_format(path) is None and not where.startswith("."):
        return _Hub(where, split, subset)
    raise DataError(f"data.{split}: there is no file or folder {path}.")


def _files_of(folder: Path, split: str) -> tuple[list[Path], list[str]]:
    """The data files under a folder, sorted, and notes on what was left out."""
    files: list[Path] = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [path for name in sorted(names) if not name.startswith(".") and name not in _DESCRIPTIONS
                  and file_format(path := Path(where, name)) and path.is_file()]  # not a link that leads nowhere
    if not files:
        raise DataError(f"data.{split}: no data in the folder {folder}; files are known by their names: "
                        f"{', '.join(FORMATS)}.")
    notes: list[str] = []
    tables = [path for path in files if file_format(path) != "text"]
    if tables and len(tables) < len(files):  # a README beside the data is not data
        notes.append(f"{folder}: {len(files) - len(tables)} text files beside tables were left out")
        files = tables
    named = {kind: [path for path in files if pattern.search(path.relative_to(folder).as_posix())]
             for kind, pattern in _SPLITS.items()}
    wanted = named["train"] if split == "train" else named["valid"] or named["test"]
    if wanted and len(wanted) < len(files):
        notes.append(f"{folder}: of {len(files)} files the {len(wanted)} whose names say {split} were read")
        files = wanted
    elif split == "train" and not wanted and (named["valid"] or named["test"]):
        held = set(named["valid"]) | set(named["test"])
        if len(held) < len(files):
            notes.append(f"{folder}: {len(held)} files named as validation or test were left out")
            files = [path for path in files if path not in held]
    return files, notes


class _Files:
    """Local files one after the other."""

    def __init__(self, root: Path, files: list[Path], notes: list[str]):
        self.name, self.files, self.notes, self.share = str(root), files, notes, 0.0
        self._sizes = [path.stat().st_size for path in files]
        texts = [size for path, size in zip(files, self._sizes, strict=True) if file_format(path) == "text"]
        # many files: one document each. Few: about 64 documents, each long enough to have context within
        self._block = _LARGEST_BLOCK if len(texts) >= _FEW_FILES else min(max(sum(texts) // 64, 2_000), 32_000)

    def rows(self, rejects: Rejects) -> Iterator[Row]:
        done, total = 0, max(1, sum(self._sizes))
        for path, size in zip(self.files, self._sizes, strict=True):
            reader = FileReader(path, rejects, self._block)
            for number, values in reader.rows():
                self.share = (done + size * reader.share) / total
                yield Row(reader, number, values)
            done += size
        self.share = 1.0


class _Builtin:
    name = builtin.NAME

    def __init__(self) -> None:
        self.share, self.notes = 0.0, []
        self._documents: list[tuple[str, str]] = []  # small, and read twice where a tokenizer is trained

    def rows(self, rejects: Rejects) -> Iterator[Row]:
        if self._documents:
            for number, (_, text) in enumerate(self._documents, 1):
                self.share = number / len(self._documents)
                yield Row(self, number, {"text": text})
            return
        documents = []
        for name, text in builtin.python_docs(lambda share: setattr(self, "share", share)):
            documents.append((name, text))
            yield Row(self, len(documents), {"text": text})
        self._documents, self.share = documents, 1.0

    def place(self, number: int) -> str:
        name = f", {self._documents[number - 1][0]}" if number <= len(self._documents) else ""
        return f"{self.name}, document {number:,}{name}"


class _Hub:
    """A data set of the Hugging Face hub, or one that the `datasets` library saved to a folder."""

    def __init__(self, where: str, split: str, subset: str | None, saved: bool = False):
        self.name, self.share, self.notes = where, 0.0, []
        self._id, _, named = (where, "", "") if saved else where.partition(":")
        self._split = named or {"train": "train", "valid": "validation"}[split]
        self._subset, self._saved, self._key = subset, saved, split
        self.data: Any = None

    def _load(self) -> Any:
        import datasets

        try:
            if self._saved:
                data = datasets.load_from_disk(self._id)
                if isinstance(data, datasets.DatasetDict):
                    data = data[self._split]
                return data
            return datasets.load_dataset(self._id, self._subset, split=self._split)
        except KeyError:
            raise DataError(f"data.{self._key}: {self._id} has no split {self._split!r}.") from None
        except Exception as error:  # the library raises everything from OSError to its own kinds
            reason = " ".join(str(error).split())[:400] or type(error).__name__
            raise DataError(f"data.{self._key}: the data set {self._id} (split {self._split}"
                            f"{f', subset {self._subset}' if self._subset else ''}) cannot be loaded: {reason}\n"
                            "There is no local file or folder of this name either. Check the name, data.subset, the "
                            "split after a colon, and the network.") from None

    def rows(self, rejects: Rejects) -> Iterator[Row]:
        if self.data is None:
            self.data = self._load()
        number, total = 0, max(1, len(self.data))
        for batch in self.data.with_format("arrow").iter(batch_size=1000):
            self.share = number / total
            for values in batch.to_pylist():
                number += 1
                yield Row(self, number, values)
        self.share = 1.0

    def place(self, number: int) -> str:
        return f"{self.name}, row {number:,}"
