"""`prepare_classification_data`: from rows with a text and a label to tokenized texts that ranks can share."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.contract.preset import Preset
from engine.contract.problems import shown
from engine.data.collect import batches
from engine.data.columns import LabelColumns, find_label_columns
from engine.data.labels import check_classes, class_number, ordered_classes, read_label, stratified
from engine.data.rejects import Rejects, RowProblem
from engine.data.sources import Row, Source, class_names, open_source
from engine.data.store import write_summary
from engine.data.texts import TextEncoder, write_texts
from engine.data.tokenizer import TRAINING_CHARACTERS, config_value, load_tokenizer, needs_training, train_tokenizer
from engine.data.workspace import Report, building, fail_empty, fingerprint, number, part, skipped_warning, throttled
from engine.errors import DataError


def prepare_classification_data(preset: Preset, folder: Path, progress: Report) -> None:
    """Read, check and tokenize the labelled texts of `preset` into `folder`, which appears only when it is complete.

    The result depends on the preset and the data alone. Raises DataError naming row and column, ModelError for the
    tokenizer, DiskError when `folder` cannot be written.
    """
    if not isinstance(preset.data.max_length, int):
        raise DataError("data.max_length is still auto: the preset must be resolved first.")
    with building(folder) as temporary:
        _Preparation(preset, temporary, throttled(progress)).run()


@dataclass
class _Texts:
    """Tokenized texts of one source, in files; `names` are the classes of the rows, `places` where these are."""

    tokens: Path
    types: Path | None
    lengths: np.ndarray
    names: list[str]
    places: list[str]
    columns: LabelColumns | None
    truncated: int


class _Preparation:
    def __init__(self, preset: Preset, folder: Path, report: Report):
        self.preset, self.folder, self.report = preset, folder, report
        self.rejects = Rejects(preset.data.on_bad_row)
        self.warnings: list[str] = []

    def run(self) -> None:
        data = self.preset.data
        source = open_source(data.train or "", "train", data.subset)
        valid_source = open_source(data.valid, "valid", data.subset) if isinstance(data.valid, str) else None
        tokenizer, done = self._tokenizer(source)
        tokenizer.save_pretrained(self.folder / "tokenizer")
        encoder = TextEncoder(tokenizer, int(data.max_length))
        train = self._collect(encoder, source, "train", done, 0.85 if valid_source else 0.95)
        counts = Counter(train.names)
        check_classes(counts, train.columns.label, source.name)
        known = config_value(self.preset, "label2id") if self.preset.model.path else None
        classes = ordered_classes(counts, known)
        numbers = {name: at for at, name in enumerate(classes)}
        labels = np.array([numbers[name] for name in train.names], dtype=np.int64)
        held = stratified(labels, data.valid, self.preset.training.seed) if isinstance(data.valid, float) else None
        valid: _Texts | None = None
        summary: dict[str, Any] = {}
        self._write(train, labels, "train")
        if valid_source is not None:
            valid, valid_labels = self._valid(encoder, valid_source, numbers)
            summary |= self._chosen("valid", valid.lengths, valid_labels, None, classes)
        elif held is not None:
            if not held.any():
                raise DataError(f"data.valid: {data.valid:g} of the rows cannot be held out: no class has two. Leave "
                                "data.valid out, or give a file of its own.")
            summary |= self._chosen("valid", train.lengths, labels, held, classes)
        summary |= self._chosen("train", train.lengths, labels, None if held is None else ~held, classes)
        self._check_enough(summary["train_rows"])
        self._notes(summary, classes, train, valid)
        write_summary(self.folder, {
            "task": self.preset.task, "max_length": int(data.max_length), "pad_id": encoder.pad_id, "classes": classes,
            "columns": train.columns.named(), "valid_of": "valid" if valid else "train" if held is not None else None,
            "skipped_rows": self.rejects.count, "skipped_examples": self.rejects.examples,
            "vocab_size": len(tokenizer), **summary, "warnings": self.warnings, "fingerprint": fingerprint(self.folder)})
        self.report("data ready", 1.0)

    def _tokenizer(self, source: Source) -> tuple[Any, float]:
        """The tokenizer, and the share of the whole work that is done with it."""
        if not needs_training(self.preset):
            self.report("loading the tokenizer", 0.0)
            return load_tokenizer(self.preset, writes=False), 0.02
        texts = self._plain_texts(source)
        first = next(texts, None)
        if first is None:
            fail_empty(source.name, "train", 0, 0, self.rejects)
        return framed(train_tokenizer(self.preset, itertools.chain([first], texts))), 0.35

    def _plain_texts(self, source: Source) -> Iterator[str]:
        """What the rows say, up to as much as matters to a tokenizer; bad rows are judged when they are read to learn."""
        columns, left = None, TRAINING_CHARACTERS
        for row in source.rows(Rejects("skip")):
            columns = columns or find_label_columns(list(row.values), self.preset.data.columns, source.name)
            for text in (row.values.get(columns.text), row.values.get(columns.pair or "")):
                if isinstance(text, str) and text.strip() and left > 0:
                    left -= len(text)
                    yield text
            self.report("reading text for the tokenizer", part(source.share, 0.0, 0.25))

    def _collect(self, encoder: TextEncoder, source: Source, split: str, low: float, high: float) -> _Texts:
        """All usable rows of `source`, tokenized. Raises DataError when there is none."""
        rejected = self.rejects.count
        lengths, names, places = array("q"), [], []
        columns: LabelColumns | None = None
        truncated = 0
        work = self.folder / "work"
        paths = work / f"{split}-tokens.bin", work / f"{split}-types.bin"
        with open(paths[0], "wb") as tokens, open(paths[1], "wb") as types:
            for batch in batches(source.rows(self.rejects)):
                if columns is None:
                    columns = find_label_columns(list(batch[0].values), self.preset.data.columns, source.name)
                rows = list(self._usable(batch, columns, class_names(source, columns.label)))
                encoded = encoder.encode([(text, pair) for _, text, pair, _ in rows])
                for (place, _, _, name), (ids, kinds, cut) in zip(rows, encoded, strict=True):
                    tokens.write(ids.tobytes())
                    types.write(kinds.tobytes())
                    lengths.append(len(ids))
                    names.append(name)
                    places.append(place)
                    truncated += cut
                self.report(f"tokenizing {split} rows" if split == "valid" else "tokenizing rows",
                            part(source.share, low, high))
        self.warnings += source.notes
        if not names:
            fail_empty(source.name, split, 0, self.rejects.count - rejected, self.rejects)
        return _Texts(paths[0], paths[1] if encoder.has_types else None, np.array(lengths, dtype=np.int64), names, places,
                      columns, truncated)

    def _usable(self, batch: list[Row], columns: LabelColumns, names: list[str] | None) -> Iterator[tuple[str, str, str | None, str]]:
        """(place, text, second text, class) of each row that has them."""
        for row in batch:
            try:
                text = _text(row.values, columns.text)
                pair = _text(row.values, columns.pair) if columns.pair else None
                if columns.label not in row.values:
                    raise RowProblem(f"no column {columns.label!r}; it has {', '.join(map(repr, row.values)) or 'none'}")
                yield row.place, text, pair, read_label(row.values[columns.label], columns.label, names)
            except RowProblem as problem:
                self.rejects.add(row.place, str(problem))

    def _valid(self, encoder: TextEncoder, source: Source, numbers: dict[str, int]) -> tuple[_Texts, np.ndarray]:
        """The validation rows whose class the training rows have, written. Raises DataError at another one, or skips it."""
        valid = self._collect(encoder, source, "valid", 0.85, 0.95)
        labels = np.full(len(valid.names), -1, dtype=np.int64)
        for at, (name, place) in enumerate(zip(valid.names, valid.places, strict=True)):
            try:
                labels[at] = class_number(name, numbers, valid.columns.label)
            except RowProblem as problem:
                self.rejects.add(place, str(problem))
        if (labels < 0).all():
            fail_empty(source.name, "valid", 0, len(labels), self.rejects)
        self._write(valid, labels, "valid")
        return valid, labels

    def _write(self, texts: _Texts, labels: np.ndarray, split: str) -> None:
        write_texts(self.folder / split, texts.tokens, texts.types, texts.lengths, labels)

    def _chosen(self, split: str, lengths: np.ndarray, labels: np.ndarray, chosen: np.ndarray | None,
                classes: list[str]) -> dict[str, Any]:
        """Note which rows belong to a split; returns their account for the summary."""
        rows = np.flatnonzero(labels >= 0 if chosen is None else chosen & (labels >= 0))
        (self.folder / split).mkdir(exist_ok=True)
        np.save(self.folder / split / "rows.npy", rows)
        counts = np.bincount(labels[rows], minlength=len(classes))
        return {f"{split}_rows": len(rows), f"{split}_tokens": int(lengths[rows].sum()),
                f"{split}_classes": dict(zip(classes, counts.tolist(), strict=True)),
                f"{split}_lengths": {name: int(value) for name, value in zip(
                    ("shortest", "median", "p90", "longest"), np.quantile(lengths[rows], (0, 0.5, 0.9, 1)), strict=True)}}

    def _check_enough(self, rows: int) -> None:
        wanted = number(self.preset.training.global_batch, 1)
        if rows < wanted:
            raise DataError(f"data.train: {rows:,} rows, but one step takes training.global_batch {wanted:,}. Give more data, "
                            "or a smaller training.global_batch.")

    def _notes(self, summary: dict[str, Any], classes: list[str], train: _Texts, valid: _Texts | None) -> None:
        self.warnings += skipped_warning(self.rejects)
        cut = train.truncated + (valid.truncated if valid else 0)
        if cut:
            self.warnings.append(f"{cut:,} texts are longer than data.max_length {self.preset.data.max_length:,} tokens and were "
                                 "cut there")
        for split in ("train", "valid"):
            counts = summary.get(f"{split}_classes", {})
            without = [name for name in classes if counts and not counts[name]]
            if without:
                self.warnings.append(f"no row to {'train on' if split == 'train' else 'evaluate on'} has the class "
                                     f"{', '.join(shown(name, 30) for name in without[:5])}"
                                     f"{' ...' if len(without) > 5 else ''}")


def _text(values: dict[str, Any], column: str) -> str:
    """The text of a row. Raises RowProblem."""
    if column not in values:
        raise RowProblem(f"no column {column!r}; it has {', '.join(map(repr, values)) or 'none'}")
    text = values[column]
    if text is None or (isinstance(text, str) and not text.strip()):
        raise RowProblem(f"its {column} is empty")
    if not isinstance(text, str):
        raise RowProblem(f"its {column} is {shown(text)}, not text")
    return text


def framed(tokenizer: Any) -> Any:
    """A tokenizer trained on the data, made to put its mark before, between and after texts: a place for the model to
    gather what it read, and the end of the first of two texts."""
    from tokenizers.processors import TemplateProcessing

    mark = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{mark} $A {mark}", pair=f"{mark} $A {mark} $B:1 {mark}:1", special_tokens=[(mark, tokenizer.eos_token_id)])
    return tokenizer
