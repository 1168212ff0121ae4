"""Rows to flat documents on disk: read, understood, tokenized, a batch at a time, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.contract.preset import Preset
from engine.contract.problems import shown
from engine.data.chat import ChatRenderer, Sample, read_messages
from engine.data.columns import Columns, find_columns
from engine.data.rejects import Rejects, RowProblem
from engine.data.sources import Row, Source
from engine.data.tokenize import Encoder, shifted, trimmed

#: One batch for the tokenizer: enough to occupy all cores, little enough to show progress.
_BATCH_ROWS = 1000
_BATCH_CHARACTERS = 1_000_000

Progress = Callable[[float | None], None]


@dataclass
class Documents:
    """Tokenized documents of one source. Document i is `tokens[starts[i]:starts[i] + lengths[i]]` and came from row
    `rows[i]` (numbered from 0 over the rows that were used); `labels` beside them are shifted already."""

    tokens: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    rows: np.ndarray
    columns: Columns | None
    row_count: int = 0
    empty_rows: int = 0
    truncated_rows: int = 0
    divided_rows: int = 0

    @property
    def starts(self) -> np.ndarray:
        return np.cumsum(self.lengths) - self.lengths


def row_texts(preset: Preset, source: Source, rejects: Rejects, progress: Progress) -> Iterator[str]:
    """What the rows say, as plain text, to train a tokenizer on."""
    columns: Columns | None = None
    for row in source.rows(rejects):
        columns = columns or find_columns(preset.task, list(row.values), preset.data.columns, source.name)
        try:
            yield from _plain_texts(columns, row.values)
        except RowProblem as problem:
            rejects.add(row.place, str(problem))
        progress(source.share)


def _plain_texts(columns: Columns, values: dict[str, Any]) -> Iterator[str]:
    if columns.kind == "messages":
        for message in read_messages(_value(values, columns.messages)):
            yield message["content"]
    elif columns.kind == "pair":
        for name in (columns.prompt, columns.context, columns.completion):
            if name and isinstance(values.get(name), str):
                yield values[name]
    else:
        yield _text(values, columns.text) or ""


class Collector:
    """Reads one source to `Documents`."""

    def __init__(self, preset: Preset, tokenizer: Any, rejects: Rejects, max_length: int):
        self._task, self._data = preset.task, preset.data
        self._tokenizer, self._encoder = tokenizer, Encoder(tokenizer)
        self._rejects, self._max_length = rejects, max_length
        self._renderer: ChatRenderer | None = None

    def collect(self, source: Source, folder: Path, progress: Progress) -> Documents:
        """The documents of `source`, kept in two files in `folder`; an existing folder, one for each source.

        Raises DataError for columns or rows that cannot be used, OSError when the disk is full.
        """
        columns: Columns | None = None
        lengths, rows = array("q"), array("q")
        divided_before = self._renderer.divided if self._renderer else 0
        result = Documents(*[np.zeros(0, dtype=np.int32)] * 2, *[np.zeros(0, dtype=np.int64)] * 2, columns=None)
        paths = folder / "tokens.bin", folder / "labels.bin"
        with open(paths[0], "wb") as tokens, open(paths[1], "wb") as labels:
            for batch in batches(source.rows(self._rejects)):
                if columns is None:
                    columns = find_columns(self._task, list(batch[0].values), self._data.columns, source.name)
                use = self._documents if self._task == "llm-pretrain" else self._samples
                for pairs in use(batch, columns, result):
                    for ids, shifted_labels in pairs:
                        tokens.write(ids.tobytes())
                        labels.write(shifted_labels.tobytes())
                        lengths.append(len(ids))
                        rows.append(result.row_count)
                    result.row_count += 1
                progress(source.share)
        result.columns = columns
        result.divided_rows = (self._renderer.divided if self._renderer else 0) - divided_before
        result.lengths, result.rows = (np.array(values, dtype=np.int64) for values in (lengths, rows))
        if len(lengths):
            result.tokens, result.labels = (np.memmap(path, dtype=np.int32, mode="r") for path in paths)
        return result

    def _documents(self, batch: list[Row], columns: Columns, result: Documents) -> Iterator[list]:
        texts: list[str] = []
        for row in batch:
            try:
                text = _text(row.values, columns.text)
            except RowProblem as problem:
                self._rejects.add(row.place, str(problem))
                continue
            if text is None:
                result.empty_rows += 1
            else:
                texts.append(text)
        for ids in self._encoder.documents(texts):
            if len(ids):
                yield [(ids, shifted(ids))]
            else:
                result.empty_rows += 1

    def _samples(self, batch: list[Row], columns: Columns, result: Documents) -> Iterator[list]:
        used: list[tuple[Row, int]] = []
        samples: list[Sample] = []
        for row in batch:
            try:
                mine = self._row_samples(columns, row.values)
            except RowProblem as problem:
                self._rejects.add(row.place, str(problem))
                continue
            if mine:
                used.append((row, len(mine)))
                samples += mine
            else:
                result.empty_rows += 1
        encoded = iter(self._encoder.samples(samples))
        for row, count in used:
            pairs, was_cut, longest = [], False, 0
            for ids, wanted in (next(encoded) for _ in range(count)):
                inputs, labels, lost = trimmed(ids, wanted, self._max_length)
                was_cut, longest = was_cut or lost, max(longest, len(ids))
                if len(inputs):
                    pairs.append((inputs, labels))
            if pairs:
                result.truncated_rows += was_cut
                yield pairs
            elif was_cut:
                self._rejects.add(row.place, f"of its {longest:,} tokens none that is to be learned lies within "
                                             f"data.max_length {self._max_length:,}")
            else:
                self._rejects.add(row.place, "no token in it is to be learned")

    def _row_samples(self, columns: Columns, values: dict[str, Any]) -> list[Sample]:
        if columns.kind == "text":
            text = _text(values, columns.text)
            return [] if text is None else [Sample(text, ((0, len(text)),), plain=True)]
        if columns.kind == "messages":
            return self._chat(read_messages(_value(values, columns.messages)), values.get("tools"))
        return self._pair(columns, values)

    def _chat(self, messages: list[dict[str, Any]], tools: Any = None) -> list[Sample]:
        self._renderer = self._renderer or ChatRenderer(self._tokenizer)
        return self._renderer.samples(messages, tools if isinstance(tools, list) and tools else None)

    def _pair(self, columns: Columns, values: dict[str, Any]) -> list[Sample]:
        """A prompt with its completion: a chat turn where the preset asks for a template or the columns are those of
        a question and its answer and the tokenizer has one; else plain text and its continuation."""
        prompt, completion = _value(values, columns.prompt), _value(values, columns.completion)
        if isinstance(prompt, list) and isinstance(completion, list):
            return self._chat(read_messages(prompt + completion), values.get("tools"))
        for name, value in ((columns.prompt, prompt), (columns.completion, completion)):
            if not isinstance(value, str) or not value.strip():
                raise RowProblem(f"its {name} is {shown(value)}, not text")
        context = values.get(columns.context or "")
        question = f"{prompt}\n\n{context}" if isinstance(context, str) and context.strip() else prompt
        if self._data.chat_template or (columns.natural and self._tokenizer.chat_template):
            return self._chat([{"role": "user", "content": question}, {"role": "assistant", "content": completion}])
        if columns.natural:
            question += "\n\n"
        return [Sample(question + completion, ((len(question), len(question) + len(completion)),), plain=True)]


def _value(values: dict[str, Any], column: str | None) -> Any:
    if column not in values:
        raise RowProblem(f"no column {column!r}; it has {', '.join(map(repr, values)) or 'none'}")
    return values[column]


def _text(values: dict[str, Any], column: str | None) -> str | None:
    """The text of a row; None when there is none in it, which is no fault."""
    text = _value(values, column)
    if text is None:
        return None
    if not isinstance(text, str):
        raise RowProblem(f"its {column} is {shown(text)}, not text")
    return text if text.strip() else None


def batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Rows by as many as are worth tokenizing at once."""
    batch: list[Row] = []
    characters = 0
    for row in rows:
        batch.append(row)
        characters += sum(len(value) for value in row.values.values() if isinstance(value, str))
        if len(batch) >= _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
